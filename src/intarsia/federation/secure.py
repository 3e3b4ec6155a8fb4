"""A site in a run with secure sums: how it proves who it is, and the secrets that it keeps in its kit over restarts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from intarsia._files import lock, open_private, sync_folder, write_atomically
from intarsia.exceptions import InputError, ReleaseError
from intarsia.federation.algorithms import run_of
from intarsia.federation.key_list import keys_of, own_key
from intarsia.federation.kit_folder import study_of
from intarsia.participant.vault import Credentials

RUNS = "intarsia"  # folder of a kit: what a site keeps of each run


def credentials_of(kit: Path, run: str) -> Credentials:
    """Return how the participant of a kit proves who it is in a run, and whose keys it trusts; see :func:`keys_of`."""
    keys, expected = keys_of(kit), run_of(study_of(kit))
    if keys is None or run != expected:
        raise ReleaseError(
            f"the job is of another run ({run}) than the one that this participant agreed to ({expected}). Hint: the study "
            "and the version of Intarsia must be the same everywhere."
        )
    return Credentials(own_key(kit), keys, run)


def vault_of(kit: Path, run: str) -> FileVault:
    """Return the vault of a run in a kit."""
    return FileVault(kit / RUNS / f"{run}.vault")


def forget_runs(kit: Path) -> None:
    """Forget the secrets of all runs and what was answered in them: after new consent, a new run may begin."""
    for path in (kit / RUNS).glob("*.vault"):
        vault = FileVault(path)
        with vault.locked():
            vault.forget()
            shutil.rmtree(path.with_suffix(".replies"), ignore_errors=True)


class FileVault:
    """The secrets of a run in a file that only its owner can read, so that a restarted site answers as before."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> bytes | None:
        """Return what was stored last; None if nothing was."""
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"{self._path} cannot be read: {error.strerror}.") from error

    def store(self, data: bytes) -> None:
        """Replace what was stored, completely or not at all, and return when it is on disk."""
        write_atomically(self._path, data, secret=True)

    def forget(self) -> None:
        """Remove the secrets. The run cannot be continued then."""
        self._path.unlink(missing_ok=True)
        sync_folder(self._path.parent)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all other processes of this site out: two jobs of one run must not answer at the same time."""
        with open_private(self._path.with_suffix(".lock")) as file:
            lock(file.fileno())
            yield
