"""``make federation-demo``: four hospitals as four processes and a server, from nothing to a report, by what users type.

Everything is in one folder that is removed at the end, but for the report. Certificates are real, the network is this
machine's own. ``make federation-demo EPSILON=2`` runs it with differential privacy, ``SECURE=1`` with secure sums, and both
together with both.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from intarsia.datasets import load_heart_disease
from intarsia.protocol.catalogue import words_of

INTARSIA = [sys.executable, "-m", "intarsia.cli"]
STUDY = """name = "heart"
participants = {participants}
method = "federated"
n_clusters = 2

[server]
host = "localhost"
port = {port}

[settings]
random_state = 0
"""
BOUNDS = """
[privacy]
epsilon = {epsilon}

[privacy.bounds]        # what is possible in an adult at a heart clinic, not what these patients have
age = [20, 90]
sex = [0, 1]
cp = [1, 4]             # kinds of chest pain
trestbps = [80, 220]    # mm Hg
chol = [100, 500]       # mg/dl
fbs = [0, 1]
restecg = [0, 2]
thalach = [60, 220]     # beats per minute
exang = [0, 1]
oldpeak = [-2, 6]       # mm of ST depression
slope = [1, 3]
ca = [0, 3]             # vessels
thal = [3, 7]
"""


class Demo:
    """A federation in a folder: the kit of each hospital, and what is told with the time since the start."""

    def __init__(self, folder: Path, *, secure: bool) -> None:
        self.folder, self.secure, self._started = folder, secure, time.monotonic()
        self.hospitals = load_heart_disease("polars").tables

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        print(f"[{time.monotonic() - self._started:5.1f} s] {text}", flush=True)  # noqa: T201

    def kit(self, name: str) -> str:
        """Return the folder of a hospital's kit: with secure sums it makes its own."""
        return f"{name}/kit" if self.secure else f"kits/{name}"

    def command(self, *words: str) -> str:
        """Run a command to its end and return what it printed."""
        done = subprocess.run([*INTARSIA, *words], cwd=self.folder, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout

    def at_all(self, command: Callable[[str], Sequence[str]]) -> dict[str, str]:
        """Run a command at all hospitals at the same time, each its own, and return what each printed."""
        running = {
            name: subprocess.Popen([*INTARSIA, *command(name)], cwd=self.folder, stdout=subprocess.PIPE, text=True)
            for name in self.hospitals
        }
        printed = {name: process.communicate()[0] for name, process in running.items()}
        if failed := [name for name, process in running.items() if process.returncode]:
            raise SystemExit(f"{' '.join(command(failed[0]))} failed")
        return printed


def main() -> None:
    """Show a federation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/federation-demo"))
    parser.add_argument("--epsilon", type=float, help="with differential privacy")
    parser.add_argument("--secure", action="store_true", help="with secure sums")
    arguments = parser.parse_args()
    output = arguments.output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    privacy = "" if arguments.epsilon is None else BOUNDS.format(epsilon=arguments.epsilon)
    with tempfile.TemporaryDirectory(prefix="intarsia-demo-") as folder:
        demonstrate(Demo(Path(folder), secure=arguments.secure), output, privacy)


def demonstrate(demo: Demo, output: Path, privacy: str) -> None:
    """From nothing to the report."""
    folder, say = demo.folder, demo.say
    for name, table in demo.hospitals.items():
        table.write_parquet(folder / f"{name}.parquet")
    study = STUDY.format(participants=json.dumps(list(demo.hospitals)), port=free_port())
    (folder / "study.toml").write_text(study + privacy)
    demo.command("federation", "init", "study.toml", "-o", "kits", *(["--secure"] if demo.secure else []))
    if demo.secure:
        say("kits with certificates for a server and an analyst; study.toml now says secure_sums = true")
        join(demo)
    else:
        say(f"kits with certificates for a server, an analyst and {len(demo.hospitals)} hospitals")
    running: list[subprocess.Popen[bytes]] = []
    try:
        running.append(launch(folder, "server", "federation", "start", "--kit", "kits/server"))
        for name, form in agree(demo).items():
            own = ("--kit", demo.kit(name), "--table", f"{name}.parquet", *listed(demo))
            running.append(launch(folder, name, "participant", "serve", *own, "--consent", form))
        say("a server and four sites are starting, each in a process of its own")
        run = [*INTARSIA, "federation", "run", "--kit", "kits/analyst", "-o", str(output), "--patience", "170"]
        subprocess.run(run, cwd=folder, check=True)
        say("done")
        show_what_left(demo, output)
        if privacy:
            subprocess.run([*INTARSIA, "participant", "budget", demo.kit("cleveland")], cwd=folder, check=True)
        say(f"report: {output / 'report.html'}")
    finally:
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def join(demo: Demo) -> None:
    """Let each hospital make its own key, have it approved, and join; then the coordinator lists all keys."""
    asked = demo.at_all(
        lambda name: ("federation", "join-request", "study.toml", "--name", name, "-o", f"{name}/joining")
    )
    demo.say("each hospital has made a key, which stays there, and a request")
    for name, printed in asked.items():
        seen = printed.partition("in person: ")[2].splitlines()[0]  # a phone call, in real life
        request = f"{name}/joining/{name}.request.pem"
        demo.command("federation", "approve", request, "--authority", "kits/authority", "--fingerprint", seen)
    demo.at_all(
        lambda name: (
            *("federation", "join", f"approved/{name}.approved.json"),
            *("--request", f"{name}/joining", "-o", demo.kit(name)),
        )
    )
    printed = demo.command("federation", "keys", "--authority", "kits/authority", "-o", "keys.json")
    number = printed.partition("safety number: ")[2].splitlines()[0]
    demo.say(f"all have joined; the coordinator sends keys.json to all. Its safety number: {number}")


def listed(demo: Demo) -> tuple[str, ...]:
    """Return the option that names the list of keys."""
    return ("--keys", "keys.json") if demo.secure else ()


def agree(demo: Demo) -> dict[str, str]:
    """Write consent forms and complete them, as the people responsible for each hospital's data would."""
    names = {name: f"{name}.consent.toml" for name in demo.hospitals}
    for name, form in names.items():
        own = ("--kit", demo.kit(name), "--table", f"{name}.parquet", *listed(demo))
        preview = [*INTARSIA, "participant", "preview", *own, "--form", form, "--json"]
        subprocess.run(preview, cwd=demo.folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    forms = {name: (demo.folder / form).read_text() for name, form in names.items()}
    if demo.secure:
        numbers = {tomllib.loads(text)["keys"]["safety_number"] for text in forms.values()}
        assert len(numbers) == 1, "somebody was sent another list of keys"
        demo.say("the hospitals compare the number on their consent forms by phone: it is the same on all")
    for name, text in forms.items():
        completed = text.replace('agreed_by = ""', 'agreed_by = "the demo"')
        completed = completed.replace('\non = ""', f'\non = "{time.strftime("%Y-%m-%d")}"')
        (demo.folder / names[name]).write_text(completed)
    return names


def show_what_left(demo: Demo, output: Path) -> None:
    """Print what left each hospital, which is all that the coordinator saw of it."""
    kinds: dict[str, Counter[str]] = {}
    for name in demo.hospitals:
        kit, left = demo.folder / demo.kit(name), output / f"left-{name}.jsonl"
        shutil.copyfile(kit / "releases.jsonl", left)
        n = sum(1 for _ in (kit / "labels.csv").open()) - 1
        entries = [entry for line in left.read_text().splitlines() if (entry := json.loads(line))["event"] == "left"]
        size = sum(entry["bytes"] for entry in entries)
        demo.say(f"{name}: {n} labels stayed there; {len(entries)} messages of {size} bytes in all left")
        for entry in entries:
            kinds.setdefault(entry["reply"], Counter())[name] += 1
    if demo.secure:
        demo.say("what the coordinator saw of each hospital:")
        for kind, counts in kinds.items():
            demo.say(f"  {kind}, {max(counts.values())} time(s): {words_of(kind)}")


def launch(folder: Path, name: str, *command: str) -> subprocess.Popen[bytes]:
    """Start the server or a site, with a log of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen([*INTARSIA, *command], cwd=folder, stdout=log, stderr=log, env=environment)


def free_port() -> int:
    """Return a port that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
