"""The first screen of the page: five questions of a user, each with a sentence of figures, and where we are behind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.baselines import BASELINES, CENTRALISED, MASKED_LLOYD
from experiments.choosing_k import CASES, K_WAYS, true_number
from experiments.figures import BOLD, Results, paired, pick, table
from experiments.measuring import FEDERATED, ONE_SHOT
from experiments.random_layouts import LAYOUT, RANDOM
from experiments.seeds_of_k import seeds_sentence
from experiments.splits import LAYOUTS
from experiments.studies import SEPARATIONS, STUDIES

PAPERS = ("DIM-set 128", "HAR", "QMNIST 0/3/7")
GRID = tuple(f"Gaussian {separation:g}" for separation in SEPARATIONS)
REAL = (*((name, LAYOUT) for name in RANDOM), *((name, layout) for name in PAPERS for layout in LAYOUTS))
CELLS = (*REAL, *((name, layout) for name in GRID for layout in LAYOUTS))
CLOSE = 0.005  # of the objective
NOTHING = "Not measured yet."
AT_LEAST = 5  # splits, before a difference is called more than chance


class Gap(NamedTuple):
    """Two ways on the splits of one data set and layout that both were tried on: adjusted Rand index, means."""

    name: str
    layout: str
    way: str
    ours: float
    theirs: float
    error: float  # standard error of the difference
    splits: int

    @property
    def ahead(self) -> float:
        """How far they are ahead."""
        return self.theirs - self.ours

    @property
    def beyond_chance(self) -> bool:
        return self.splits >= AT_LEAST and self.ahead > 2 * self.error

    @property
    def words(self) -> str:
        return f"{title(self.name, self.layout)}, {self.theirs:.3f} to {self.ours:.3f}"


def title(name: str, layout: str) -> str:
    """A data set and layout in words."""
    return f"{short(name)} ({layout})"


def short(name: str) -> str:
    return name.removeprefix("Random columns: ")


def gap(rows: Results, name: str, layout: str, mine: str, way: str) -> Gap | None:
    ours, theirs = paired(rows[name], "adjusted_rand", layout, mine, way)
    if not len(ours):
        return None
    error = float(np.std(theirs - ours) / np.sqrt(len(ours)))
    return Gap(name, layout, way, float(ours.mean()), float(theirs.mean()), error, len(ours))


def gaps(rows: Results, mine: str, ways: tuple[str, ...] | None = None) -> list[Gap]:
    """One of ours against every baseline that sees no more than the rows, on everything that is measured."""
    ways = ways or tuple(way for way in BASELINES if way != CENTRALISED)
    found = (gap(rows, name, layout, mine, way) for way in ways for name, layout in CELLS)
    return [each for each in found if each is not None]


def on_random(rows: Results, way: str) -> list[Gap]:
    """Federated against one way, with random columns."""
    return [each for name in RANDOM if (each := gap(rows, name, LAYOUT, FEDERATED, way)) is not None]


def within(rows: Results, name: str) -> tuple[int, int]:
    """On how many splits our objective is at most 0.5 % above pooled masked Lloyd's, and on how many it was compared."""
    ours, theirs = paired(rows[name], "objective", LAYOUT, FEDERATED, MASKED_LLOYD)
    return int((ours <= (1 + CLOSE) * theirs).sum()), len(ours)


def pooling(rows: Results) -> str:
    found = on_random(rows, MASKED_LLOYD)
    if not found:
        return NOTHING
    each = "; ".join(f"{short(g.name)} {g.ours:.3f} and {g.theirs:.3f}" for g in found)
    near, of = (sum(part) for part in zip(*(within(rows, name) for name in RANDOM), strict=True))
    return (
        "Adjusted Rand index of federated, and of k-means with 20 restarts on the pooled rows with the same columns: "
        f"{each}. "
        f"The objective is within {CLOSE:.1%} of theirs on {near} of {of} splits."
    )


def lacking(rows: Results) -> str:
    found = on_random(rows, CENTRALISED)
    if not found:
        return NOTHING
    each = "; ".join(f"{short(g.name)} {g.ours - g.theirs:+.3f}" for g in found)
    return (
        "Adjusted Rand index of federated with a random 70 % of the columns minus that of k-means with all columns "
        f"on the pooled rows: {each}."
    )


def which_method(rows: Results) -> str:
    found = gaps(rows, FEDERATED, (ONE_SHOT,))
    if not found:
        return NOTHING
    first, last = min(found, key=lambda g: g.ahead), max(found, key=lambda g: g.ahead)
    ahead = [g for g in found if g.ahead < -CLOSE]
    behind = [g for g in found if g.ahead > CLOSE]
    ratios = [np.median(np.divide(*paired(rows[g.name], "bytes_out", g.layout, FEDERATED, ONE_SHOT))) for g in found]
    return (
        f"Of {len(found)} cases, federated is better by more than {CLOSE:g} in {len(ahead)} (most in {title(*first[:2])}: "
        f"{first.ours:.3f} to {first.theirs:.3f}), one-shot in {len(behind)}"
        + (f" (most in {last.words})" if behind else "")
        + f". One-shot takes one exchange and sends {np.median(ratios):.1f} times fewer bytes (median)."
    )


def where_behind(rows: Results) -> str:
    parts = []
    for mine in BOLD:
        found = gaps(rows, mine)
        ahead = [g for g in found if g.ahead > 0]
        if found:
            most = max(found, key=lambda g: g.ahead)
            surely = sum(g.beyond_chance for g in ahead)
            parts.append(
                f"Another way is ahead of {mine} in {len(ahead)} of {len(found)} comparisons, in {surely} beyond chance"
                + (f"; farthest: {most.way} in {most.words}." if ahead else ".")
            )
    return " ".join(parts) or NOTHING


def number_parts() -> dict[str, list[str]]:
    """What K is chosen on: a title, and its studies."""
    dims = [name for name in CASES if "DIM" in name]
    others = [name for name in CASES if name not in dims]
    return {name.removeprefix("K of ").replace(",", " at"): [name] for name in others} | {"DIM-sets 32 to 1024": dims}


def off_by(rows: Results, names: list[str], way: str, layout: str | None = None) -> np.ndarray:
    """How far the chosen K is from the true one, case by case."""
    where = {"way": way} | ({"layout": layout} if layout else {})
    return np.array(
        [
            int(row["n_clusters"]) - true_number(name, int(row["split"]))
            for name in names
            for row in pick(rows[name], **where)
        ]
    )


def how_sure(rows: Results) -> str:
    ways = K_WAYS[:2]
    shown = []
    for words, names in number_parts().items():
        found = [off_by(rows, names, way) for way in ways]
        if all(map(len, found)):
            shown.append(f"{words} {' and '.join(f'{np.mean(off == 0):.0%}' for off in found)}")
    said = f"The chosen K is the true one ({' and '.join(ways)}): {'; '.join(shown)}." if shown else ""
    return (said + seeds_sentence(rows)).strip() or NOTHING


QUESTIONS = {
    "Is it as good as pooling?": ("pooling", pooling),
    "What does it cost to lack columns?": ("lacking", lacking),
    "Which method when?": ("methods", which_method),
    "Where is it behind?": ("behind", where_behind),
    "How sure is K?": ("number", how_sure),
}


def first_screen(rows: Results) -> str:
    """All questions with their sentences and pictures."""
    lines = [
        (f"**{question}** {sentence(rows)}", f"![{question}](images/question-{picture}.svg)")
        for question, (picture, sentence) in QUESTIONS.items()
    ]
    return table(("question and answer", "picture"), lines)


def behind(rows: Results) -> str:
    """Who is ahead of ours and where, one line for each way."""
    lines = []
    for way in BASELINES:
        cells = []
        for mine in BOLD:
            found = gaps(rows, mine, (way,)) if way != CENTRALISED else []
            ahead = [g for g in found if g.ahead > 0]
            cells.append(_where(ahead, len(found)) if ahead else "")
        if any(cells):
            lines.append((way, *cells))
    return table(("who is ahead", *(f"of {mine}" for mine in BOLD)), lines) if lines else "Nowhere."


def _where(ahead: list[Gap], of: int) -> str:
    most = max(ahead, key=lambda g: g.ahead)
    return f"{len(ahead)} of {of} cases, {sum(g.beyond_chance for g in ahead)} beyond chance; most: {most.words}"


FAMILIES = {  # what the name of a study begins with, and what it is called
    "Random": "random columns", "QMNIST": "QMNIST 0/3/7", "Missing values in QMNIST": "QMNIST 0/3/7", "HAR": "HAR",
    "Missing values in HAR": "HAR", "DIM": "DIM-sets", "Gaussian": "Gaussian clusters",
    "K of": "choice of K", "Seeds of K": "choice of K by seed",
    "Rates": "rates of assumptions", "Linkages": "linkages", "Exponents": "exponents",
}  # fmt: skip


def seeds(_: Results) -> str:
    """Which splits are reported, and which were used to choose anything."""
    lines = []
    for first in sorted({study.first for study in STUDIES.values()}):
        names = [name for name, study in STUDIES.items() if study.first == first]
        last = first + max(STUDIES[name].splits for name in names) - 1
        called = dict.fromkeys(
            word for start, word in FAMILIES.items() if any(name.startswith(start) for name in names)
        )
        chosen = f"below {first}" if first else "not kept apart from those reported"
        lines.append((", ".join(called), f"{first} to {last}", chosen))
    return table(("splits of", "reported", "used to choose settings"), lines)
