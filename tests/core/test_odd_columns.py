"""The light on units: planted faults are named, hospitals that really differ are not, and single cases by hand.

``INTARSIA_UNIT_STUDIES=200`` draws 200 studies of each kind, whose figures are in docs/how-to/units.md. Seeds below 1000
were used to choose the constants; those here are from 1000 on.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import pytest

from intarsia.core.conversions import CONVERSIONS
from intarsia.core.odd_columns import OddColumn, odd_columns

N_STUDIES = int(os.environ.get("INTARSIA_UNIT_STUDIES", "40"))
FIRST_SEED = 1000
KINDS = ("normal", "mixture", "lognormal", "gamma", "zeros", "binary", "codes")
FACTORS = (10.0, 100.0, 1000.0, 88.4, 18.0, 38.67, 60.0, 12.0, 365.25, 24.0, 7.5)
SMALL = (2.54, 2.2046, 1.8, 4.0)


class Study(NamedTuple):
    """Values by participant and column, and the kind of each column with its mean and deviation."""

    tables: list[dict[int, np.ndarray]]
    kinds: list[tuple[str, float, float]]


def column(rng, kind, n, level, ratio, mean, deviation, clusters):
    """Draw a column of one hospital: ``level`` is its shift in deviations, ``ratio`` the factor of its spread."""
    noise = rng.normal(size=n)
    match kind:
        case "normal":
            return mean + deviation * (level + ratio * noise)
        case "mixture":
            return mean + deviation * (0.3 * level + clusters + 0.6 * ratio * noise)
        case "lognormal":
            width = float(np.clip(deviation / max(mean, 1e-9), 0.2, 1.2))
            return mean * np.exp(width * (level + np.clip(ratio, 0.7, 1.4) * noise))
        case "gamma":
            return mean * np.exp(0.5 * level) * rng.gamma(2.0 / (1.0 + ratio), size=n)
        case "zeros":
            return np.where(rng.random(n) < rng.uniform(0.05, 0.7), mean * np.exp(0.6 * noise + 0.3 * level), 0.0)
        case "binary":
            return (rng.random(n) < rng.uniform(0.02, 0.7)).astype(float)
        case _:
            return np.clip(np.round(2 + level + 1.2 * ratio * noise), 0, 5)


def draw(rng, difference, kinds=KINDS):
    """Draw 3 to 10 hospitals with 20 to 2,000 rows: other case mix, spread and inclusion; some have only some clusters."""
    n_hospitals, n_clusters = int(rng.integers(3, 11)), 3
    rows = np.exp(rng.uniform(np.log(20), np.log(2000), n_hospitals)).astype(int)
    present = [rng.permutation(n_clusters)[: rng.integers(1, 4)] if rng.random() < 0.4 else [0, 1, 2] for _ in rows]
    labels = [rng.choice(k, size=n, p=rng.dirichlet(np.ones(len(k)))) for k, n in zip(present, rows, strict=True)]
    tables: list[dict[int, np.ndarray]] = [{} for _ in rows]
    about = []
    for c in range(int(rng.integers(3, 13))):
        kind = str(rng.choice(kinds))
        around_zero = kind in {"normal", "mixture"} and rng.random() < 0.15
        size = 10 ** rng.uniform(-1, 3)
        mean, deviation = 0.0 if around_zero else size, size * np.exp(rng.uniform(np.log(0.03), np.log(1.2)))
        centres = rng.uniform(-3, 3, n_clusters)
        holders = np.flatnonzero(rng.random(n_hospitals) < 0.8)
        for i in holders if len(holders) > 2 else rng.permutation(n_hospitals)[:3]:
            level, ratio = difference * rng.uniform(-1.5, 1.5), 2 ** (difference * rng.uniform(-1, 1))
            tables[i][c] = column(rng, kind, rows[i], level, ratio, mean, deviation, centres[labels[i]])
        about.append((kind, mean, deviation))
    return Study(tables, about)


def planted(rng):
    """Draw a study, and change the units of one column at one hospital."""
    study = draw(rng, rng.uniform(0, 1), ("normal", "mixture", "lognormal", "gamma"))
    c = int(rng.integers(len(study.kinds)))
    holders = [i for i, table in enumerate(study.tables) if c in table]
    i, kind = int(rng.choice(holders)), rng.random()
    factor, shift = float(rng.choice(FACTORS)), 0.0
    if kind > 0.6:  # a temperature, or a column of narrow spread
        mean, spread = ((37.0, 0.7), (20.0, 5.0), (170.0, 12.0))[int(rng.integers(3))]
        factor, shift = (1.8, 32.0) if mean < 100 else (float(rng.choice(SMALL)), 0.0)
        for j in holders:
            n = len(study.tables[j][c])
            study.tables[j][c] = rng.normal(mean + spread * rng.uniform(-1, 1), spread * rng.uniform(0.7, 1.4), n)
    if rng.random() < 0.5:
        factor, shift = 1.0 / factor, -shift / factor
        if shift:
            for j in holders:
                study.tables[j][c] = 1.8 * study.tables[j][c] + 32.0
    study.tables[i][c] = factor * study.tables[i][c] + shift
    return study, i, c


def found(study, names=None):
    n, d = len(study.tables), len(study.kinds)
    count, mean, m2 = (np.zeros((n, d)) for _ in range(3))
    for i, table in enumerate(study.tables):
        for c, values in table.items():
            count[i, c], mean[i, c], m2[i, c] = len(values), values.mean(), np.square(values - values.mean()).sum()
    return odd_columns([f"p{i}" for i in range(n)], names or [f"c{c}" for c in range(d)], count, mean, m2)


def test_planted_faults_are_named_by_column_and_participant():
    right = 0
    for seed in range(FIRST_SEED, FIRST_SEED + N_STUDIES):
        study, i, c = planted(np.random.default_rng(seed))
        odd = found(study)
        right += bool(odd) and (odd[0].participant, odd[0].column) == (f"p{i}", f"c{c}")
    assert right >= 0.95 * N_STUDIES


@pytest.mark.parametrize("least", [0.0, 1.0])
def test_hospitals_that_really_differ_are_not_named(least):
    """Differences of all degrees, and the largest: means by up to 1.5 deviations, spreads by factors of up to 2."""
    alarms = 0
    for seed in range(N_STUDIES):
        rng = np.random.default_rng([FIRST_SEED, seed])
        alarms += bool(found(draw(rng, rng.uniform(least, 1.0))))
    assert alarms <= max(1.0, 0.02 * N_STUDIES)


def case(*columns, seed=0, n=200):
    """Each column is a function of normal values, one per participant."""
    rng = np.random.default_rng(seed)
    tables = [{c: column[i](rng.normal(size=n)) for c, column in enumerate(columns)} for i in range(len(columns[0]))]
    return Study(tables, [("", 0.0, 0.0)] * len(columns))


def height(z):
    return 170 + 10 * z


def creatinine(z):
    return 84 * np.exp(0.25 * z)


def exponential(z):
    return 5 * np.exp(0.9 * z)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_creatinine_in_other_units_has_the_factor_and_not_another_column(n):
    other = [creatinine] * n
    other[1] = lambda z: creatinine(z) / 88.4
    odd = found(case([height] * n, other, [lambda z: 130 + 20 * z] * n), ["height", "creatinine", "sbp"])
    assert [each.column for each in odd] == ["creatinine"]
    assert {odd[0].participant, odd[0].other} == ({"p0", "p1"} if n == 2 else {"p1", ""})
    assert odd[0].units == "creatinine in mg/dl and µmol/l"
    assert "by 88.42" in odd[0].remedy


@pytest.mark.parametrize("factor", [10.0, 0.1, 1000.0, 0.001])
@pytest.mark.parametrize("column", [exponential, lambda z: 3 * z])
def test_a_factor_of_a_wide_column_at_one_of_three_is_named(factor, column):
    odd = found(case([height] * 3, [column, column, lambda z: factor * column(z)], [creatinine] * 3))
    assert [(each.column, each.participant) for each in odd] == [("c1", "p2")]


def test_several_columns_in_other_units_are_all_named():
    columns = [[height] * 4, [lambda z: 5 + z] * 4, [lambda z: 40 + 9 * z] * 4, [creatinine] * 4]
    for c in (0, 3):
        columns[c] = [columns[c][0]] * 3 + [lambda z, own=columns[c][0]: own(z) / 100]
    assert {(odd.column, odd.participant) for odd in found(case(*columns))} == {("c0", "p3"), ("c3", "p3")}


def test_codes_of_two_values_in_other_codes_are_named_and_rare_ones_are_not():
    yes = [lambda z, p=p: (z > p).astype(float) for p in (-0.5, 0.0, 1.0, 2.0)]
    assert found(case(yes)) == []
    (odd,) = found(case([*yes[:3], lambda z: 1.0 + yes[3](z)]))
    assert (odd.participant, odd.units, odd.remedy) == ("p3", "codes 0 and 1, and 1 and 2", "subtract 1")
    (odd,) = found(case([*yes[:3], lambda z: 100.0 * yes[3](z)]))
    assert (odd.participant, odd.remedy) == ("p3", "divide by 100")


def test_temperatures_say_how_to_convert_back():
    warm = [lambda z: 37 + 0.7 * z] * 3
    (odd,) = found(case([*warm, lambda z: 98.6 + 1.3 * z]))
    assert (odd.units, odd.remedy) == ("°C and °F", "subtract 32, then divide by 1.8")
    (odd,) = found(case([lambda z: 98.6 + 1.3 * z] * 3 + warm[:1]))
    assert (odd.units, odd.remedy) == ("°C and °F", "multiply by 1.8, then add 32")
    (odd,) = found(case([*warm, lambda z: 310 + 0.7 * z]))
    assert (odd.units, odd.remedy) == ("°C and K", "subtract 273.1")


def test_nothing_to_compare_is_no_fault():
    assert odd_columns(["a"], ["x"], np.array([[9.0]]), np.array([[1.0]]), np.array([[4.0]])) == []
    nothing = np.zeros((3, 2))
    assert odd_columns(["a", "b", "c"], ["x", "y"], nothing, nothing, nothing) == []
    assert odd_columns(["a", "b"], [], *np.zeros((3, 2, 0))) == []
    constant = np.array([[50.0], [50.0], [50.0]])
    assert odd_columns(["a", "b", "c"], ["x"], constant, np.array([[1.0], [2.0], [9000.0]]), 0.0 * constant) == []


def test_a_conversion_and_its_inverse_undo_each_other():
    for conversion in CONVERSIONS:
        back = conversion.inverse
        assert back.factor * (conversion.factor * 20.0 + conversion.shift) + back.shift == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("factor", "shift", "units", "text"),
    [
        (10.0, 0.0, "", "'x' at 'b': values there are about 10 times as large; divide by 10 there"),
        (0.5, 0.0, "u", "'x' at 'b': values there are about 2 times as small (u); multiply by 2 there"),
        (1.0, 7.0, "", "'x' at 'b': values there have another zero point"),
        (-1.0, 0.0, "", "'x' at 'b': values there have the opposite sign; change the sign there"),
    ],
)
def test_a_fault_is_told_by_names_and_factor_without_values(factor, shift, units, text):
    assert str(OddColumn("x", "b", factor, shift, units, 9.0, 123.0, 456.0)) == text
