"""``make federation-demo``: four hospitals as four processes and a server, from nothing to a report, by what users type.

Everything is in one folder that is removed at the end, but for the report. Certificates are real, the network is this
machine's own. ``make federation-demo EPSILON=2`` runs it with differential privacy.
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
from pathlib import Path

from intarsia.datasets import load_heart_disease

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


def main() -> None:
    """Show a federation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/federation-demo"))
    parser.add_argument("--epsilon", type=float, help="with differential privacy")
    arguments = parser.parse_args()
    output = arguments.output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="intarsia-demo-") as folder:
        demonstrate(Path(folder), output, "" if arguments.epsilon is None else BOUNDS.format(epsilon=arguments.epsilon))


def demonstrate(folder: Path, output: Path, privacy: str) -> None:
    """From nothing to the report."""
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - started:5.1f} s] {text}", flush=True)  # noqa: T201

    hospitals = load_heart_disease("polars").tables
    for name, table in hospitals.items():
        table.write_parquet(folder / f"{name}.parquet")
    study = STUDY.format(participants=json.dumps(list(hospitals)), port=free_port())
    (folder / "study.toml").write_text(study + privacy)
    subprocess.run(
        [*INTARSIA, "federation", "init", "study.toml", "-o", "kits"], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    say(f"kits with certificates for a server, an analyst and {len(hospitals)} hospitals")
    running: list[subprocess.Popen[bytes]] = []
    try:
        running.append(launch(folder, "server", "federation", "start", "--kit", "kits/server"))
        for name in hospitals:
            own = ("--kit", f"kits/{name}", "--table", f"{name}.parquet")
            running.append(launch(folder, name, "participant", "serve", *own, "--consent", agree(folder, name, own)))
        say("a server and four sites are starting, each in a process of its own")
        run = [*INTARSIA, "federation", "run", "--kit", "kits/analyst", "-o", str(output), "--patience", "170"]
        subprocess.run(run, cwd=folder, check=True)
        say("done")
        for name in hospitals:
            shutil.copyfile(folder / "kits" / name / "releases.jsonl", output / f"left-{name}.jsonl")
            n = sum(1 for _ in (folder / "kits" / name / "labels.csv").open()) - 1
            journal = [json.loads(line) for line in (output / f"left-{name}.jsonl").read_text().splitlines()]
            left = [entry for entry in journal if entry["event"] == "left"]
            size = sum(entry["bytes"] for entry in left)
            say(f"{name}: {n} labels stayed there; {len(left)} messages of {size} bytes in all left")
        if privacy:
            subprocess.run([*INTARSIA, "participant", "budget", "kits/cleveland"], cwd=folder, check=True)
        say(f"report: {output / 'report.html'}")
    finally:
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def agree(folder: Path, name: str, own: tuple[str, ...]) -> str:
    """Write a consent form and complete it, as the person responsible for the hospital's data would."""
    form = folder / f"{name}.consent.toml"
    preview = [*INTARSIA, "participant", "preview", *own, "--form", form.name, "--json"]
    subprocess.run(preview, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    text = form.read_text().replace('agreed_by = ""', 'agreed_by = "the demo"')
    form.write_text(text.replace('\non = ""', f'\non = "{time.strftime("%Y-%m-%d")}"'))
    return form.name


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
