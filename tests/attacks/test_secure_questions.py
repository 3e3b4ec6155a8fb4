"""What a coordinator that controls all messages could learn of one participant's part, each by a way that was open once."""

from __future__ import annotations

import pytest

pytest.importorskip("Crypto")
from intarsia.protocol import Describe
from tests.attacks.summing import Liar

TEN = dict(zip("abcdefghij", ["xy", *["x"] * 8, "xy"], strict=True))  # y has two holders, and 7 of 10 open a total


def requests_of(liar, kind, names=None):
    index = liar.index_of(kind)
    return {name: liar.asked(name, index) for name in names or liar.members}


def part_of(liar, name, index, column=1, n_columns=2):
    return liar.people.heard.vectors[name, index].reshape(n_columns, -1)[column].tolist()


def test_a_column_whose_other_holder_is_no_member_is_in_no_sum():
    liar = Liar(TEN, quorum=7, members="abcdefghi")
    vectors, failures = liar.masked(requests_of(liar, Describe))
    assert "a" not in vectors
    assert "1 feature(s) of columns with fewer than 2 holders are in the sum: 'y'" in failures["a"].message


def test_a_total_without_a_holder_is_opened_by_nobody():
    """Participants that lack the column were enough to open a total with one holder's values of it."""
    liar = Liar(TEN, quorum=7)
    requests = requests_of(liar, Describe)
    liar.masked(requests)
    shares, failures = liar.unmask(requests["a"].index, "abcdefghi")
    assert shares == {}
    assert "1 column(s) would have fewer than 2 holders" in failures["b"].message
