"""Tables of the studies with random columns: every way on each data set, and what was to hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.baselines import CENTRALISED, MASKED_LLOYD, MEAN
from experiments.figures import Results, Rows, bold, column, mean_sd, paired, table, verdict, worst
from experiments.measuring import FEDERATED
from experiments.questions import CLOSE, gap, within
from experiments.random_layouts import LAYOUT, RANDOM, RANDOM_WAYS

ENOUGH = 0.9  # of the splits within the share above
HEAD = ("way", "splits", "adjusted Rand", "worst", "objective above masked Lloyd %", "worst", "kB", "time")


def random_tables(rows: Results) -> str:
    return "\n\n".join(random_section(name, rows[name]) for name in RANDOM)


def random_section(name: str, rows: Rows) -> str:
    """One data set: where it comes from, its units, and every way on it."""
    data = RANDOM[name]
    lines = [line for way in RANDOM_WAYS if (line := _line(rows, way))]
    absent = [way for way in RANDOM_WAYS if not len(column(rows, "seconds", way=way))]
    few = [
        f"{way} gave fewer clusters than asked for on {n} splits"
        for way in RANDOM_WAYS
        if (n := int((column(rows, "n_clusters", way=way) < data.n_clusters).sum()))
    ]
    notes = [f"Not tried: it takes too long, or is not installed: {', '.join(absent)}."] if absent else []
    notes += [f"{'; '.join(few)}."] if few else []
    about = f"From {data.source}. K = {data.n_clusters}, {data.units}."
    return "\n\n".join([f"### {name}", about, table(HEAD, lines), *notes])


def _line(rows: Rows, way: str) -> tuple[object, ...] | None:
    rand = column(rows, "adjusted_rand", layout=LAYOUT, way=way)
    if not len(rand):
        return None
    theirs, best = paired(rows, "objective", LAYOUT, way, MASKED_LLOYD)
    above = 100 * (theirs / best - 1)
    mine, seconds = paired(rows, "seconds", LAYOUT, FEDERATED, way)
    kb = column(rows, "bytes_out", layout=LAYOUT, way=way).mean() / 1e3
    return (
        bold(way), len(rand), mean_sd(rand, 3), worst(rand, 3),
        f"{above.mean():+.2f}" if len(above) else "", worst(above, 2, largest=True),
        "" if way == CENTRALISED else f"{kb:.1f}", f"{np.median(seconds / mine):.2g}" if len(mine) else "",
    )  # fmt: skip


def random_bars(rows: Results) -> str:
    """What was to hold with random columns, on each data set."""
    return table(("data", "what", "measured", "holds"), [line for name in RANDOM for line in _promises(rows, name)])


def _promises(rows: Results, name: str) -> Iterator[tuple[str, str, str, str]]:
    data = name.removeprefix("Random columns: ")
    near, of = within(rows, name)
    what = f"objective of federated within {CLOSE:.1%} of masked Lloyd's on {ENOUGH:.0%} of the splits"
    yield data, what, f"{near} of {of}", verdict(near >= ENOUGH * of, of)
    for way, words in ((MASKED_LLOYD, "not below masked Lloyd"), (MEAN, "above mean imputation")):
        found = gap(rows, name, LAYOUT, FEDERATED, way)
        what = f"adjusted Rand index of federated {words} on average"
        if found is None:
            yield data, what, "", verdict(holds=False, measured=0)
            continue
        holds = found.ahead < 0 or (way == MASKED_LLOYD and round(found.ahead, 3) <= 0)
        measured = (
            f"{found.ours:.3f} to {found.theirs:.3f} (difference {found.ours - found.theirs:+.4f} ± {found.error:.4f})"
        )
        yield data, what, measured, verdict(holds, found.splits)
