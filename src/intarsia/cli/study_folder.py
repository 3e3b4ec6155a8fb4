"""The folder of a study: model, labels, centroids, report and the record of the run, written completely or not at all."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intarsia._files import umask, write_atomically
from intarsia.cli.console import err, out, plain
from intarsia.cli.interrupts import uninterrupted, written
from intarsia.cli.lights import print_lights
from intarsia.cli.run_record import record_of
from intarsia.exceptions import InputError, IntarsiaError, SettingError
from intarsia.results.label_file import columns_of, rename_labels, without_formulas, write_labels

if TYPE_CHECKING:
    from intarsia.core.types import FloatArray
    from intarsia.estimators import ClusteringResult

MODEL, LABELS, REPORT, CENTROIDS, RUN = "model.intarsia", "labels", "report.html", "centroids.csv", "run.json"
PUBLIC, DATA = "public.intarsia", "report.json"
FILES = (MODEL, PUBLIC, REPORT, DATA, CENTROIDS, RUN)


class LabelFile(StrEnum):
    """The types of files of labels."""

    CSV = "csv"
    PARQUET = "parquet"


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
    if MODEL not in inside or not inside <= {LABELS, *FILES}:
        raise SettingError(f"{folder} already exists and is not only a study: --force does not replace it.")


def write_study(
    result: ClusteringResult,
    folder: Path,
    ids: dict[str, Any],
    record: dict[str, Any],
    suffix: str = ".csv",
    labels: Iterable[Path] = (),
    margins: Mapping[str, FloatArray] = {},
) -> None:
    """Write a study to a temporary folder, which then takes the place of ``folder``; on failure an older study is kept.

    ``suffix`` says which type files of labels have; ``labels`` are such files that are copied as they are;
    ``margins`` are written beside the labels of their participants.
    """
    folder = folder.resolve()
    temporary: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".intarsia-", dir=folder.parent))
        result.save(temporary / MODEL)
        _write_labels(result, temporary / LABELS, ids, suffix, margins)
        for path in labels:
            shutil.copy2(path, temporary / LABELS)
        write_results(result, temporary, record)
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


def write_results(result: ClusteringResult, folder: Path, record: dict[str, Any], min_holders: int = 1) -> None:
    """Write what a study has beside its model and labels: public model, centroids, report, its data, record of the run."""
    try:
        result.save(folder / PUBLIC, public=True, min_holders=min_holders)
    except SettingError as error:
        err.print(plain(f"{PUBLIC} is not written: {error}"))
    _write_centroids(result, folder)
    _write_report(result, folder)
    write_atomically(folder / RUN, (json.dumps(record, ensure_ascii=False, indent=2) + "\n").encode())


def label_files(folder: Path) -> list[Path]:
    """Return the files of labels in the folder of a study."""
    return sorted(path for kind in LabelFile for path in (folder / LABELS).glob(f"*.{kind.value}"))


def rename_in(folder: Path, model: ClusteringResult, names: Mapping[int, str]) -> list[str]:
    """Write names of clusters into those files of a study that it has beside its model; return which were written."""
    from intarsia.estimators import PublicModel, load

    files: list[str] = []
    if (public := folder / PUBLIC).is_file() and isinstance(shared := load(public), PublicModel):
        shared.rename(names).save(public)
        files.append(PUBLIC)
    if (folder / CENTROIDS).is_file():
        _write_centroids(model, folder)
        files.append(CENTROIDS)
    title = None
    if (folder / DATA).is_file():
        title = json.loads((folder / DATA).read_text(encoding="utf-8")).get("title")
    reports = [name for name in (DATA, REPORT) if (folder / name).is_file()]
    for name in reports:
        model.report(folder / name, title=title)
    labels = label_files(folder)
    for path in labels:
        rename_labels(path, model.cluster_names)
    return [*files, *reports, *(f"{LABELS}/{path.name}" for path in labels)]


def _write_centroids(result: ClusteringResult, folder: Path) -> None:
    write_atomically(folder / CENTROIDS, without_formulas(result.to_frame("polars")).write_csv().encode())


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


def _write_labels(
    result: ClusteringResult, folder: Path, ids: dict[str, Any], suffix: str, margins: Mapping[str, FloatArray]
) -> None:
    folder.mkdir()
    for name, labels in result.labels.items():
        write_labels(
            folder / f"{name}{suffix}", columns_of(labels, result.cluster_names, margins.get(str(name))), ids[str(name)]
        )


def _write_report(result: ClusteringResult, folder: Path) -> None:
    """Write the report, or say why it cannot be made: the run is done, and its result must not be lost."""
    try:
        result.report(folder / DATA)
        result.report(folder / REPORT)
    except Exception as error:  # noqa: BLE001
        reason = str(error) if isinstance(error, IntarsiaError) else type(error).__name__
        err.print(plain(f"the report could not be made: {reason} Hint: intarsia report tries again."))


def unlabelled(folder: Path) -> list[str]:
    """Return the participants without which a run ended: they have no labels."""
    from intarsia.estimators import load_result

    study = load_result(folder / MODEL)
    return [name for name in study.run.absent if name not in study.outcome.sizes or not study.outcome.sizes[name].any()]


def report_on(output: Path, min_holders: int = 1) -> None:
    """Write the files of a study beside the model in a folder, but for labels, and print what the report says.

    The public model hides what fewer than ``min_holders`` participants have, as their copies do.
    """
    from intarsia.estimators import load_result

    study = load_result(output / MODEL)
    run = study.run
    record = record_of(study, run.method, run.settings.get("n_clusters"), dict(run.settings), {}, run.seconds)
    write_results(study, output, record, min_holders)
    out.print(str(study), highlight=False)
    if study.repeat is not None and not study.run.joined:  # a join changes nothing of it
        out.print(str(study.repeat), highlight=False, markup=False)
    print_lights(study.findings)
    for note in run.notes:
        err.print(plain(f"Note: {note}"))
    files = ", ".join(name for name in FILES if (output / name).is_file())
    out.print(f"written: {output}/ ({files})", highlight=False, markup=False, soft_wrap=True)
