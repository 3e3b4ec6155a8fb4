"""The engine's server and site, as we start them."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("nvflare")

REFUSED = """
from intarsia.federation.flare.starter import end_if_shut_out
from nvflare.private.fed import authenticator
end_if_shut_out()
try:
    raise RuntimeError("error:client_registration {reason}")
except RuntimeError:
    authenticator.traceback.print_exc()
print("goes on")
"""


@pytest.mark.parametrize(
    ("reason", "code", "lines"),
    [("Client 'c' is disabled", 1, 1), ("the server's clock is wrong", 0, 3)],
    ids=["shut out", "another reason"],
)
def test_a_site_that_is_shut_out_ends_with_one_line(reason, code, lines):
    command = [sys.executable, "-W", "ignore", "-c", REFUSED.format(reason=reason)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert len(done.stderr.splitlines()) == lines
    assert ("the coordinator has shut this site out. Hint: ask the coordinator" in done.stderr) == bool(code)
    assert ("Traceback" in done.stderr) != bool(code)
    assert ("goes on" in done.stdout) != bool(code)
