"""Pages that run: ``python -m tests.pages docs/tutorials/page.md`` prints the page with the outputs of its blocks.

Blocks run in order, in one empty folder. A block ``console`` has commands after ``$`` and their output. The output of a
block ``python`` is in the block ``text`` that follows it. In an expected output ``…`` stands for any text; spaces, empty
lines, and digits of a number beyond the tenth (processors round differently) do not count. A comment
``<!-- not run: reason -->`` before a block says why it does not run; after ``<!-- numbers vary: reason -->`` numbers are
not compared.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(
    r"(?:<!-- (?P<note>not run|numbers vary): [^>]+-->\s+)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
DIGITS = re.compile(r"\d+\.\d{10,}(?:e[+-]?\d+)?")
COMMANDS = Path(sys.executable).parent
SILENT = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


class Step(NamedTuple):
    """Something that runs, and what it should print."""

    kind: str
    text: str
    expected: str
    where: tuple[int, int]
    varies: bool = False


def steps_of(page: str) -> list[Step]:
    """What runs on a page, in order."""
    return list(_steps([match for match in FENCE.finditer(page) if match["note"] != "not run"]))


def _steps(blocks: list[re.Match[str]]) -> Iterator[Step]:
    for i, block in enumerate(blocks):
        if block["kind"] == "console":
            yield from _commands(block)
        if block["kind"] == "python":
            after = blocks[i + 1] if i + 1 < len(blocks) and blocks[i + 1]["kind"] == "text" else None
            yield Step(
                "python", block["text"], after["text"] if after else "", *(_place(after) if after else ((0, 0),))
            )


def _place(block: re.Match[str]) -> tuple[tuple[int, int], bool]:
    return block.span("text"), block["note"] == "numbers vary"


def _commands(block: re.Match[str]) -> Iterator[Step]:
    start = block.start("text")
    for match in re.finditer(
        r"^\$ (?P<command>.*<< END\n(?:.*\n)*?END|.*)\n(?P<output>(?:(?!\$ ).*\n)*)", block["text"], re.MULTILINE
    ):
        first, last = match.span("output")
        command = re.sub(r"\s+# .*$", "", match["command"])
        yield Step("console", command, match["output"], (start + first, start + last), _place(block)[1])


class Shell:
    """Runs the steps of a page in a folder."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        path = f"{COMMANDS}{os.pathsep}{os.environ['PATH']}"
        self.environment = os.environ | SILENT | {"PATH": path} | environment
        self.python = ""

    def run(self, step: Step) -> str:
        """Run one step, and return what it prints; Python blocks see the names of those before them."""
        if step.kind == "console":
            command = ["bash", "-c", step.text]
        else:
            command = [sys.executable, "-c", f"{self.python}\nprint({MARK!r})\n{step.text}"]
            self.python += f"\n{step.text}"
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=300
        )
        output = done.stdout.rpartition(f"{MARK}\n")[2] + done.stderr
        assert done.returncode == 0, f"{step.text}\n{output}"
        return "\n".join(line.rstrip() for line in output.strip().splitlines())


MARK = "\x1e"


def agrees(step: Step, output: str) -> bool:
    """Whether an output is what is expected, where … stands for any text, and spaces and last digits do not count."""
    expected, output = ("".join(DIGITS.sub(ten_digits, text).split()) for text in (step.expected, output))
    if step.varies:
        expected, output = (re.sub(r"[\d.-]*\d\.?", "#", text) for text in (expected, output))
    return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), output) is not None


def ten_digits(number: re.Match[str]) -> str:
    return f"{float(number[0]):.10g}"


def check_page(page: Path, folder: Path) -> None:
    """Run a page, and compare every output with that on the page."""
    shell = Shell(folder)
    for step in steps_of(page.read_text()):
        output = shell.run(step)
        assert agrees(step, output), (
            f"{page.name}: {step.text}\n--- the page says\n{step.expected}\n--- it prints\n{output}"
        )


def main(path: str) -> None:
    """Print a page with the outputs that its blocks have now."""
    text = Path(path).read_text()
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(Path(folder))
        done = [(step, shell.run(step)) for step in steps_of(text)]
    for step, output in reversed(done):
        if step.where != (0, 0) and not agrees(step, output):
            text = f"{text[: step.where[0]]}{output}\n{text[step.where[1] :]}"
    sys.stdout.write(text)


if __name__ == "__main__":
    main(*shlex.split(" ".join(sys.argv[1:])))
