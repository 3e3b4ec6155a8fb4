"""The internals of NVIDIA FLARE that we replace or call, a check that they exist, and the locks on what a site answers.

They are no public interface. If one were renamed, most calls would fail, but three would silently do nothing: a network
question would be answered again (``NetAgent._do_*``), a killed site would count as connected (``heart_beat_timeout``), and
TLS 1.2 would be spoken (``get_ssl_context``).
So every process of a federation calls :func:`check_engine` first, and does not start if one is missing.

The engine checks rights only where its server tells it to. So a site's process and that of a job keep the answers that a run
needs and drop all others: no shell, no logs, no errors, no settings.
"""

from __future__ import annotations

import re
import ssl
from functools import wraps
from importlib import import_module, metadata
from typing import Any, NamedTuple

from intarsia.exceptions import FederationError, install

OLDEST, TOO_NEW = (2, 9), (2, 10)
SERVER_MODULE = "nvflare.private.fed.app.server.server_train"
SITE_MODULE = "nvflare.private.fed.app.client.client_train"
HTTP_DRIVER = "nvflare.fuel.f3.drivers.aio_http_driver"
NET_UTILS = "nvflare.fuel.f3.drivers.net_utils"
CELL = "nvflare.fuel.f3.cellnet.cell"
CORE_CELL = "nvflare.fuel.f3.cellnet.core_cell"
NET_AGENT = "nvflare.fuel.f3.cellnet.net_agent"
SITE_REQUESTS = "nvflare.private.fed.client.client_req_processors"
JOB_COMMANDS = "nvflare.private.fed.client.admin_commands"
CLIENT_MANAGER = "nvflare.private.fed.server.client_manager"
FED_SERVER = "nvflare.private.fed.server.fed_server"
AUTHENTICATOR = "nvflare.private.fed.authenticator"
SERVER_RUNNER = "nvflare.private.fed.server.server_runner"


ANSWERED_BY_A_SITE = frozenset(
    f"{name}Processor"
    for name in (
        *("ClientStatus", "ScopeInfo", "Deploy", "DeleteRunNumber", "StartJob", "AbortApp", "AbortTask"),
        *("CheckResource", "CancelResource", "NotifyJobStatus", "ReportVersion"),
    )
)
ANSWERED_BY_A_JOB = frozenset({"CheckStatusCommand", "AbortCommand", "AbortTaskCommand", "ByeCommand"})
ANSWERED_ON_THE_NETWORK = frozenset({"_do_echo", "_do_heartbeat", "_do_stop", "_do_stop_cell"})
_SILENCED_ON_THE_NETWORK = ("_do_comm_config", "_do_config_vars", "_do_peers", "_do_process_info", "_do_report_cells")


class Internal(NamedTuple):
    """A name inside the engine; with ``uses``, an attribute or variable that the function of that name must use."""

    module: str
    name: str
    uses: str = ""

    def __str__(self) -> str:
        return f"{self.module}.{self.name}" + (f" (using {self.uses})" if self.uses else "")


INTERNALS = (
    Internal(HTTP_DRIVER, "MAX_FRAME_SIZE"),
    Internal(HTTP_DRIVER, "AioHttpDriver._websocket_handler", uses="MAX_FRAME_SIZE"),
    Internal(HTTP_DRIVER, "AioHttpDriver.listen", uses="get_ssl_context"),
    Internal(HTTP_DRIVER, "AioHttpDriver.connect", uses="get_ssl_context"),
    Internal(NET_UTILS, "get_ssl_context"),
    Internal(FED_SERVER, "BaseServer.__init__", uses="heart_beat_timeout"),
    Internal(FED_SERVER, "BaseServer.remove_dead_clients", uses="heart_beat_timeout"),
    Internal(FED_SERVER, "BaseServer.deploy", uses="client_cleanup"),
    Internal(FED_SERVER, "BaseServer.logout_client"),
    Internal(FED_SERVER, "FederatedServer.deploy", uses="_validate_auth_headers"),
    Internal(CLIENT_MANAGER, "ClientManager.is_client_disabled", uses="disabled_clients"),
    Internal(CLIENT_MANAGER, "ClientManager.authenticated_client", uses="is_client_disabled"),
    Internal(CORE_CELL, "CoreCell.__init__", uses="agents"),
    Internal(CORE_CELL, "CoreCell.register_request_cb"),
    Internal(CORE_CELL, "CoreCell.send_request"),
    Internal(SITE_REQUESTS, "ClientRequestProcessors.request_processors"),
    Internal(JOB_COMMANDS, "AdminCommands.commands"),
    Internal(CELL, "Cell.__init__", uses="core_cell"),
    Internal(AUTHENTICATOR, "Authenticator.authenticate", uses="print_exc"),
    Internal(SERVER_RUNNER, "ServerRunner._report_client_active", uses="client_is_active"),
    *(
        Internal(NET_AGENT, "NetAgent.__init__", uses=name)
        for name in (*sorted(ANSWERED_ON_THE_NETWORK), *_SILENCED_ON_THE_NETWORK)
    ),
)


def check_engine() -> None:
    """Refuse to go on where nvflare is not installed, is of another version, or lacks a name that we rely on.

    Raises
    ------
    FederationError
        It names the version and what is missing.
    """
    installed = _installed()
    release = tuple(int(part) for part in re.findall(r"\d+", installed)[:2])
    if not OLDEST <= release < TOO_NEW:
        raise FederationError(f"nvflare {installed} is not supported: 2.9 is needed. {_HINT}")
    missing = [str(internal) for internal in INTERNALS if not _exists(internal)]
    missing += _missing_classes("ClientRequestProcessors.request_processors", SITE_REQUESTS, ANSWERED_BY_A_SITE)
    missing += _missing_classes("AdminCommands.commands", JOB_COMMANDS, ANSWERED_BY_A_JOB)
    if missing:
        raise FederationError(
            f"nvflare {installed} differs from the 2.9 that this version of intarsia was tested with; "
            f"missing: {', '.join(missing)}. {_HINT}"
        )


_HINT = install("cli", "flare")


def _installed() -> str:
    try:
        return metadata.version("nvflare")
    except metadata.PackageNotFoundError:
        raise FederationError(f"nvflare is not installed; a federation needs it. {_HINT}") from None


def internal(module: str, path: str) -> Any:
    """Return the object at a dotted ``path`` in a module of the engine, or None if there is no such object."""
    try:
        place: Any = import_module(module)
    except ImportError:
        return None
    for name in path.split("."):
        if (place := getattr(place, name, None)) is None:
            return None
    return place


def _exists(wanted: Internal) -> bool:
    place = internal(wanted.module, wanted.name)
    return place is not None and (not wanted.uses or wanted.uses in _names_in(place))


def _names_in(function: Any) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    return () if code is None else code.co_names


def _missing_classes(name: str, module: str, needed: frozenset[str]) -> list[str]:
    listed = {type(entry).__name__ for entry in internal(module, name) or ()}
    return [f"{module}.{class_name}" for class_name in sorted(needed - listed)]


def speak_tls_1_3() -> None:
    """Refuse older versions of TLS in this process; the engine's own minimum is 1.2. To be called before it connects.

    The processes of a job are started by the engine, and only connect: to a server that refuses older versions.
    """
    from nvflare.fuel.f3.drivers import net_utils

    original = net_utils.get_ssl_context
    if hasattr(original, "__wrapped__"):
        return

    @wraps(original)
    def get_ssl_context(*arguments: Any, **named: Any) -> ssl.SSLContext | None:
        context: ssl.SSLContext | None = original(*arguments, **named)
        if context is not None:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context

    net_utils.get_ssl_context = get_ssl_context


def network_handlers() -> list[str]:
    """Return the methods that the engine registers as answers to questions about the network, whatever their names."""
    agent = internal(NET_AGENT, "NetAgent")
    return [name for name in _names_in(agent.__init__) if callable(getattr(agent, name, None))]


def lock_site() -> None:
    """Drop all other answers of a site's own process. To be called before the engine starts."""
    from nvflare.fuel.f3.cellnet.net_agent import NetAgent
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

    _keep(ClientRequestProcessors.request_processors, ANSWERED_BY_A_SITE)
    for name in network_handlers():
        if name not in ANSWERED_ON_THE_NETWORK:
            setattr(NetAgent, name, _no_answer)


def lock_job() -> None:
    """Drop all other answers of a job's process. To be called as soon as our executor exists."""
    from nvflare.private.fed.client.admin_commands import AdminCommands

    _keep(AdminCommands.commands, ANSWERED_BY_A_JOB)


def _keep(answers: list[Any], class_names: frozenset[str]) -> None:
    answers[:] = [answer for answer in answers if type(answer).__name__ in class_names]


def _no_answer(*_: Any, **__: Any) -> None:
    return None
