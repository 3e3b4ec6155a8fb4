"""``intarsia share``: write the public model of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.console import err, plain
from intarsia.cli.study_folder import PUBLIC, model_in
from intarsia.exceptions import InputError, quote


def share(
    study: Annotated[Path, typer.Argument(help="study/model.intarsia, or the study's folder.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File of the public model.")] = Path(PUBLIC),
    fewest: Annotated[int, typer.Option(help="Hide means and sizes with fewer rows behind them.")] = 5,
    min_holders: Annotated[int, typer.Option(help="Hide what fewer participants have.")] = 2,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a public model to give to others: no local centroids, no names of participants, no records of the run.

    What one participant alone has is hidden; --min-holders 1 shows it, as public.intarsia in the study's folder does.

    Example: [bold]intarsia share study/ -o heart.intarsia[/]
    """
    import numpy as np

    from intarsia.estimators import load_result

    if output.exists() and not force:
        raise InputError(f"{output} already exists. Hint: --output for another file, or --force to replace it.")
    public = load_result(model_in(study)).public(fewest=fewest, min_holders=min_holders)
    public.save(output)
    err.print(plain(f"written: {output} ({public})"), soft_wrap=True)
    gone = [name for name, means in zip(public.feature_names, public.centroids.T, strict=True) if np.isnan(means).all()]
    if gone:
        err.print(plain(f"hidden (fewer than {min_holders} participants have them): {quote(gone, 20)}"), soft_wrap=True)
