"""Neighbouring tables, which differ by one row with cells of any kind, and what a private participant tells of them.

The second participant gets the answers of the first one to the same questions, whatever its rows are. If its replies are not
the same bytes, rows have reached them in another way than through noisy sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.core.private.questions import Question
from intarsia.core.private.sketch import Noisy
from intarsia.exceptions import IntarsiaError
from intarsia.participant.private import PrivateParticipant
from intarsia.privacy.budget import Account
from intarsia.protocol import AskSketch, AskSums, Centres, Columns, Gaussians, KeepLabels, Request, encode
from intarsia.tables.open import open_table

Column = list[Any]
TEXTS = ("f", "m", "d", "x", "f ", "", "NA", "true", "False", "007", "7", "7.0", "1e400", "nan", "ümlaut", "2020-01-01")
LEVELS = ("f", "m", "7", "True", "1.5")


class NoNoise:
    """Noise for tests: none."""

    def draw(self, n: int, sensitivity: float, rho: float) -> np.ndarray:
        return np.zeros(n, dtype=np.int64)


class Asked(NamedTuple):
    """A question, the sums over rows, and the answer."""

    question: Question
    sums: np.ndarray
    answer: Noisy


class Recording(PrivateParticipant):
    """A participant that keeps what it was asked; overrides a private method, the only way from rows to replies."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.asked: list[Asked] = []

    def _ask(self, question: Question, rho: float, digest: str) -> Noisy:
        answer = super()._ask(question, rho, digest)
        self.asked.append(Asked(question, question.sums(self._rows()), answer))
        return answer


class Replaying(PrivateParticipant):
    """A participant that gives the answers of another one, and measures how far its own sums are from the other's."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.expected: list[Asked] = []
        self.ratios: list[Fraction] = []  # of squared differences and squared norms

    def _ask(self, question: Question, rho: float, digest: str) -> Noisy:
        other = self.expected[len(self.ratios)]
        super()._ask(question, rho, digest)  # whether it fails must be the same, too
        assert (type(question), question.words, question.size, question.norm) == (
            type(other.question), other.question.words, other.question.size, other.question.norm,
        )  # fmt: skip
        apart = question.sums(self._rows()).astype(object) - other.sums.astype(object)
        self.ratios.append(Fraction(int((apart**2).sum())) / Fraction(question.norm) ** 2)
        return other.answer


class Pair(NamedTuple):
    """Two tables that differ by one row, and what is declared of their columns."""

    privacy: DifferentialPrivacy
    less: dict[str, Column]
    more: dict[str, Column]


def odd_number(rng: np.random.Generator) -> Any:
    """A cell of a column of numbers, of any type and size."""
    kinds = (
        float(rng.normal()), int(rng.integers(-9, 9)), 1e308, -1e308, 5e-324, np.inf, -np.inf, np.nan, None, True,
        10**400, 2**63, "3.5", " 4 ", np.float32(0.1), str(rng.choice(TEXTS)),
    )  # fmt: skip
    return kinds[int(rng.integers(len(kinds)))]


def odd_level(rng: np.random.Generator) -> Any:
    """A cell of a column of categories, of any type."""
    kinds = (None, 7, 7.0, np.nan, 10**16 + 1, 1.5, True, "x" * 3000, *TEXTS)
    return kinds[int(rng.integers(len(kinds)))]


def pair(rng: np.random.Generator) -> Pair:
    """Wide and narrow tables; most cells usual ones, those of the additional row odd ones."""
    d = int(rng.choice([1, 2, 3, 6, 25]))
    numbers = [f"c{j:02d}" for j in range(d)]
    categories = [f"k{j}" for j in range(int(rng.integers(3)))]
    low, width = 10.0 ** rng.uniform(-3, 3) * rng.normal(), 10.0 ** rng.uniform(-3, 3)
    odd, n_rows = rng.choice([0.0, 0.02, 0.5]), int(rng.choice([0, 1, 2, 5, 30, 100]))
    columns: dict[str, Column] = {}
    for name in numbers:
        usual = low + width * rng.normal(0.5, 0.3, size=n_rows)
        columns[name] = [odd_number(rng) if rng.random() < odd else float(cell) for cell in usual]
    for name in categories:
        usual_levels = rng.choice(LEVELS, size=n_rows)
        columns[name] = [odd_level(rng) if rng.random() < odd else str(cell) for cell in usual_levels]
    extreme = rng.random() < 0.3
    added = {name: low + width * (1e3 if extreme else rng.random()) for name in numbers}
    added |= {name: odd_number(rng) for name in numbers if rng.random() < 0.3}
    added |= {name: odd_level(rng) for name in categories}
    at = int(rng.integers(n_rows + 1))
    more = {name: [*cells[:at], added[name], *cells[at:]] for name, cells in columns.items()}
    bounds = dict.fromkeys(numbers, (low, low + width))
    privacy = DifferentialPrivacy(4, bounds=bounds, levels=dict.fromkeys(categories, LEVELS))
    return Pair(privacy, columns, more)


def series(cells: Column) -> pd.Series:
    """The column as pandas makes it: types are inferred."""
    try:
        return pd.Series(cells)
    except OverflowError:  # pandas 2.1 wants to know whether 10**400 is a float
        return pd.Series(cells, dtype=object)


def as_given(columns: dict[str, Column], how: str, folder: Path) -> Any:
    """The table as a mapping, of a library, or in a file."""
    if how == "mapping":
        return columns
    frame = pd.DataFrame({name: series(cells) for name, cells in columns.items()})
    if how == "pandas":
        return frame
    if how == "csv":
        path = folder / "table.csv"
        frame.to_csv(path, index=False)
        return path
    path = folder / "table.parquet"  # a file with types: numbers in every second column, texts in all others
    texts = frame.astype(object).map(lambda cell: None if cell is None else str(cell)).astype("string")
    for name in [name for name in frame if name.startswith("c") and int(name[1:]) % 2]:
        texts[name] = pd.to_numeric(texts[name], errors="coerce").astype("float64")
    texts.to_parquet(path)
    return path


HOW = ("mapping", "pandas", "csv", "parquet", "streamed")


def held(given: Any, how: str, privacy: DifferentialPrivacy) -> Any:
    """What the participant holds, or the text of the error."""
    try:
        limit = 0 if how == "streamed" else None
        return open_table(given, "a", memory_limit=limit, declared=privacy).hold(declared=privacy)
    except IntarsiaError as error:
        return str(error)


def requests(rng: np.random.Generator, d: int, levels: dict[str, tuple[str, ...]], n_rows: int) -> Sequence[Request]:
    """A sketch, rounds and labels, as an honest coordinator asks for them, and as a hostile one does."""
    k = int(rng.integers(1, 5))
    centres, known = rng.normal(size=(k, d)), rng.random((k, d)) < 0.8
    scales, far = 10.0 ** rng.uniform(-9, 9, size=d), 10.0 ** rng.uniform(-6, 6)
    hostile = rng.normal(size=(k, d)) * 1e5
    shape = [(d,), (n_rows, d), (n_rows + 1, d), (1,), (n_rows, 1), (d + 1,)][int(rng.integers(6))]
    odd = {name: tuple(map(str, rng.choice([*LEVELS, "x", "new"], size=2))) for name in levels}
    sent = Centres(values=centres, known=known, low=np.full(d, -1.0), high=np.ones(d))
    gaussians = Gaussians(
        means=centres, variances=np.ones((k, d)), seen=known, weights=np.full(k, 1 / k),
        overall=np.zeros(d), width=np.ones(d),
    )  # fmt: skip
    honest = Columns(shift=np.zeros(d), scale=np.full(d, 2.0), levels=levels)
    broad = Columns(shift=np.zeros(shape), scale=np.full(shape, 2.0), levels=levels)
    return (
        AskSketch(n_clusters=None if k == 4 else k),
        AskSums(round=0, centres=centres, known=known, scales=np.ones(d), radius=2.0),
        AskSums(round=1, centres=hostile, known=known, scales=scales, radius=far),
        KeepLabels(centres=sent, columns=honest),
        KeepLabels(centres=sent, columns=honest, gaussians=gaussians),
        KeepLabels(centres=sent, columns=broad),
        KeepLabels(centres=sent, columns=Columns(shift=np.zeros(d), scale=np.ones(d), levels=odd)),
        KeepLabels(centres=sent),
    )


def compare(rng: np.random.Generator, folder: Path, how: str) -> list[Fraction]:
    """Check one pair; return the squared differences of sums, each as a share of its squared norm."""
    both = pair(rng)
    first, second = (both.less, both.more) if rng.random() < 0.5 else (both.more, both.less)
    tables = []
    for name, columns in (("first", first), ("second", second)):
        (folder / name).mkdir(exist_ok=True)
        tables.append(held(as_given(columns, how, folder / name), how, both.privacy))
    if any(isinstance(table, str) for table in tables):
        assert tables[0] == tables[1], tables
        return []
    accounts = [Account.of(both.privacy, 3) for _ in tables]
    for account in accounts:
        account.noise = NoNoise()
    recording = Recording(tables[0], both.privacy, accounts[0])
    replaying = Replaying(tables[1], both.privacy, accounts[1])
    replaying.expected = recording.asked
    levels = {name: both.privacy.levels[name] for name in both.less if name in both.privacy.levels}
    n_features = len(both.privacy.units_of(tuple(both.less)).features)
    for request in requests(rng, n_features, levels, len(next(iter(both.less.values())))):
        replies = [encode(one.handle(request)) for one in (recording, replaying)]
        assert replies[0] == replies[1], (request, recording.last_error, replaying.last_error)
        assert len(recording.asked) == len(replaying.ratios)
    return replaying.ratios
