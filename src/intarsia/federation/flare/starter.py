"""Start the engine's server or site, with a limit on the size of one message from outside.

The engine's configuration (:data:`LIMITS`, in every kit) limits messages that come in pieces, and those that we send. One
piece may hold 2 GiB, a constant of its network driver, which is lowered here. A piece that announces more is refused by its
first bytes, before memory is reserved for it. Connections are TLS 1.3. The server also stops counting a site as connected as
soon as its connection is closed, or after :data:`GONE_AFTER` seconds without a heartbeat instead of ten minutes. It refuses
the sites that the coordinator shut out (:mod:`intarsia.federation.exclusions`).
"""

from __future__ import annotations

import json
import logging
import os
import runpy
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from intarsia.exceptions import SettingError
from intarsia.federation.exclusions import excluded_in
from intarsia.federation.flare import engine
from intarsia.federation.kit_folder import name_of
from intarsia.federation.pages import start_beating

LIMIT = 256 * 1024 * 1024  # bytes
LIMITS = {"max_message_size": LIMIT, "streaming_max_blob_size": LIMIT}
HEARTBEAT = 2  # seconds between two heartbeats of a site; the engine's default is 10
GONE_AFTER = 8.0  # seconds without a heartbeat
CHANNEL, TOPIC = "intarsia", "connected"  # on which the main process of the server tells the process of a job
_LOOK_EVERY, _ABSENCES = 1.0, 3  # seconds; looks in a row without a connection
MODULES = {"server": engine.SERVER_MODULE, "site": engine.SITE_MODULE}


def limit_pieces() -> None:
    """Lower the size of one piece of a message in the engine's network driver."""
    from nvflare.fuel.f3.drivers import aio_http_driver

    aio_http_driver.MAX_FRAME_SIZE = LIMIT


def watch_sites() -> None:
    """Look every second which sites are still connected; the engine looks every five, for heartbeats of ten minutes."""
    from nvflare.private.fed.server import fed_server

    fed_server.BaseServer.heart_beat_timeout = property(lambda _: GONE_AFTER, lambda *_: None)
    fed_server.BaseServer.client_cleanup = watch


def watch(server: Any) -> None:
    """Disconnect who is shut out, silent or without a connection, until the server stops."""
    absences: Counter[str] = Counter()
    server.cell.core_cell.register_request_cb(CHANNEL, TOPIC, tell_connected, server)  # needs a name
    while not server.shutdown:
        _shut_out(server)
        server.remove_dead_clients()
        connections = server.cell.core_cell.agents
        for token, client in list(server.get_all_clients().items()):
            absences[token] = 0 if client.get_fqcn() in connections else absences[token] + 1
            if absences[token] >= _ABSENCES:
                server.logger.info("the site of %s has no connection any more", client.name)
                server.logout_client(token)
        time.sleep(_LOOK_EVERY)


def tell_connected(request: Any, server: Any) -> Any:
    """Tell the process of a job at the server which processes are connected: sites with a heartbeat, and their jobs."""
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
    from nvflare.fuel.f3.cellnet.utils import make_reply

    if not str(request.get_header(MessageHeaderKey.ORIGIN)).startswith("server."):
        return make_reply(ReturnCode.UNAUTHENTICATED)
    alive = {client.name for client in list(server.get_all_clients().values())}
    connections = set(server.cell.core_cell.agents)
    jobs = {
        name for name in connections if "." in name and not server.client_manager.is_client_disabled(name.split(".")[0])
    }
    return make_reply(ReturnCode.OK, body=json.dumps(sorted(alive & connections | jobs)).encode())


def _shut_out(server: Any) -> None:
    """Read who is shut out, and disconnect those who are connected."""
    manager = server.client_manager
    try:
        names = set(excluded_in(Path(manager.disabled_clients_file).parent))
    except SettingError as error:
        server.logger.warning("%s Nothing changes until then.", error)
        return
    with manager.lock:
        manager.disabled_clients = names
    for token, client in list(server.get_all_clients().items()):
        if client.name in names:
            server.logger.info("the coordinator has shut %s out: disconnected", client.name)
            server.logout_client(token)


def refuse_excluded() -> None:
    """Refuse every message of a site that is shut out, also those of its job; the engine refuses only some."""
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
    from nvflare.fuel.f3.cellnet.utils import make_reply
    from nvflare.private.defs import CellChannelTopic, CellMessageHeaderKeys
    from nvflare.private.fed.server import fed_server

    original = fed_server.FederatedServer._validate_auth_headers  # noqa: SLF001
    told = {CellChannelTopic.Register, CellChannelTopic.HEART_BEAT}  # the engine refuses these, and says why

    def validate(server: Any, message: Any) -> Any:
        name = message.get_header(CellMessageHeaderKeys.CLIENT_NAME)  # its token proves that it is the sender's
        topic = message.get_header(MessageHeaderKey.TOPIC)
        if name and topic not in told and server.client_manager.is_client_disabled(name):
            return make_reply(ReturnCode.UNAUTHENTICATED, error=f"Client '{name}' is disabled")
        return original(server, message)

    fed_server.FederatedServer._validate_auth_headers = validate  # noqa: SLF001


def end_if_shut_out() -> None:
    """End a site that the coordinator has shut out with one line and exit code 1; the engine prints two tracebacks."""
    from nvflare.private.fed import authenticator

    authenticator.traceback = SimpleNamespace(print_exc=_say_why_refused)


def _say_why_refused() -> None:
    """Called by the engine, instead of printing a traceback, where the server refused to register this site."""
    error = sys.exc_info()[1]
    if not str(error).endswith("is disabled"):
        traceback.print_exc()
        return
    sys.stderr.write(
        "Error: the coordinator has shut this site out. Hint: ask the coordinator; after federation admit, start it again.\n"
    )
    logging.shutdown()
    sys.stdout.flush()
    os._exit(1)  # threads of the engine would keep the process


def main() -> None:
    """Run ``python -m intarsia.federation.flare.starter server|site …``, with the engine's own arguments."""
    which, *arguments = sys.argv[1:]
    engine.check_engine()
    limit_pieces()
    engine.speak_tls_1_3()
    if which == "server":
        watch_sites()
        refuse_excluded()
    else:
        engine.lock_site()
        end_if_shut_out()
        kit = Path(arguments[arguments.index("-m") + 1])
        start_beating(kit, name_of(kit))
    sys.argv = [MODULES[which], *arguments]
    runpy.run_module(MODULES[which], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
