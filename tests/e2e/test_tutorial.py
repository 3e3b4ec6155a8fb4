"""The tutorial "A federation on your own machine", command by command as it stands on the page."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.pages import Shell, agrees, steps_of

pytest.importorskip("nvflare")
PAGE = Path(__file__).parents[2] / "docs/tutorials/federation.md"


@pytest.mark.e2e
def test_the_federation_tutorial(tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    shell, running = Shell(tmp_path), []
    try:
        for step in steps_of(PAGE.read_text().replace("8102", str(port))):
            if step.text.endswith("&"):
                running.append(started(step.text, shell))
            else:
                output = shell.run(step)
                assert agrees(step, output), f"{step.text}\n--- the page says\n{step.expected}\n--- it prints\n{output}"
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            process.wait(30)


def started(command, shell):
    line = f"exec {command.rstrip('& ')}"
    return subprocess.Popen(["bash", "-c", line], cwd=shell.folder, env=shell.environment, start_new_session=True)
