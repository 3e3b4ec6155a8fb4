"""A site answers what a run needs, also where the server forgets to ask for rights."""

from __future__ import annotations

import subprocess
import sys

import pytest

from intarsia.exceptions import ProtocolError
from intarsia.protocol import Failure, encode
from tests.hostile import Hostile

pytest.importorskip("nvflare")

pytestmark = pytest.mark.e2e

SITE = """
from nvflare.private.admin_defs import Message
from nvflare.private.fed.client import admin, client_req_processors
from nvflare.private.defs import SysCommandTopic, InfoCollectorTopic, TrainingTopic
from nvflare.fuel.f3.cellnet.net_agent import NetAgent
from intarsia.federation.flare.locks import lock_site
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


def test_a_site_has_no_shell_no_errors_and_no_settings_to_show():
    open_topics, _ = said(SITE, locked=False)
    assert "shell" in open_topics.lower()  # so the question is a fair one
    topics, rest = said(SITE, locked=True)
    assert topics == "[]"
    assert rest == "True _nothing"


def test_a_job_shows_neither_errors_nor_figures():
    assert "ShowErrorsCommand" in said(JOB, locked=False)[0]
    assert said(JOB, locked=True) == ["['AbortCommand', 'AbortTaskCommand', 'ByeCommand', 'CheckStatusCommand']"]


def test_the_runtime_refuses_what_is_no_reply():
    from nvflare.apis.shareable import ReturnCode, Shareable, make_reply

    from intarsia.federation.flare.filter import MESSAGE
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
