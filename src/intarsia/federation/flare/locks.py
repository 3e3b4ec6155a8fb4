"""What a site refuses to answer, whoever asks.

The engine checks rights only where its server tells it to. So a site's process and that of a job keep the answers that a run
needs and drop all others: no shell, no logs, no errors, no settings.
"""

from __future__ import annotations

from typing import Any

from intarsia.federation.flare import engine


def lock_site() -> None:
    """Drop all other answers of a site's own process. To be called before the engine starts."""
    from nvflare.fuel.f3.cellnet.net_agent import NetAgent
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

    _keep(ClientRequestProcessors.request_processors, engine.ANSWERED_BY_A_SITE)
    for name in engine.network_handlers():
        if name not in engine.ANSWERED_ON_THE_NETWORK:
            setattr(NetAgent, name, _no_answer)


def lock_job() -> None:
    """Drop all other answers of a job's process. To be called as soon as our executor exists."""
    from nvflare.private.fed.client.admin_commands import AdminCommands

    _keep(AdminCommands.commands, engine.ANSWERED_BY_A_JOB)


def _keep(answers: list[Any], class_names: frozenset[str]) -> None:
    answers[:] = [answer for answer in answers if type(answer).__name__ in class_names]


def _no_answer(*_: Any, **__: Any) -> None:
    return None
