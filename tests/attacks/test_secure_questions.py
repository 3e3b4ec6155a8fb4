"""What a coordinator that controls all messages could learn of one participant's part, each by a way that was open once."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

pytest.importorskip("Crypto")
from intarsia.protocol import Describe, Refine
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


FIVE = dict.fromkeys("abcde", "xy")


def test_a_sum_that_failed_is_not_asked_for_again_in_other_units():
    """Whether values are too large for the units of a sum would tell their size, one bit for each attempt."""
    liar = Liar(FIVE)
    liar.sum_of(requests_of(liar, Describe))
    liar.summarize()
    request = liar.asked("a", liar.index_of(Refine))
    failures = []
    for unit in (1e-30, 1.0):
        layout = replace(request.layout, units=np.full(2, unit))
        _, failed = liar.masked({"a": replace(request, layout=layout)})
        failures.append(failed["a"].message)
    assert "too far from the centroids" in failures[0]
    assert "each sum is answered once" in failures[1]


@pytest.mark.parametrize("kind", [Describe, Refine])
def test_a_question_is_in_one_sum_only(kind):
    """The same question in a second sum, of which one participant is said to have dropped out, told its part."""
    liar = Liar(FIVE, quorum=4, max_rounds=3)
    if kind is Refine:
        liar.sum_of(requests_of(liar, Describe))
        liar.summarize()
    requests = requests_of(liar, kind)
    total = liar.sum_of(requests)
    again = {name: replace(each, index=each.index + 1) for name, each in requests.items()}
    with pytest.raises(AssertionError, match="asked for in another sum of this run"):
        rest = liar.sum_of(again, survivors="abcd")
        assert (total - rest).tolist() != liar.people.heard.vectors["e", requests["e"].index].tolist()
