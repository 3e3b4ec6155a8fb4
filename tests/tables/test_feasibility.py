"""What names and kinds alone say about clustering tables together."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intarsia
from intarsia.exceptions import FeatureNameWarning, InputError
from intarsia.tables.feasibility import check_feasibility
from intarsia.tables.look_alikes import look_alikes, why_alike

N = "numbers"


def columns(text, kind=N):
    return dict.fromkeys(text, kind)


def test_a_chain_hangs_on_its_middle():
    report = check_feasibility({"a": columns("xy"), "b": columns("yz"), "c": columns("zw")})
    assert report.connected
    assert not report.complete
    assert [(b.participant, b.parts) for b in report.bridges] == [("b", (("a",), ("c",)))]
    assert report.single == {"x": "a", "w": "c"}
    assert report.shared("a", "b") == ("y",)
    assert report.possible
    assert report.verdict().startswith("Yes, but it depends on 'b'")


def test_who_shares_nothing_is_named_with_what_looks_alike():
    report = check_feasibility({"a": columns("xy"), "b": columns("yz"), "c": {"Y_": N}})
    assert report.parts == (("a", "b"), ("c",))
    assert not report.possible
    assert report.method is None
    assert "'c' shares no column" in report.verdict()
    assert "'y' and 'Y_' look alike" in report.verdict()


def test_kinds_that_differ_and_columns_of_no_use():
    mixed = check_feasibility({"a": {"sex": N, "x": N}, "b": {"sex": "categories", "x": N}})
    assert mixed.mixed == ("sex",)
    assert not mixed.possible
    ids = check_feasibility({"a": {"id": "12 different texts in 12 rows", "x": N}, "b": {"x": N}})
    assert ids.possible
    assert ids.unusable == {"a": {"id": "12 different texts in 12 rows"}}
    nothing = check_feasibility({"a": {"id": "free text"}, "b": {"x": N}})
    assert not nothing.possible
    assert "no column of 'a' can be used" in nothing.verdict()


def test_one_table_and_equal_tables_are_fine():
    assert check_feasibility({"a": columns("xy")}).verdict().startswith("Yes: there is one table")
    assert "same columns" in check_feasibility({"a": columns("xy"), "b": columns("xy")}).verdict()
    with pytest.raises(InputError, match="no table"):
        check_feasibility({})


@pytest.mark.parametrize(
    ("left", "right", "why"),
    [
        ("Age", "age", "case"),
        ("resting bp", "resting_bp", "case"),
        ("chol", "cholesterol mg/dl", "abbreviates"),
        ("weight", "weight_kg", "unit"),
        ("systolic", "systollic", "letter"),
        ("f1", "f2", None),
        ("sex", "age", None),
        ("血圧", "体重", None),
        ("x", "xylophone", None),
    ],
)
def test_names_that_look_alike(left, right, why):
    found = look_alikes({"a": [left], "b": [right]})
    assert (why is None and not found) or (why is not None and why in found[0].why)
    assert look_alikes({"a": [left, right], "b": [right]}) == ()  # who has both means two things by them


NAMES = (
    "chol", "cholesterol", "Chol mg/dl", "age", "Age", "age (years)", "f1", "f2", "f10", "blood pressure", "blood_presure",
    "thal", "thalach", "größe", "x", "", "--", "weight kg", "weight", "kg", "mg", "ab c", "a bc", "diastolic", "diastollic",
)  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from("abcd"), st.sets(st.sampled_from(NAMES) | st.text("aeSt 1", max_size=9), max_size=9), min_size=1
    )
)
def test_names_are_left_out_by_their_letters_only_if_they_are_not_alike(has):
    has = {name: sorted(columns) for name, columns in has.items()}
    names = list(dict.fromkeys(column for columns in has.values() for column in columns))
    together = {frozenset((x, y)) for columns in has.values() for x in columns for y in columns}
    expected = [
        (left, right, found[0].why)
        for left, right in combinations(names, 2)
        if frozenset((left, right)) not in together and (found := look_alikes({"a": [left], "b": [right]}))
    ]
    assert [(pair.left, pair.right, pair.why) for pair in look_alikes(has)] == expected
    for left, right in combinations(names, 2):  # compared one by one
        if why_alike(left, right):
            assert look_alikes({"a": [left], "b": [right]})


CYRILLIC = "\N{CYRILLIC SMALL LETTER A}ge"


@pytest.mark.parametrize(
    ("other", "letter"),
    [
        (CYRILLIC, "CYRILLIC SMALL LETTER A"),
        (CYRILLIC.upper(), "CYRILLIC SMALL LETTER A"),
        ("ag\N{GREEK CAPITAL LETTER EPSILON}", "GREEK SMALL LETTER EPSILON"),
        ("age\N{ZERO WIDTH SPACE}", "ZERO WIDTH SPACE"),
    ],
)
def test_letters_of_another_alphabet_are_named_whoever_has_them(other, letter):
    for columns in ({"a": ["age", "x"], "b": [other, "x"]}, {"a": ["age", other], "b": ["x", "age"]}):
        (pair,) = look_alikes(columns)
        assert (pair.left, pair.right) == ("age", other)
        assert pair.why == f"they look the same, but differ by {letter}"


def test_words_of_another_alphabet_differ_from_each_other_as_latin_ones_do():
    assert look_alikes({"a": ["рост"], "b": ["вес"]}) == ()
    (pair,) = look_alikes({"a": ["рост"], "b": ["Рост"]})
    assert "case" in pair.why


@pytest.mark.parametrize("cluster_them", [intarsia.cluster, check_feasibility])
def test_participants_whose_names_look_the_same_are_refused(cluster_them):
    tables = {"age": {"x": [1.0, 2.0, 9.0]}, CYRILLIC: {"x": [1.0, 2.0, 9.0]}}
    with pytest.raises(
        InputError, match="names that look the same, .*differ by CYRILLIC SMALL LETTER A. Hint: rename one"
    ):
        cluster_them(tables)


def test_fit_warns_of_columns_that_look_the_same():
    rows = np.arange(40) % 2 * 9.0 + np.random.default_rng(0).normal(size=40)
    tables = {"a": {"age": rows, "x": rows}, "b": {CYRILLIC: rows, "x": rows}}
    with pytest.warns(FeatureNameWarning, match=r"'age' \(a\) and '.ge' \(b\), with CYRILLIC SMALL LETTER A"):
        intarsia.cluster(tables, 2, random_state=0)
