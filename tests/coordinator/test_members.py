from __future__ import annotations

import numpy as np
import pytest

from intarsia.coordinator.columns import TableColumns, check_connected, check_kinds
from intarsia.coordinator.members import agree
from intarsia.coordinator.roll import Roll
from intarsia.exceptions import DisjointFeaturesError, DuplicateColumnError, MixedKindsError, NonNumericError
from intarsia.protocol import MOST_JOINT_LEVELS, Description


def columns(numbers="", **levels):
    return TableColumns(tuple(numbers), {name: tuple(values) for name, values in levels.items()})


def test_features_are_sorted_and_levels_are_those_of_all_participants():
    members = agree({"b": columns("yx"), "a": columns("x", sex="m"), "c": columns("y", sex="f")}, None)
    assert members.participants == ("a", "b", "c")
    assert members.space.names == ("sex=f", "sex=m", "x", "y")
    assert members.features["a"] == ("sex=f", "sex=m", "x")
    assert members.masks.tolist() == [[True, True, True, False], [False, False, True, True], [True, True, False, True]]
    assert members.complete
    assert members.columns_for("a").levels == {"sex": ("f", "m")}


def test_members_that_are_left_keep_their_units_and_lose_the_features_of_others():
    members = agree({"a": columns("xy"), "b": columns("yz")}, None)
    assert members.only({"a", "b"}) is members
    assert members.only({"b"}).space.names == ("y", "z")
    assert members.columns_for("a") is None  # without categories and units nothing has to change


def test_a_latecomer_comes_last_with_its_new_features():
    members = agree({"b": columns("xy"), "c": columns("yz")}, None).with_latecomer("a", columns("ya", sex="f"))
    assert members.participants == ("b", "c", "a")
    assert members.space.names == ("x", "y", "z", "a", "sex=f")
    assert members.index("a").tolist() == [3, 4, 1]
    with pytest.raises(DisjointFeaturesError, match="'d' shares no feature"):
        members.with_latecomer("d", columns("q"))
    with pytest.raises(MixedKindsError, match="numbers at the others"):
        members.with_latecomer("d", columns("z", x="uv"))


@pytest.mark.parametrize(
    ("tables", "error", "words"),
    [
        ({"a": columns("x"), "b": columns(x="uv")}, MixedKindsError, r"x \(numbers at a, categories elsewhere\)"),
        ({"a": columns(x=["y=z"]), "b": columns(**{"x=y": "z"})}, DuplicateColumnError, "name of a level"),
        ({"a": columns(x=map(str, range(MOST_JOINT_LEVELS + 1)))}, NonNumericError, "levels over all participants"),
    ],
)
def test_columns_that_do_not_fit_together_are_named(tables, error, words):
    with pytest.raises(error, match=words):
        check_kinds(tables)


def test_participants_that_nothing_connects_are_named_with_a_hint():
    check_connected({"a": ["x", "y"], "b": ["y", "z"], "c": ["z"]})
    with pytest.raises(DisjointFeaturesError, match="1 of 3 participants .* 'c'.*leave them out"):
        check_connected({"a": ["x"], "b": ["x"], "c": ["q"]})
    with pytest.raises(DisjointFeaturesError, match=r"'x' \(a\) and 'X' \(c\) look alike"):
        check_connected({"a": ["x"], "b": ["x"], "c": ["X"]})


def test_a_roll_asks_the_silent_and_remarks_once_on_a_latecomer_that_does_not_fit():
    roll = Roll.of(["a", "b"])
    assert set(roll.ask("standard")) == {"a", "b"}
    roll = roll.heard({"a": Description(features=("x",), n_rows=3)})
    assert (roll.silent, roll.n_rows) == (("b",), {"a": 3})
    members = agree({"a": roll.columns("a")}, None)
    roll = roll.heard({"b": Description(features=("y",), n_rows=4)})
    for _ in range(2):
        same, roll = roll.with_latecomers(members)
        assert same is members
    assert len(roll.remarks) == 1
    assert "'b' came later and could not join" in roll.remarks[0]
    assert np.array_equal(members.units.scale, [1.0])
