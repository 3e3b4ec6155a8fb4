"""What we rely on in the engine: checked at start, and locked; a site answers only what a run needs."""

from __future__ import annotations

import contextlib
import inspect
import pkgutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from intarsia.exceptions import FederationError, ProtocolError, SettingError
from intarsia.federation.flare.engine import check_engine, network_handlers, speak_tls_1_3
from intarsia.protocol import Failure, encode
from tests.hostile import Hostile

pytest.importorskip("nvflare")

from intarsia.federation.flare.controller import ENDED
from intarsia.federation.flare.kit import settle_server
from intarsia.federation.flare.session import fetch

pytestmark = pytest.mark.e2e

SITE = """
from nvflare.private.admin_defs import Message
from nvflare.private.fed.client import admin, client_req_processors
from nvflare.private.defs import SysCommandTopic, InfoCollectorTopic, TrainingTopic
from nvflare.fuel.f3.cellnet.net_agent import NetAgent
from intarsia.federation.flare.engine import lock_site
if {locked}:
    lock_site()
topics = {{t for p in client_req_processors.ClientRequestProcessors.request_processors for t in p.get_topics()}}
asked = {{SysCommandTopic.SHELL, SysCommandTopic.SYS_INFO, SysCommandTopic.REPORT_ENV, *vars(InfoCollectorTopic).values()}}
print(sorted(str(t) for t in topics & {{a for a in asked if isinstance(a, str)}}))
print(TrainingTopic.DEPLOY in topics, NetAgent._do_config_vars.__name__)
"""
JOB = """
from nvflare.private.fed.client.admin_commands import AdminCommands
from intarsia.federation.flare.executor import Answering
if {locked}:
    Answering("0" * 16)
print(sorted(type(c).__name__ for c in AdminCommands.commands))
"""


def said(program, *, locked):
    words = [sys.executable, "-W", "ignore", "-c", program.format(locked=locked)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_engine_that_is_installed_has_all_that_we_rely_on():
    check_engine()


class Renamed:
    """A class of the engine of which one name was renamed."""

    def __init__(self, heartbeat_timeout=600):
        self.heartbeat_timeout = heartbeat_timeout

    def remove_dead_clients(self):
        return self.heartbeat_timeout


@pytest.mark.parametrize(
    ("place", "name", "replacement", "missing"),
    [
        ("nvflare.fuel.f3.drivers.aio_http_driver", "MAX_FRAME_SIZE", None, "aio_http_driver.MAX_FRAME_SIZE"),
        (
            "nvflare.private.fed.server.fed_server",
            "BaseServer",
            Renamed,
            "BaseServer.remove_dead_clients (using heart_beat_timeout)",
        ),
        ("nvflare.fuel.f3.cellnet.net_agent", "NetAgent", Renamed, "NetAgent.__init__ (using _do_config_vars)"),
        ("nvflare.fuel.f3.cellnet.net_agent", "NetAgent", None, "NetAgent.__init__"),
        (
            "nvflare.private.fed.client.client_req_processors.ClientRequestProcessors",
            "request_processors",
            [],
            "DeployProcessor",
        ),
        ("nvflare.private.fed.client.admin_commands.AdminCommands", "commands", [], "AbortCommand"),
        ("nvflare.fuel.f3.drivers.net_utils", "get_ssl_context", None, "net_utils.get_ssl_context"),
        ("nvflare.private.fed.server.server_runner", "ServerRunner", Renamed, "(using client_is_active)"),
    ],
)
def test_an_engine_that_lacks_one_of_them_is_refused(place, name, replacement, missing, monkeypatch):
    target = pkgutil.resolve_name(place)
    monkeypatch.delattr(target, name) if replacement is None else monkeypatch.setattr(target, name, replacement)
    with pytest.raises(FederationError, match=r"nvflare 2\.9\.\d+ differs .* missing: ") as error:
        check_engine()
    assert missing in str(error.value)


@pytest.fixture
def parameters(tmp_path):
    """The parameters of a connection, with certificates of one authority."""
    pytest.importorskip("cryptography")
    from intarsia.federation.certificates.authority import Authority
    from intarsia.federation.study_file import Study

    study = Study("heart", ("a",))
    authority, found = (
        Authority.create(study.name),
        {"scheme": "http", "secure": True, "ca_cert": str(tmp_path / "root")},
    )
    (tmp_path / "root").write_bytes(authority.certificate)
    for side, name in (("server", "server"), ("client", "a")):
        made = authority.credentials(study, name)
        for part, content in (("key", made.key), ("cert", made.certificate)):
            path = tmp_path / f"{side}_{part}"
            path.write_bytes(content)
            found[path.name] = str(path)
    return found


def version_between(server, client):
    """The version of TLS that two contexts agree on, each with the other's certificate."""
    (to_server, from_client), (to_client, from_server) = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
    ends = server.wrap_bio(to_server, to_client, server_side=True), client.wrap_bio(to_client, to_server)
    for _ in range(4):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    assert all(end.getpeercert(binary_form=True) for end in ends)
    return ends[0].version()


def test_only_tls_1_3_is_spoken(parameters, monkeypatch):
    from nvflare.fuel.f3.drivers import net_utils

    theirs = inspect.unwrap(net_utils.get_ssl_context)  # another test of this process may have called ours
    monkeypatch.setattr(net_utils, "get_ssl_context", theirs)  # restored after the test
    old = theirs(dict(parameters), False)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert version_between(theirs(dict(parameters), True), old) == "TLSv1.2"  # what the engine does on its own
    speak_tls_1_3()
    speak_tls_1_3()
    server, site = (net_utils.get_ssl_context(dict(parameters), side) for side in (True, False))
    assert version_between(server, site) == "TLSv1.3"
    with pytest.raises(ssl.SSLError):
        version_between(server, old)
    assert net_utils.get_ssl_context({"scheme": "http"}, True) is None


def test_every_question_that_the_network_registers_is_silenced_whatever_its_name(monkeypatch):
    from nvflare.fuel.f3.cellnet.net_agent import NetAgent

    class Asked(NetAgent):
        def __init__(self, cell):
            cell.register_request_cb(cb=self._tell_all)

        def _tell_all(self):
            """A new question."""

    monkeypatch.setattr("nvflare.fuel.f3.cellnet.net_agent.NetAgent", Asked)
    assert network_handlers() == ["_tell_all"]


@pytest.mark.parametrize("version", ["2.8.3", "2.10.0", "3.0.0rc1"])
def test_another_version_of_the_engine_is_refused(version, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda _: version)
    with pytest.raises(FederationError, match=f"nvflare {version} is not supported: 2.9 is needed"):
        check_engine()


@pytest.mark.parametrize("start", ["server", "site", "executor", "controller", "driver"])
def test_no_process_starts_without_the_check(start, monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.metadata.version", lambda _: "2.10.0")
    from intarsia.federation.flare import controller, driver, executor, starter

    monkeypatch.setattr(sys, "argv", ["starter", start])
    ways = {
        "executor": lambda: executor.Answering("0" * 16),
        "controller": lambda: controller.Coordinating({}, [], 1, 1, {}, []),
        "driver": lambda: driver.Driver(tmp_path),
    }
    with pytest.raises(FederationError, match="is not supported"):
        ways.get(start, starter.main)()


def test_a_site_has_no_shell_no_errors_and_no_settings_to_show():
    open_topics, _ = said(SITE, locked=False)
    assert "shell" in open_topics.lower()  # so the question is a fair one
    topics, rest = said(SITE, locked=True)
    assert topics == "[]"
    assert rest == "True _no_answer"


def test_a_job_shows_neither_errors_nor_figures():
    assert "ShowErrorsCommand" in said(JOB, locked=False)[0]
    assert said(JOB, locked=True) == ["['AbortCommand', 'AbortTaskCommand', 'ByeCommand', 'CheckStatusCommand']"]


def test_the_runtime_refuses_what_is_no_reply():
    from nvflare.apis.shareable import ReturnCode, Shareable, make_reply

    from intarsia.federation.flare.job import MESSAGE
    from intarsia.federation.flare.task_runtime import reply_of

    hostile = Hostile(4)
    for bad in (
        None,
        "x",
        b"x",
        {},
        Shareable(),
        make_reply(ReturnCode.EXECUTION_EXCEPTION),
        Shareable({MESSAGE: "x"}),
    ):
        with pytest.raises(ProtocolError):
            reply_of(bad)
    for _ in range(200):
        with pytest.raises(ProtocolError):
            reply_of(Shareable({MESSAGE: hostile.bomb(encode(Failure(error="InputError", message="no")))}))


DEEP = b"[" * 100_000 + b"]" * 100_000


def test_files_of_the_engine_that_are_nested_too_deeply_are_told(tmp_path):
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "resources.json").write_bytes(DEEP)
    with pytest.raises(SettingError, match=r"resources\.json cannot be read \(RecursionError\)"):
        settle_server(tmp_path)


def test_a_result_that_was_fetched_can_be_read_by_its_owner_only(tmp_path):
    class Session:
        def download_job_result(self, job, folder):
            (Path(folder) / ENDED).write_bytes(b'{"done": true}')
            (Path(folder) / "model.intarsia").write_bytes(b"local centroids")
            return folder

    target = tmp_path / "study" / "model.intarsia"
    assert fetch(Session(), "job", target, "FINISHED:COMPLETED").done
    assert target.read_bytes() == b"local centroids"
    assert target.stat().st_mode & 0o077 == 0


def test_a_result_that_cannot_be_read_counts_as_none(tmp_path):
    class Session:
        def download_job_result(self, job, folder):
            (Path(folder) / ENDED).write_bytes(b'{"done": ' + DEEP + b"}")
            return folder

    ended = fetch(Session(), "job", tmp_path / "model.intarsia", "FINISHED:COMPLETED")
    assert not ended.done
    assert "is invalid" in ended.message
