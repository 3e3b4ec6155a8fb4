"""A test that fails once and then passes is reported by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import attempts

TESTS = """
from pathlib import Path

SEEN = Path(__file__).with_name("seen")

def test_steady():
    pass

def test_flaky():
    first = not SEEN.exists()
    SEEN.touch()
    assert not first, "too slow"

def test_broken():
    assert "always".endswith("never")
"""


@pytest.fixture
def folder():
    """Beside the other tests, so that their conftest.py is used."""
    path = Path(__file__).parent / "_attempts"
    path.mkdir()
    yield path
    shutil.rmtree(path)


def test_a_test_that_passes_at_the_second_attempt_is_flaky_and_named(folder, tmp_path, capsys):
    (folder / "test_three.py").write_text(TESTS)
    one = str(folder / "test_three.py")
    rest = ("-q", "-p", "no:cacheprovider", "-k", "flaky or steady")
    assert attempts.run([(one,)], tmp_path / "flaky.txt", *rest) == 0
    said = capsys.readouterr().out
    assert "FLAKY (failed, then passed): tests/_attempts/test_three.py::test_flaky: AssertionError: too slow" in said
    assert "0 failed, 1 flaky" in said
    assert "test_flaky" in (tmp_path / "flaky.txt").read_text()
    assert attempts.run([(one,)], tmp_path / "flaky.txt", "-q", "-p", "no:cacheprovider") == 1
    assert "FAILED: tests/_attempts/test_three.py::test_broken" in capsys.readouterr().out
    assert (tmp_path / "flaky.txt").read_text() == ""
