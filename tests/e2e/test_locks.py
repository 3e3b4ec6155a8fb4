"""What a site refuses, shown to real sites by an analyst who tries."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import time
from contextlib import contextmanager
from hashlib import sha256

import numpy as np
import polars as pl
import pytest

pytest.importorskip("nvflare")
pytest.importorskip("psutil")

from nvflare.apis.shareable import Shareable
from nvflare.fuel.flare_api.flare_api import new_secure_session

from intarsia.coordinator import FederatedAlgorithm
from intarsia.exceptions import ProtocolError, ReleaseError
from intarsia.federation.flare.executor import Answering
from intarsia.federation.flare.filter import Gate
from intarsia.federation.flare.job import MESSAGE, REQUEST, write_job
from intarsia.federation.kit_folder import study_of, write_study
from intarsia.federation.site import RELEASES
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.federation.study_file import Study
from intarsia.privacy.journal import Journal
from intarsia.protocol import Describe, Failure, Labelled, Summarize, decode_reply, encode
from tests.e2e.federations import ENVIRONMENT, INTARSIA, PATIENCE, Federation, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]


class Where:
    """As much of FLARE's engine as says where the kit is."""

    def __init__(self, kit):
        self._kit = kit

    def get_engine(self):
        return self

    def get_workspace(self):
        return self

    def get_root_dir(self):
        return str(self._kit)

    def get_identity_name(self):
        return "a"


def test_the_filter_lets_out_only_the_reply_that_the_journal_lists_last_for_the_request(tmp_path):
    request, reply, earlier = Describe(), Labelled(sizes=np.array([3, 9])), Labelled(sizes=np.array([4, 9]))
    journal, gate, result = Journal(tmp_path / RELEASES), Gate(), Shareable()
    result[MESSAGE], result[REQUEST] = encode(reply), sha256(encode(request)).hexdigest()
    result["secret"] = "a row"
    with pytest.raises(ReleaseError, match="journal"):
        gate.process(result, Where(tmp_path))  # nothing is listed
    journal.write_reply(earlier, request)
    with pytest.raises(ReleaseError, match="journal"):
        gate.process(result, Where(tmp_path))  # something else is
    journal.write_reply(reply, request)
    journal.write_reply(earlier, Summarize(seed=0, n_clusters=2, n_local_clusters=2, max_local_clusters=5, scale=None))
    out = gate.process(result, Where(tmp_path))
    assert set(out) & {MESSAGE, REQUEST, "secret"} == {MESSAGE}
    assert out[MESSAGE] is result[MESSAGE]  # not decoded and encoded again
    for bad in (b"rows", "rows", None, encode(Describe())):
        result[MESSAGE] = bad
        with pytest.raises(ProtocolError):
            gate.process(result, Where(tmp_path))


def test_no_text_of_a_foreign_exception_leaves(tmp_path, monkeypatch):
    (tmp_path / "local").mkdir()
    pl.DataFrame({"x": [1.0, 2.0]}).write_csv(tmp_path / "data.csv")
    write_settings(tmp_path / "local", LocalSettings(str(tmp_path / "data.csv")))
    write_study(tmp_path, Study("s", ("a", "b"), n_clusters=2))

    def broken(*_):
        raise RuntimeError("canary 4711.25")

    monkeypatch.setattr("intarsia.federation.site.open_rows", broken)
    executor, asked = Answering("0" * 16), Shareable()
    monkeypatch.setattr(executor, "log_exception", lambda *_, **__: None)
    asked[MESSAGE] = encode(Describe())
    reply = decode_reply(executor.execute("intarsia", asked, Where(tmp_path), None)[MESSAGE])
    assert isinstance(reply, Failure)
    assert reply.message == "participant 'a' failed with a RuntimeError"
    assert [entry["reply"] for entry in Journal(tmp_path / RELEASES).entries()] == ["reply.failure"]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    rng = np.random.default_rng(0)
    tables = {
        name: pl.DataFrame({c: rng.normal(size=40) + 9 * (np.arange(40) % 2) for c in columns})
        for name, columns in {"a": "xy", "b": "yz"}.items()
    }
    with Federation(tmp_path_factory.mktemp("locks"), tables) as running:
        yield running


@contextmanager
def analyst(federation):
    """A session of the analyst's, once everybody is there."""
    kit = federation.folder / "kits" / "analyst"
    until = time.monotonic() + PATIENCE
    while True:
        try:
            session = new_secure_session(study_of(kit).analyst, str(kit), timeout=20.0)
            break
        except Exception:  # noqa: BLE001
            assert time.monotonic() < until
    try:
        wait_until(lambda: len(session.get_system_info().client_info) >= len(federation.names), every=0.5)
        yield session
    finally:
        session.close()


def submitted(federation, change):
    """What becomes of a job that somebody has changed."""
    job = federation.folder / f"job-{time.monotonic_ns()}"
    study = study_of(federation.folder / "kits" / "analyst")
    change(write_job(job, study, FederatedAlgorithm(n_clusters=2, seed=0), {}))
    with analyst(federation) as session:
        return session.wait_for_job(session.submit_job(str(job)), timeout=PATIENCE, poll_interval=0.5)["status"]


def names_another_class(job):
    path = job / "app" / "config" / "config_fed_client.json"
    said = json.loads(path.read_text())
    said["executors"][0]["executor"] = {"path": "nvflare.app_common.np.np_trainer.NPTrainer", "args": {}}
    path.write_text(json.dumps(said))


def carries_code(job):
    (job / "app" / "custom").mkdir()
    (job / "app" / "custom" / "spy.py").write_text(
        "from nvflare.apis.executor import Executor\n"
        "class Spy(Executor):\n"
        "    def execute(self, *_):\n"
        f"        open({str(job.parent / 'spied')!r}, 'w').close()\n"
    )
    path = job / "app" / "config" / "config_fed_client.json"
    said = json.loads(path.read_text())
    said["executors"][0]["executor"] = {"path": "spy.Spy", "args": {}}
    path.write_text(json.dumps(said))


def logged(federation, name):
    return (federation.folder / f"{name}.log").read_text()


def test_a_job_that_names_another_class_is_refused_by_the_site(federation):
    assert "COMPLETED" not in submitted(federation, names_another_class)
    assert "NPTrainer' at config path 'executors.#1.executor' is not in allow_list" in logged(federation, "a")
    nothing_left(federation)


def look_into(federation, name):
    with analyst(federation) as session:
        return session.cat_target(name, file="study.json")


def test_the_server_refuses_code_and_shell_commands(federation):
    assert "COMPLETED" not in submitted(federation, carries_code)
    assert "BYOC not permitted" in logged(federation, "server")
    sees_nothing(federation, "a")
    nothing_left(federation)


def sees_nothing(federation, name):
    """The server refuses, or the site does not know the question."""
    try:
        said = str(look_into(federation, name))
    except Exception as error:  # noqa: BLE001
        said = str(error)
    assert "participants" not in said, said  # which is in the file


def test_a_site_refuses_code_and_shell_commands_that_its_server_would_allow(federation):
    rights = federation.folder / "kits" / "server" / "local" / "authorization.json"
    before = rights.read_text()
    federation.kill("server")
    rights.write_text(before.replace('"byoc": "none"', '"byoc": "any"').replace('mands": "none"', 'mands": "any"'))
    federation.start("server")
    try:
        assert "COMPLETED" not in submitted(federation, carries_code)
        assert "'a: NVFLARE_ERROR: BYOC not permitted'" in logged(federation, "server")
        assert "participants" in look_into(federation, "server")  # this server allows it
        sees_nothing(federation, "a")
    finally:
        federation.kill("server")
        rights.write_text(before)
        federation.start("server")
    assert not (federation.folder / "spied").exists()
    nothing_left(federation)


def nothing_left(federation):
    for name in federation.names:
        assert not (federation.folder / "kits" / name / RELEASES).exists()


def spoken_with(study, context):
    """What the server says to a question that any web server would answer."""
    with (
        socket.create_connection((study.host, study.port), timeout=10) as plain,
        context.wrap_socket(plain) as secure,
    ):
        secure.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return secure.recv(64)


def test_a_stranger_without_a_certificate_gets_nothing(federation):
    startup = federation.folder / "kits" / "analyst" / "startup"
    study = study_of(federation.folder / "kits" / "server")
    context = ssl.create_default_context(cafile=startup / "rootCA.pem")
    context.check_hostname = False
    with analyst(federation):
        pass  # it listens
    try:
        assert spoken_with(study, context) == b""
    except (ssl.SSLError, ConnectionResetError):
        pass
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    assert spoken_with(study, context).startswith(b"HTTP/1.1")  # so the question was a fair one
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        spoken_with(study, context)


def forged(federation, like, keys):
    """A kit like somebody's, with the certificate and key of another."""
    kits = federation.folder / "kits"
    kit = kits / "forged"
    shutil.rmtree(kit, ignore_errors=True)
    shutil.copytree(kits / like, kit, ignore=shutil.ignore_patterns("*.jsonl", "intarsia", "labels.csv", "*.log"))
    kind = "server" if like == "server" else "client"
    for end in ("crt", "key"):
        shutil.copyfile(keys / f"client.{end}", kit / "startup" / f"{kind}.{end}")
    return kit


def tried(federation, kit, seconds=25, until=None):
    """Who is connected at any time while somebody serves with this kit, or until one of them is; and what it said."""
    log, seen = federation.folder / "forged.log", set()
    log.unlink(missing_ok=True)
    words = [*federation.words("b")[:-1], str(kit)]
    with log.open("wb") as file:
        process = subprocess.Popen(words, cwd=federation.folder, env=ENVIRONMENT, stdout=file, stderr=file)
    federation.running["forged"] = process
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None and until not in seen:
        seen |= set(federation.connected())
        time.sleep(0.5)
    federation.kill("forged")
    return seen, log.read_text()


def test_nobody_takes_part_with_another_s_certificate_or_that_of_another_authority(federation):
    with analyst(federation):
        pass  # everybody is there
    kits = federation.folder / "kits"
    federation.kill("b")
    federation.kill("server")  # or it would take b for connected for a while
    federation.start("server")
    wait_until(lambda: federation.connected() == ("a",), every=1)
    try:
        # as b, with the certificate of a
        seen, said = tried(federation, forged(federation, "b", kits / "a" / "startup"))
        assert "b" not in seen, said
        # as b, of another authority with the same names; it trusts the server, so that it is the server who refuses
        federation.command("federation", "init", "study.toml", "-o", "others", check=True)
        kit = forged(federation, "b", federation.folder / "others" / "b" / "startup")
        seen, said = tried(federation, kit)
        assert "b" not in seen, said
        # and as it came, with the authority's own certificate: it does not trust the server
        seen, said = tried(federation, federation.folder / "others" / "b")
        assert "b" not in seen, said
        nothing_left(federation)
        # with its own it is let in: these were fair trials
        seen, said = tried(federation, forged(federation, "b", kits / "b" / "startup"), PATIENCE, until="b")
        assert "b" in seen, said
    finally:
        shutil.rmtree(federation.folder / "others", ignore_errors=True)
        federation.start("b")


def test_a_site_cannot_pose_as_the_server(federation):
    """FLARE checks no host name, but ties the name of a party to its certificate on both sides."""
    with analyst(federation):
        pass
    federation.kill("server")
    kit = forged(federation, "server", federation.folder / "kits" / "a" / "startup")
    before, log = len(logged(federation, "b")), federation.folder / "forged.log"
    with log.open("wb") as file:
        words = [*INTARSIA, "federation", "start", "--kit", str(kit)]
        federation.running["forged"] = subprocess.Popen(words, cwd=federation.folder, stdout=file, stderr=file)
    try:
        claim = "authenticated as 'a' but claimed endpoint 'server'"
        wait_until(
            lambda: claim in logged(federation, "b")[before:], every=1, say=lambda: logged(federation, "b")[before:]
        )
        assert "Server started" in log.read_text()
        assert "Client: New client" not in log.read_text()
    finally:
        federation.kill("forged")
        federation.start("server")


def test_the_federation_still_runs_after_all_that(federation):
    process = federation.begin()
    assert process.wait(PATIENCE) == 0, (federation.folder / "analyst.log").read_text()
    assert federation.model.is_file()
