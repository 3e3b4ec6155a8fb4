"""What a site does not answer, whoever asks: the engine asks for rights only where the server says that it should.

A site's process and that of a job each answer what a run needs, and nothing else: no shell, no logs, no errors, no settings.
"""

from __future__ import annotations

from typing import Any

from intarsia.exceptions import FederationError

OF_A_SITE = frozenset(
    {
        "ClientStatusProcessor",
        "ScopeInfoProcessor",
        "DeployProcessor",
        "DeleteRunNumberProcessor",
        "StartJobProcessor",
        "AbortAppProcessor",
        "AbortTaskProcessor",
        "CheckResourceProcessor",
        "CancelResourceProcessor",
        "NotifyJobStatusProcessor",
        "ReportVersionProcessor",
    }
)
OF_A_JOB = frozenset({"CheckStatusCommand", "AbortCommand", "AbortTaskCommand", "ByeCommand"})
OF_THE_NETWORK = frozenset({"_do_echo", "_do_heartbeat", "_do_stop", "_do_stop_cell"})


def lock_site() -> None:
    """In a site's own process, before the engine starts."""
    from nvflare.fuel.f3.cellnet.net_agent import NetAgent
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

    processors = ClientRequestProcessors.request_processors
    processors[:] = _known(processors, OF_A_SITE, at_least=8)
    _silence(NetAgent)


def lock_job() -> None:
    """In the process of a job, as soon as our executor is there."""
    from nvflare.private.fed.client.admin_commands import AdminCommands

    commands = AdminCommands.commands
    commands[:] = _known(commands, OF_A_JOB, at_least=3)


def _known(things: list[Any], names: frozenset[str], at_least: int) -> list[Any]:
    kept = [thing for thing in things if type(thing).__name__ in names]
    if len(kept) < at_least:
        raise FederationError("this version of nvflare is not known here. Try: pip install 'intarsia[cli,flare]'")
    return kept


def _silence(agent: Any) -> None:
    """Questions about the network's insides are not answered."""
    for name in dir(agent):
        if name.startswith("_do_") and name not in OF_THE_NETWORK:
            setattr(agent, name, _nothing)


def _nothing(*_: Any, **__: Any) -> None:
    return None
