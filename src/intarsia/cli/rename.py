"""``intarsia rename``: give clusters names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.console import err, plain
from intarsia.cli.study_folder import model_in, rename_in
from intarsia.exceptions import SettingError


def rename(
    study: Annotated[Path, typer.Argument(help="study/model.intarsia, or the study's folder.")],
    names: Annotated[list[str], typer.Argument(help="NUMBER=NAME, e.g. 0=mild; NUMBER= removes a name.")],
) -> None:
    """Give clusters names. The model is changed in place and, in a study's folder, its labels, centroids and report.

    Example: [bold]intarsia rename study/ 0=mild 1=severe[/]
    """
    from intarsia.estimators import ClusteringResult, load

    given = {}
    for each in names:
        number, equals, name = each.partition("=")
        if not equals or not number.strip().isdecimal():
            raise SettingError(f"{each!r} is no name for a cluster. Hint: NUMBER=NAME, as in 0=mild.")
        if int(number) in given:
            raise SettingError(f"cluster {int(number)} is given two names. Hint: leave one out.")
        given[int(number)] = name
    path = model_in(study)
    loaded = load(path)
    result = loaded.rename(given)
    files: list[str] = []
    if isinstance(result, ClusteringResult):
        result.save(path, labels=bool(result.labels))
        if study.is_dir():
            files = rename_in(study, result, given)
    else:
        result.save(path)
    for k, name in result.cluster_names.items():
        err.print(plain(f"cluster {k}: {name}"))
    err.print(plain(f"written: {', '.join([path.name, *files])}"))
