"""The folder of a study: model, labels, centroids, report and the record of the run, written completely or not at all."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intarsia._files import umask
from intarsia.cli.console import err, plain
from intarsia.cli.interrupts import uninterrupted, written
from intarsia.exceptions import InputError, IntarsiaError, SettingError
from intarsia.results.label_file import without_formulas, write_labels

if TYPE_CHECKING:
    from intarsia.estimators import ClusteringResult

MODEL, LABELS, REPORT, CENTROIDS, RUN = "model.intarsia", "labels", "report.html", "centroids.csv", "run.json"


def model_in(study: Path) -> Path:
    """Return the path of the model: ``study`` is a study's folder, or the model file itself."""
    return study / MODEL if study.is_dir() else study


def check_free(folder: Path, *, force: bool) -> None:
    """Raise a SettingError if the folder exists, unless ``force`` is set and it contains a study and nothing else."""
    if not folder.exists() and not folder.is_symlink():
        return
    if not force:
        raise SettingError(f"{folder} already exists. Hint: another --output, or --force to replace it.")
    inside = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if MODEL not in inside or not inside <= {MODEL, LABELS, REPORT, CENTROIDS, RUN}:
        raise SettingError(f"{folder} already exists and is not only a study: --force does not replace it.")


def write_study(result: ClusteringResult, folder: Path, ids: dict[str, Any], record: dict[str, Any]) -> None:
    """Write a study to a temporary folder, which then takes the place of ``folder``; on failure an older study is kept."""
    folder = folder.resolve()
    temporary: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".intarsia-", dir=folder.parent))
        result.save(temporary / MODEL)
        _write_labels(result, temporary / LABELS, ids)
        without_formulas(result.to_frame("polars")).write_csv(temporary / CENTROIDS)
        _write_report(result, temporary / REPORT)
        (temporary / RUN).write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        temporary.chmod(0o777 & ~umask())
        with uninterrupted():
            _replace(folder, temporary)
            written(folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}.") from error
    finally:
        if temporary is not None:
            with uninterrupted():
                shutil.rmtree(temporary, ignore_errors=True)


def _replace(folder: Path, temporary: Path) -> None:
    if not folder.exists():
        temporary.rename(folder)
        return
    old = temporary.with_name(temporary.name + "-old")
    folder.rename(old)
    try:
        temporary.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    shutil.rmtree(old)


def _write_labels(result: ClusteringResult, folder: Path, ids: dict[str, Any]) -> None:
    folder.mkdir()
    for name, labels in result.labels.items():
        write_labels(folder / f"{name}.csv", {"cluster": labels}, ids[str(name)])


def _write_report(result: ClusteringResult, path: Path) -> None:
    """Write the report, or say why it cannot be made: the run is done, and its result must not be lost."""
    try:
        result.report(path)
    except Exception as error:  # noqa: BLE001
        reason = str(error) if isinstance(error, IntarsiaError) else type(error).__name__
        err.print(plain(f"the report could not be made: {reason} Hint: intarsia report tries again."))
