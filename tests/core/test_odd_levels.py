"""Two participants that each have a frequent level which the other never has may spell one thing in two ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.odd_levels import odd_levels


@pytest.mark.parametrize(
    ("left", "right", "odd"),
    [
        ({"m": 200, "w": 220}, {"m": 300, "f": 310}, (("w",), ("f",))),
        ({"nie": 10, "ja": 20}, {"never": 10, "yes": 5}, (("ja", "nie"), ("never", "yes"))),  # nothing in common
        ({"nie": 1}, {"never": 1}, (("nie",), ("never",))),
        ({"m": 200, "f": 220}, {"m": 300, "f": 310, "other": 50}, None),  # a level that one of them does not have
        ({"m": 200, "f": 220, "x": 9}, {"m": 300, "f": 310, "other": 50}, None),  # a rare one
        ({"m": 50, "w": 50}, {"m": 5, "f": 4}, None),  # w may be missing by chance among nine rows
        ({"m": 50, "f": 50}, {"m": 5, "f": 4}, None),
        ({"m": 0, "w": 3}, {"m": 4, "f": 0}, (("w",), ("m",))),  # a level without rows does not occur
        ({"m": 3}, {}, None),
    ],
)
def test_cases_by_hand(left, right, odd):
    found = odd_levels({"a": {"sex": left}, "b": {"sex": right, "age": {}}, "c": {}})
    assert [(each.column, each.left, each.right, each[3:5]) for each in found] == (
        [] if odd is None else [("sex", "a", "b", odd)]
    )
    assert all(each.in_common == ("m" in left and left["m"] > 0 and "m" in right and "f" in right) for each in found)


def test_levels_are_named_and_many_are_counted():
    (odd,) = odd_levels({"a": {"c": {"p": 9, "q": 8, "r": 7, "s": 6}}, "b": {"c": {"t": 5}}})
    assert str(odd) == "'c' ('a' has 'p', 'q', 'r' and 1 more and not 't', 'b' the reverse)"


counts = st.dictionaries(st.sampled_from("pqrst"), st.integers(0, 100))


@given(st.dictionaries(st.sampled_from("abc"), st.fixed_dictionaries({"c": counts}), max_size=3))
def test_a_column_is_named_once_and_levels_that_both_have_never(tables):
    found = odd_levels(tables)
    assert len(found) <= 1
    for odd in found:
        left, right = (tables[name]["c"] for name in (odd.left, odd.right))
        assert all(left[level] and not right.get(level) for level in odd.left_levels)
        assert all(right[level] and not left.get(level) for level in odd.right_levels)
