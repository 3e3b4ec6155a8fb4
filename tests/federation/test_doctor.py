"""The doctor names each planted fault, and nothing else; the network ones over real sockets and real TLS."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest

from intarsia.federation.certificates.authority import Authority
from intarsia.federation.doctor import State, examine
from intarsia.federation.kit_folder import SERVER, install, write_study
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.federation.study_file import Server, Study

CELL = "4711.25"


class Listener:
    """A server on this machine with certificates of a study: TLS 1.3, and an answer with the date, as the engine gives."""

    def __init__(self, folder, credentials, clock=timedelta()):
        for name, content in zip(("key", "crt", "root"), credentials, strict=True):
            (folder / f"listener.{name}").write_bytes(content)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.load_cert_chain(folder / "listener.crt", folder / "listener.key")
        self._context.load_verify_locations(folder / "listener.root")
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._clock, self._socket = clock, socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            try:
                with self._context.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(4096)
                    date = format_datetime(datetime.now(UTC) + self._clock, usegmt=True)
                    secured.sendall(f"HTTP/1.1 404 Not Found\r\nDate: {date}\r\n\r\n".encode())
            except OSError:
                connection.close()

    def close(self):
        with contextlib.suppress(OSError):  # it was closed before
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture(scope="module")
def authority():
    return Authority.create("heart")


@pytest.fixture
def make_kit(tmp_path, authority):
    """Make the kit of participant "a" for a server at this port, without the engine."""

    def make(port, host="localhost", signed_by=authority, **lifetime):
        study = Study("heart", ("a", "b"), n_clusters=2, server=Server(host, port), settings={"random_state": 0})
        kit = tmp_path / "kit"
        for folder in ("startup", "local"):
            (kit / folder).mkdir(parents=True, exist_ok=True)
        (kit / "startup/fed_client.json").write_text('{"client": {"fqsn": "a"}}')
        kit.chmod(0o700)
        install(kit, signed_by.credentials(study, "a", **lifetime))
        pl.DataFrame({"x": [float(n) for n in range(9)] + [float(CELL)]}).write_csv(tmp_path / "data.csv")
        write_settings(kit / "local", LocalSettings(str(tmp_path / "data.csv")))
        write_study(kit, study)
        return kit

    return make


@pytest.fixture
def listener(tmp_path, authority):
    study = Study("heart", ("a", "b"))
    made = Listener(tmp_path, authority.credentials(study, SERVER))
    yield made
    made.close()


def faults(findings):
    """What is at fault, but for the engine where the tests run without it."""
    ignored = {"versions"} if find_spec("nvflare") is None else set()
    return {finding.about for finding in findings if finding.state is State.FAULT} - ignored


def the(findings, about):
    (finding,) = (finding for finding in findings if finding.about == about)
    return finding


def test_a_sound_kit_has_no_fault(make_kit, listener):
    findings = examine(make_kit(listener.port))
    assert not faults(findings)
    assert {finding.state for finding in findings if finding.about != "versions"} == {State.FINE}
    about = {finding.about for finding in findings}
    assert about == {
        "versions", "memory", "disk", "kit", "certificate", "server name", "server port", "TLS", "clock", "table",
    }  # fmt: skip


def test_a_name_without_an_address_is_named(make_kit):
    findings = examine(make_kit(8102, host="no-such-host.invalid"))
    assert faults(findings) == {"server name"}
    assert "'no-such-host.invalid'" in the(findings, "server name").seen
    assert "hosts file" in the(findings, "server name").remedy
    assert the(findings, "TLS").seen == "not examined: the server cannot be reached"
    assert the(findings, "TLS").state is State.SKIPPED


def test_a_closed_port_is_named(make_kit):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    findings = examine(make_kit(port))
    assert faults(findings) == {"server port"}
    assert "refuses connections" in the(findings, "server port").seen


def test_a_server_of_another_authority_or_a_proxy_that_inspects_tls_is_named(make_kit, tmp_path):
    stranger = Listener(tmp_path, Authority.create("heart").credentials(Study("heart", ("a", "b")), SERVER))
    findings = examine(make_kit(stranger.port))
    stranger.close()
    assert faults(findings) == {"TLS"}
    assert "not signed by this study's authority" in the(findings, "TLS").seen
    assert "proxy" in the(findings, "TLS").remedy


def test_a_server_that_refuses_the_kit_is_named(make_kit, tmp_path, authority):
    """The server trusts another authority than the one that signed the kit, which trusts the server."""
    key, certificate, _ = authority.credentials(Study("heart", ("a", "b")), SERVER)
    deaf = Listener(tmp_path, (key, certificate, Authority.create("other").certificate))
    findings = examine(make_kit(deaf.port))
    deaf.close()
    assert faults(findings) == {"TLS"}
    assert "refused this kit's certificate" in the(findings, "TLS").seen


def test_a_port_that_speaks_no_tls_is_named(make_kit):
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def answer():
            connection, _ = plain.accept()
            connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" * 20)
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        findings = examine(make_kit(plain.getsockname()[1]))
    assert faults(findings) == {"TLS"}


@pytest.mark.parametrize("minutes", [90, -90])
def test_a_clock_that_differs_from_the_server_s_is_named(make_kit, tmp_path, authority, minutes):
    study = Study("heart", ("a", "b"))
    other = Listener(tmp_path, authority.credentials(study, SERVER), timedelta(minutes=minutes))
    findings = examine(make_kit(other.port))
    other.close()
    assert faults(findings) == {"clock"}
    assert ("behind" if minutes > 0 else "ahead of") in the(findings, "clock").seen


def test_a_clock_before_the_kit_was_made_is_named_without_a_server(make_kit):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    findings = examine(make_kit(port), now=datetime.now(UTC) - timedelta(days=400))
    assert "clock" in faults(findings)
    assert "NTP" in next(finding.remedy for finding in findings if finding.about == "clock")


def test_an_expired_certificate_is_named(make_kit, listener):
    kit = make_kit(listener.port, lifetime=timedelta(days=10))
    findings = examine(kit, now=datetime.now(UTC) + timedelta(days=30))
    assert "certificate" in faults(findings)
    assert "expired on" in the(findings, "certificate").seen
    assert "join-request" in the(findings, "certificate").remedy
    soon = examine(kit)
    assert not faults(soon)
    assert the(soon, "certificate").state is State.WARNING


@pytest.mark.parametrize("name", ["client.crt", "rootCA.pem"])
def test_a_certificate_that_was_cut_off_is_named_by_its_path_and_nothing_else_is_lost(make_kit, listener, name):
    kit = make_kit(listener.port)
    path = kit / "startup" / name
    path.write_bytes(path.read_bytes()[:200])
    findings = examine(kit)
    assert faults(findings) == {"certificate"}
    assert f"{path} is not a valid certificate" in the(findings, "certificate").seen
    assert "Restore the kit" in the(findings, "certificate").remedy
    assert the(findings, "table").state is State.FINE
    assert the(findings, "TLS").seen == "not examined: the certificates of this kit cannot be used"


def test_a_column_of_numbers_as_text_is_a_fault_since_serve_refuses_it(make_kit, listener, tmp_path):
    kit = make_kit(listener.port)
    rows = "".join(f"{k},{k * k % 17},{k / 10} mg/l\n" for k in range(40))
    (tmp_path / "data.csv").write_text("x,y,crp\n" + rows)
    findings = examine(kit)
    assert faults(findings) == {"table"}
    assert "crp (numbers stored as text" in the(findings, "table").seen


def test_a_key_of_another_certificate_is_named(make_kit, listener, authority):
    kit = make_kit(listener.port)
    other = authority.credentials(Study("heart", ("a", "b")), "b")
    (kit / "startup/client.key").write_bytes(other.key)
    (kit / "startup/client.key").chmod(0o600)
    findings = examine(kit)
    assert faults(findings) == {"certificate"}
    assert "not the key of" in the(findings, "certificate").seen
    assert the(findings, "TLS").state is State.SKIPPED


@pytest.mark.parametrize(
    ("plant", "seen"),
    [
        (lambda path: path.unlink(), "not found"),
        (lambda path: path.write_text("when\nyesterday, 8 o'clock\n"), "0 columns that can be used"),
        (lambda path: path.write_bytes(b"\x00\xff" * 50), "0 rows"),
    ],
    ids=["missing", "nothing usable", "bytes"],
)
def test_a_table_that_cannot_take_part_is_named_without_a_cell(make_kit, listener, tmp_path, plant, seen):
    kit = make_kit(listener.port)
    plant(tmp_path / "data.csv")
    findings = examine(kit)
    assert faults(findings) == {"table"}
    finding = the(findings, "table")
    assert seen in finding.seen
    assert finding.remedy
    assert "yesterday" not in finding.seen + finding.remedy


def test_memory_that_is_too_little_is_named():
    """In a process with a real limit, as a container or an operator sets it."""
    code = (
        "import resource, json, sys; import intarsia.federation.doctor.machine as m; "
        "limit = int(open('/proc/self/statm').read().split()[0]) * 4096 + 200 * 1024 * 1024; "
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit)); "
        "print(json.dumps([m.memory(0), m.memory(10**12)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for about, state, seen, remedy in json.loads(done.stdout):
        assert (about, state) == ("memory", "fault")
        assert "a run needs about" in seen
        assert "INTARSIA_MEMORY_LIMIT" in remedy


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_full_disk_is_named(make_kit, listener):
    kit = make_kit(listener.port)
    small = kit / "local"
    settings = (small / "intarsia.toml").read_bytes()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=True)
    try:
        (small / "intarsia.toml").write_bytes(settings)
        from intarsia.federation.doctor.machine import disk

        finding = disk(small)
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert (finding.about, finding.state) == ("disk", State.FAULT)
    assert "MB are free" in finding.seen
    assert "Free some space" in finding.remedy


def test_another_version_of_the_engine_is_named(make_kit, listener, tmp_path):
    """A library of another version is installed in front of the right one."""
    kit, front = make_kit(listener.port), tmp_path / "front"
    (front / "nvflare-2.4.0.dist-info").mkdir(parents=True)
    (front / "nvflare-2.4.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: nvflare\nVersion: 2.4.0\n")
    where = os.pathsep.join([str(front), *sys.path])
    command = [sys.executable, "-m", "intarsia.cli", "doctor", "--kit", str(kit), "--json"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": where}, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    findings = json.loads(done.stdout)
    (fault,) = (finding for finding in findings if finding["state"] == "fault")
    assert fault["about"] == "versions"
    assert "2.4.0" in fault["seen"]
    assert "install.sh" in fault["remedy"]


def test_a_folder_that_is_no_kit_is_named(tmp_path):
    findings = examine(tmp_path)
    assert "kit" in faults(findings)
    assert "is not a kit" in the(findings, "kit").seen


def test_the_server_s_kit_says_whether_its_port_is_free(make_kit, listener, authority):
    kit = make_kit(listener.port)
    (kit / "startup/fed_server.json").write_text("{}")
    install(kit, authority.credentials(Study("heart", ("a", "b")), SERVER))
    findings = examine(kit)
    assert not faults(findings)
    assert the(findings, "TLS").state is State.FINE  # the server that runs is ours
    listener.close()
    assert "is free" in the(examine(kit), "server port").seen


def test_no_value_of_the_table_is_printed(make_kit, listener, capsys):
    from intarsia.cli import main

    kit = make_kit(listener.port)
    with pytest.raises(SystemExit):
        main(["doctor", "--kit", str(kit)])
    text = capsys.readouterr().out
    assert "✓ table: 10 rows and 1 columns that can be used" in text
    assert CELL not in text
    assert Path(kit).name in text


@pytest.mark.skipif(os.name != "posix", reason="permissions are not in the mode")
def test_a_key_that_others_can_read_is_a_fault_and_a_kit_that_they_can_enter_a_warning(make_kit, listener, capsys):
    from intarsia.cli import main

    kit = make_kit(listener.port)
    kit.chmod(0o750)
    findings = examine(kit)
    assert not faults(findings)
    assert the(findings, "permissions").state is State.WARNING
    (kit / "startup/client.key").chmod(0o640)
    assert faults(examine(kit)) == {"permissions"}
    kit.chmod(0o700)
    pl.DataFrame({"patient": range(20), "x": [n * 0.7 for n in range(20)]}).write_csv(kit.parent / "data.csv")
    with pytest.raises(SystemExit) as end:
        main(["doctor", "--kit", str(kit)])
    assert end.value.code == 3
    text = capsys.readouterr().out
    assert "✗ permissions: 1 private key(s)" in text
    assert "! row IDs: these columns look like row IDs and will be clustered on: 'patient'" in text
    assert text.rstrip().endswith("thing(s) are in the way; 1 warning(s).")


def test_consent_and_record_that_no_longer_fit_the_table_are_named(make_kit, listener):
    from intarsia.federation.consent import form_of, terms_of
    from intarsia.federation.kit_folder import study_of
    from intarsia.federation.site import Site
    from intarsia.federation.site_settings import read_settings
    from intarsia.protocol import Describe, Description, encode

    kit = make_kit(listener.port)
    terms = terms_of(study_of(kit), "a", read_settings(kit / "local"), ["x"])
    (kit / "consent.toml").write_text(form_of(terms, [], "Dr. Who", "2026-11-15"))
    assert isinstance(Site("a", kit, "0" * 16).answer(encode(Describe(scale="auto"))), Description)
    assert the(examine(kit), "consent").state is State.FINE
    table = pl.read_csv(kit.parent / "data.csv")
    table[:-1].write_csv(kit.parent / "data.csv")
    findings = examine(kit)
    assert faults(findings) == {"consent"}
    assert "1 row(s) of the table were changed or removed" in the(findings, "consent").seen
    assert "participant renew" in the(findings, "consent").remedy
    table.with_columns(new=pl.col("x") / 3).write_csv(kit.parent / "data.csv")
    assert "other terms: columns: added 'new'" in the(examine(kit), "consent").seen


def test_a_site_that_is_shut_out_is_named_by_its_log_and_the_server_lists_it(make_kit, listener, authority):
    kit, now = make_kit(listener.port), datetime.now().astimezone()
    at = f"{now:%Y-%m-%d %H:%M:%S},1"
    registered = f"{at} - FederatedClient - INFO - Successfully registered client:a for project heart."
    rejected = f"{at} - Authenticator - ERROR - registration rejected: the coordinator has shut 'a' out (…)"
    unheard = f"{at} - Communicator - INFO - Failed to send heartbeat. Will try again. Exception: …"
    for lines, state in (
        ([registered], None),
        ([registered, rejected], State.FAULT),
        ([rejected, registered], None),
        ([registered, unheard], State.WARNING),
        ([registered, unheard.replace(f"{now:%Y}", "2025", 1)], None),
        (["x", "…" * 60_000, rejected], State.FAULT),
    ):
        (kit / "log.txt").write_text("\n".join(lines))
        states = [finding.state for finding in examine(kit) if finding.about == "admission"]
        assert states == ([] if state is None else [state]), lines[-1][:90]
    (kit / "startup/fed_server.json").write_text("{}")
    install(kit, authority.credentials(Study("heart", ("a", "b")), SERVER))
    (kit / "disabled_clients.json").write_text('{"disabled_clients": ["b"]}')
    assert the(examine(kit), "admission").seen == "shut out: 'b'"
    (kit / "disabled_clients.json").write_text("{")
    assert faults(examine(kit)) == {"admission"}


def test_a_relative_path_of_a_table_starts_where_the_command_was_typed(tmp_path):
    finding = the(examine(table=tmp_path / "nowhere.csv"), "table")
    assert "was not found" in finding.seen
    assert "WorkingDirectory" in finding.remedy
