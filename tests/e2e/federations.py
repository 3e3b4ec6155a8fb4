"""A federation of real processes on this machine, by the commands that users type, and ways to hurt it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import polars as pl
import psutil
import pytest

from intarsia.cli import main
from intarsia.federation.consent import keep
from intarsia.federation.flare.driver import Driver
from intarsia.federation.site import RELEASES
from intarsia.privacy.journal import LEFT, Journal
from intarsia.runtime.transcript import Answer, read_file

INTARSIA = [sys.executable, "-m", "intarsia.cli"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


PATIENCE = 300.0  # seconds that a busy machine may take for anything that takes a few when it is idle


def wait_until(true, timeout=PATIENCE, every=0.2, say=str):
    """Wait until something is true; if it never is, ``say`` tells more."""
    end = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < end, say()
        time.sleep(every)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Federation:
    """Kits, tables and processes in one folder."""

    more = ()  # words for whoever serves

    def __init__(
        self,
        folder: Path,
        tables,
        method="federated",
        k=2,
        settings="",
        deadline=60,
        quorum=None,
        late=(),
        release="",
        privacy="",
        head="",
    ):
        self.folder, self.tables, self.running, self.late = folder, tables, {}, late
        self.names = list(tables)
        for name, table in tables.items():
            table.write_parquet(folder / f"{name}.parquet")
        head += f'name = "study"\nparticipants = {json.dumps(self.names)}\nmethod = "{method}"\n'
        head += f"n_clusters = {json.dumps(k)}\ndeadline = {deadline}\n" + (f"quorum = {quorum}\n" if quorum else "")
        server = f'[server]\nhost = "localhost"\nport = {free_port()}\n'
        (folder / "study.toml").write_text(
            f"{head}{server}[settings]\nrandom_state = 0\n{settings}\n[release]\n{release}\n{privacy}\n"
        )
        self.make_kits()
        for name in self.names:
            self.agree(name)

    def __enter__(self):
        self.start("server")
        for name in self.names:
            if name not in self.late:
                self.start(name)
        return self

    def __exit__(self, *_):
        for name in list(self.running):
            self.kill(name)

    def command(self, *words, check=False, timeout=PATIENCE):
        return subprocess.run(
            [*INTARSIA, *words],
            cwd=self.folder,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=check,
            timeout=timeout,
        )

    def make_kits(self):
        self.here("federation", "init", str(self.folder / "study.toml"), "-o", str(self.folder / "kits"))

    def here(self, *words):
        """A command in this process, which need not be started for it."""
        said = io.StringIO()
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            pytest.raises(SystemExit) as end,
            warnings.catch_warnings(),
        ):
            main(list(words))
        assert not end.value.code, said.getvalue()
        return said.getvalue()

    def agree(self, name):
        """Whoever answers for the data reads the form and fills it in."""
        form = self.folder / f"{name}.consent.toml"
        form.unlink(missing_ok=True)
        where = ("--kit", str(self.folder / "kits" / name), "--table", str(self.folder / f"{name}.parquet"))
        self.here("participant", "preview", *where, "--form", str(form), "--json", *self.more)
        form.write_text(
            form.read_text().replace('agreed_by = ""', 'agreed_by = "Dr. Who"').replace('on = ""', "on = 2026-11-15")
        )

    def words(self, name):
        """What starts the server or a site."""
        if name == "server":
            return [*INTARSIA, "federation", "start", "--kit", f"kits/{name}"]
        serve = ["participant", "serve", "--table", f"{name}.parquet", "--consent", f"{name}.consent.toml", *self.more]
        return [*INTARSIA, *serve, "--kit", f"kits/{name}"]

    def start(self, name):
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                self.words(name), cwd=self.folder, env=ENVIRONMENT, stdout=log, stderr=log
            )

    def job_processes(self, name):
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.running[name].pid).children(recursive=True)
        return []

    def kill(self, name, jobs=True):
        """Kill -9 a party, with its job processes, as when a machine goes down, or without."""
        children = self.job_processes(name)
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for child in children if jobs else []:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()

    def hold(self, name, stop=True):
        """Stop the job process of a site, or let it go on: it lives, and does not answer."""
        for process in self.job_processes(name):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP if stop else signal.SIGCONT)

    def status(self):
        """What the analyst is told, as JSON."""
        done = self.command("federation", "status", "--kit", "kits/analyst", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def log(self, name="analyst"):
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def begin(self, patience=200, *more):
        """The analyst's command, going on by itself."""
        words = [*INTARSIA, "federation", "run", "--kit", "kits/analyst", "-o", "study", "--patience", str(patience)]
        words += more
        with (self.folder / "analyst.log").open("ab") as log:
            return subprocess.Popen(words, cwd=self.folder, env=ENVIRONMENT, stdout=log, stderr=log)

    def kept(self):
        """Which answers the server keeps: whose, and to which request."""
        found = [read_file(path, Answer) for path in self.folder.glob("kits/server/runs/*/*/*.reply")]
        return {(answer.participant, answer.digest.hex()) for answer in found if answer is not None}

    def answered(self):
        """How many replies the server keeps."""
        return len(list(self.folder.glob("kits/server/runs/*/*/*.reply")))

    def wait_for(self, n, timeout=PATIENCE):
        """Wait until the server keeps so many replies."""
        wait_until(lambda: self.answered() >= n, timeout, every=0.002, say=self.log)

    def wait_connected(self, names=None):
        """Wait until these sites are connected, or all."""
        wanted = set(self.names if names is None else names)
        wait_until(lambda: wanted <= set(self.connected()), every=0.5)

    def connected(self):
        """Which sites are connected, by a session of this process: a command takes seconds to start."""
        with contextlib.suppress(Exception):
            return Driver(self.folder / "kits" / "analyst").server_status(patience=5.0)[0].connected
        return ()

    def forget_releases(self):
        """What left so far is not counted, and the tables are as if nothing had been told of them."""
        for name in self.names:
            (self.folder / "kits" / name / RELEASES).unlink(missing_ok=True)
            (self.folder / f"{name}.parquet.told").unlink(missing_ok=True)

    def reseed(self, seed):
        """Everybody agrees on the same study with another seed."""
        self.change(lambda study: study["settings"].update(random_state=seed))

    def change(self, how):
        """Everybody agrees on a study that was changed."""
        for path in self.folder.glob("kits/*/study.json"):
            study = json.loads(path.read_text())
            how(study)
            path.write_text(json.dumps(study))
        for name in self.names:
            self.agree(name)

    def labels(self, name):
        return pl.read_csv(self.folder / "kits" / name / "labels.csv")["cluster"].to_numpy()

    def released(self, name):
        """What left, by the digest of the request that it answers."""
        return [entry["digest"] for entry in Journal(self.folder / "kits" / name / RELEASES).entries(LEFT)]

    @property
    def model(self):
        return self.folder / "study" / "model.intarsia"


class SecureFederation(Federation):
    """Participants that make their own keys and agree on a list of them, for secure sums."""

    def __init__(self, folder: Path, tables, **settings):
        super().__init__(folder, tables, head="secure_sums = true\n", **settings)

    @property
    def more(self):
        return ("--keys", str(self.folder / "keys.json"))

    def reseed(self, seed):
        """Everybody agrees on another seed, and sites know it before the run: a new form ends the runs of the old one."""
        super().reseed(seed)
        for name in self.names:
            keep(self.folder / "kits" / name, (self.folder / f"{name}.consent.toml").read_text(), is_new_form=True)

    def make_kits(self):
        super().make_kits()
        authority = str(self.folder / "kits" / "authority")
        for name in self.names:
            joining, reply = self.folder / name, self.folder / "approved" / f"{name}.approved.json"
            asked = self.here(
                "federation", "join-request", str(self.folder / "study.toml"), "--name", name, "-o", str(joining)
            )
            seen = asked.partition("in person: ")[2].splitlines()[0]
            approve = ("federation", "approve", str(joining / f"{name}.request.pem"), "--authority", authority)
            self.here(*approve, "-o", str(reply.parent), "--fingerprint", seen)
            kit = self.folder / "kits" / name
            self.here("federation", "join", str(reply), "--request", str(joining), "-o", str(kit))
        self.here("federation", "keys", "--authority", authority, "-o", str(self.folder / "keys.json"))
