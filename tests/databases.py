"""A PostgreSQL server of the tests' own: a new cluster in a temporary folder, on a free port, which ends with the tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

USER, SECRET = "owner", "geheim"


class Server(NamedTuple):
    """Where a server answers; ``bin`` are its programs."""

    port: int
    bin: Path

    def url(self, database="postgres", user=USER):
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def run(self, sql, database="postgres"):
        """Run statements, and return what psql prints."""
        done = subprocess.run(
            [self.bin / "psql", "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", self.url(database), "-f", "-"],
            input=sql, env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def environment():
    return {**os.environ, "PGPASSWORD": SECRET, "PGCLIENTENCODING": "UTF8"}


def programs():
    """The folder with the server's programs; None if there is none."""
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    if found := shutil.which("initdb"):
        folders.append(Path(found).parent)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


@contextmanager
def server() -> Iterator[Server]:
    """Start a server, as a user who is not root, and stop it at the end."""
    pytest.importorskip("adbc_driver_postgresql") if not os.environ.get("CI") else None
    folder = programs()
    if folder is None:
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL is missing. Hint: scripts/install-postgresql")
        pytest.skip("PostgreSQL is missing. Hint: scripts/install-postgresql")
    place = Path(tempfile.mkdtemp(prefix="intarsia-pg-"))
    user = ["runuser", "-u", "nobody", "--"] if os.getuid() == 0 else []
    (place / "secret").write_text(SECRET)
    if user:
        place.chmod(0o755)
        (place / "data").mkdir()
        for path in (place, place / "data", place / "secret"):
            shutil.chown(path, "nobody")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = (
        f"-c listen_addresses=127.0.0.1 -p {port} -k {place} -c fsync=off -c full_page_writes=off -c max_wal_size=4GB"
    )
    control = [*user, folder / "pg_ctl", "-D", place / "data", "-l", place / "log", "-w"]

    def call(*command):
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    try:
        call(*user, folder / "initdb", "-D", place / "data", "-A", "scram-sha-256", f"--pwfile={place / 'secret'}",
             "-U", USER, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")  # fmt: skip
        # without pipes, which the server would keep open
        subprocess.run([*control, "-o", settings, "start"], cwd=place, stdout=subprocess.DEVNULL, check=True)
        try:
            yield Server(port, folder)
        finally:
            call(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(place)
