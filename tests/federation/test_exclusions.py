"""Who is shut out: a list in the server's kit."""

from __future__ import annotations

import json

import pytest

from intarsia.exceptions import SettingError
from intarsia.federation.exclusions import EXCLUDED, admit, exclude, excluded_in
from intarsia.federation.kit_folder import write_study
from intarsia.federation.study_file import Study


@pytest.fixture
def kit(tmp_path):
    (tmp_path / "startup").mkdir()
    (tmp_path / "startup" / "fed_server.json").write_text("{}")
    write_study(tmp_path, Study("heart", ("cleveland", "hungary", "zürich")))
    return tmp_path


def test_who_is_excluded_is_in_the_list_until_admitted(kit):
    assert excluded_in(kit) == ()
    assert exclude(kit, "hungary") == ("hungary",)
    assert exclude(kit, "zürich") == ("hungary", "zürich") == excluded_in(kit)
    assert exclude(kit, "zürich") == ("hungary", "zürich")  # once more changes nothing
    assert admit(kit, "hungary") == ("zürich",) == excluded_in(kit)


def test_the_list_is_the_one_that_the_engine_reads(kit):
    pytest.importorskip("nvflare")
    from nvflare.private.fed.server.client_manager import ClientManager

    exclude(kit, "zürich")
    manager = ClientManager("heart")
    manager.set_disabled_clients_file(str(kit / EXCLUDED))
    assert manager.is_client_disabled("zürich")
    assert not manager.is_client_disabled("hungary")


def test_a_wrong_name_is_refused(kit):
    with pytest.raises(SettingError, match="'prague' is not in this study. Participants: 'cleveland', 'hungary'"):
        exclude(kit, "prague")
    with pytest.raises(SettingError, match="'hungary' is not shut out. Shut out: nobody"):
        admit(kit, "hungary")


def test_only_the_servers_kit_can_exclude(kit):
    (kit / "startup" / "fed_server.json").rename(kit / "startup" / "fed_admin.json")
    with pytest.raises(SettingError, match="kit of 'analyst'. Only the coordinator"):
        exclude(kit, "hungary")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"disabled_clients": "hungary"}', b'{"disabled_clients": [1]}'])
def test_a_damaged_list_is_an_error_and_lets_nobody_in(kit, content):
    (kit / EXCLUDED).write_bytes(content)
    with pytest.raises(SettingError, match="nobody knows who is shut out") as error:
        excluded_in(kit)
    assert "Without the file everybody can connect." in str(error.value)
    assert "remove" not in str(error.value)


class Client:
    def __init__(self, name):
        self.name = name

    def get_fqcn(self):
        return self.name


class Server:
    """The engine's server, as far as the look at its sites goes."""

    def __init__(self, kit, names, connected):
        from threading import Lock

        self.client_manager = self
        self.disabled_clients_file, self.disabled_clients, self.lock = str(kit / EXCLUDED), set(), Lock()
        self.clients = {f"token of {name}": Client(name) for name in names}
        self.cell = self.core_cell = self.logger = self
        self.agents, self.shutdown, self.said = dict.fromkeys(connected), False, []

    def register_request_cb(self, channel, topic, callback, *arguments):
        assert callback.__name__  # without one, the engine drops the request
        self.tell = lambda message: callback(message, *arguments)

    def is_client_disabled(self, name):
        return name in self.disabled_clients

    def get_all_clients(self):
        return self.clients

    def remove_dead_clients(self):
        pass

    def logout_client(self, token):
        del self.clients[token]

    def info(self, text, *arguments):
        self.said.append(text % arguments)

    warning = info


def looked(server, times, monkeypatch):
    from intarsia.federation.flare import starter

    seconds = iter(range(times - 1))
    monkeypatch.setattr(
        starter.time, "sleep", lambda _: next(seconds, None) is None and setattr(server, "shutdown", True)
    )
    server.shutdown = False
    starter.watch(server)


def test_a_running_server_disconnects_who_is_shut_out_and_lets_it_in_again(kit, monkeypatch):
    pytest.importorskip("nvflare")
    server = Server(kit, ("cleveland", "hungary"), ("cleveland", "hungary"))
    exclude(kit, "hungary")
    looked(server, 1, monkeypatch)
    assert server.disabled_clients == {"hungary"}
    assert [client.name for client in server.clients.values()] == ["cleveland"]
    (kit / EXCLUDED).write_bytes(json.dumps({"disabled_clients": "?"}).encode())
    looked(server, 1, monkeypatch)
    assert server.disabled_clients == {"hungary"}  # a damaged list changes nothing
    assert "Nothing changes" in server.said[-1]
    (kit / EXCLUDED).unlink()
    looked(server, 1, monkeypatch)
    assert server.disabled_clients == set()


def test_a_site_without_a_connection_counts_as_disconnected_at_the_third_look(kit, monkeypatch):
    pytest.importorskip("nvflare")
    server = Server(kit, ("cleveland", "hungary"), ("cleveland",))
    looked(server, 2, monkeypatch)
    assert len(server.clients) == 2
    looked(server, 3, monkeypatch)
    assert [client.name for client in server.clients.values()] == ["cleveland"]


def test_the_server_tells_its_own_jobs_only_which_sites_and_jobs_are_connected(kit, monkeypatch):
    pytest.importorskip("nvflare")
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
    from nvflare.fuel.f3.message import Message

    connected = ("cleveland", "cleveland.job", "hungary.job", "_admin", "zürich")
    server = Server(kit, ("cleveland", "hungary"), connected)  # zürich has no heartbeat, hungary no connection
    looked(server, 1, monkeypatch)
    ask = {
        origin: server.tell(Message({MessageHeaderKey.ORIGIN: origin})) for origin in ("server.job", "cleveland.job")
    }
    assert json.loads(ask["server.job"].payload) == ["cleveland", "cleveland.job", "hungary.job"]
    assert ask["cleveland.job"].payload is None
    exclude(kit, "hungary")
    looked(server, 1, monkeypatch)
    assert json.loads(server.tell(Message({MessageHeaderKey.ORIGIN: "server.job"})).payload) == [
        "cleveland",
        "cleveland.job",
    ]
