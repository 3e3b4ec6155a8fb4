"""Numbers with a unit, a flag or a bound are numbers, which must not become categories; codes and bands are categories."""

from __future__ import annotations

from collections import Counter

import pytest

from intarsia.tables.categories import why_not_levels
from intarsia.tables.number_texts import are_numbers

N = 120
DEGREES = [f"{36 + (i % 20) / 10:.1f}".replace(".", ",") for i in range(N)]
FINE = [f"{36 + i / 100:.2f}".replace(".", ",") for i in range(N)]
NUMBERS = {
    "unit": [f"{x} °C" for x in DEGREES],
    "percent": [f"{88 + i % 12} %" for i in range(N)],
    "few percents": [f"{88 + i % 5}%" for i in range(N)],
    "currency before": [f"€ {x}" for x in DEGREES],
    "currency behind": [f"{x} €" for x in DEGREES],
    "minus at the end": [f"{x}-" for x in DEGREES],
    "typographic minus in half": [x if i % 2 else f"\u2212{x}" for i, x in enumerate(DEGREES)],
    "plain space": [f"{1 + i % 9} {i % 3}00" for i in range(N)],
    "half without a value": [x if i % 2 else "k. A." for i, x in enumerate(DEGREES)],
    "half without a value, whole": [str(i) if i % 2 else "k. A." for i in range(20)],
    "below the limit in 60 %": [f"<0,{1 + i % 5}" if i % 5 < 3 else x for i, x in enumerate(FINE)],
    "below many limits": [f"<0,{i}" if i % 3 else x for i, x in enumerate(FINE)],
    "star": [f"{x}*" if i % 2 else x for i, x in enumerate(FINE)],
    "flag": [f"{x} H" if i % 2 else x for i, x in enumerate(FINE)],
    "flags": [f"{x} {'HL'[i % 2]}" for i, x in enumerate(FINE)],
    "laboratory unit": [f"{x} mg/l" for x in FINE],
    "above the limit in half": [x if i % 2 else ">100" for i, x in enumerate(FINE)],
    "a third of numbers": [x if i % 3 == 0 else "nicht gemessen" for i, x in enumerate(FINE)],
    "milligrams": [f"{10 + i % 30} mg" for i in range(N)],
    "thousands": [f"{1 + i % 4}.200,5 kg" for i in range(N)],
}  # fmt: skip
CATEGORIES = {
    "grades": ["T1", "T2", "T3"],
    "grades with a dot": ["G2", "G3", "G1"],
    "bands of age": ["18-29", "30-39", "40-49", "80+"],
    "bands with bounds": ["<18", "18-65", ">65"],
    "bands with decimals": ["<0,5", "0,5-1,0", "1,0-1,5", ">1,5"],
    "ICD": ["C50.9", "I10.0", "E11.9", "J45.0"],
    "visits": ["3 Monate", "6 Monate", "12 Monate"],
    "hours": ["24h", "48h", "72h"],
    "HER2": ["0", "1+", "2+", "3+"],
    "wards": [f"{k}{letter}" for k in range(1, 9) for letter in "AB"],
    "lines": ["1st line", "2nd line", "3rd line"],
    "blood": ["0+", "0-", "A+", "A-"],
    "dates of three days": ["12.03.2020", "13.03.2020", "14.03.2020"],
    "times": ["08:00", "12:00", "16:00"],
    "procedures": ["5-470.11", "5-511.01", "8-980.1"],
    "pressure": ["120/80", "130/85", "140/90"],
    "field": ["1.5 T", "3.0 T"],
    "strata": ["1 low", "2 middle", "3 high"],
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_with_something_beside_them_are_refused_as_numbers(name):
    reason = why_not_levels(Counter(NUMBERS[name]), texts=True)
    assert reason is not None
    assert reason.startswith("numbers stored as text")


@pytest.mark.parametrize("name", CATEGORIES)
def test_codes_and_bands_stay_categories(name):
    words = CATEGORIES[name] * 10
    assert why_not_levels(Counter(words), texts=True) is None


@pytest.mark.parametrize("name", NUMBERS)
def test_a_column_that_is_declared_may_hold_them_as_levels(name):
    reason = why_not_levels(Counter(NUMBERS[name]), texts=False)
    assert reason is None or "different levels" in reason


def test_few_decimals_in_a_column_of_words_are_words():
    assert not are_numbers({"yes": 500, "no": 480} | {f"{k},5": 1 for k in range(15)})
    assert not are_numbers({})
