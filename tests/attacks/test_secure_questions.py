"""What a coordinator that controls all messages could learn of one participant's part, each by a way that was open once."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

pytest.importorskip("Crypto")
from intarsia.protocol import AskMasked, Describe, Refine
from intarsia.runtime.contract import AbsentError
from tests.attacks.summing import Liar, ran

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
    liar.sum_of(requests)
    again = {name: replace(each, index=each.index + 1) for name, each in requests.items()}
    with pytest.raises(AssertionError, match="asked for in another sum of this run"):
        liar.sum_of(again, survivors="abcd")


def test_all_totals_are_over_the_same_participants():
    """The next round from the same centroids, without one participant, told its part of the first."""
    liar = Liar(FIVE, quorum=4, max_rounds=3)
    liar.sum_of(requests_of(liar, Describe))
    liar.summarize()
    requests = requests_of(liar, Refine)
    total, index = liar.sum_of(requests), requests["a"].index + 1
    again = {
        name: rebound(replace(each, index=index, question=replace(each.question, round=2)))
        for name, each in requests.items()
    }
    vectors, _ = liar.masked(again)
    for survivors in ("abcd", "abc", "bcde"):
        shares, failures = liar.unmask(index, survivors)
        assert not shares
        assert len(failures) == len(survivors)
    shares, _ = liar.unmask(index, "abcde")
    np.testing.assert_array_equal(liar.total(index, again["a"].layout, vectors, shares), total)


def test_a_run_pauses_where_a_participant_of_the_first_total_is_away():
    def away(name, request):
        return name == "e" and isinstance(request, AskMasked) and isinstance(request.question, Refine)

    with pytest.raises(AbsentError, match="differences would tell one participant's part, and 'e' was in the last one"):
        ran(FIVE, quorum=4, away=away)
    _, said, outcome = ran(FIVE, quorum=4, away=lambda name, request: name == "e" and isinstance(request, AskMasked))
    assert outcome.secure.n_participants == 4
    assert len(said.of(AskMasked)) == 4 * outcome.secure.n_sums


def with_far_centroid(request):
    """Return the request with the first centroid so far away that no row is near it."""
    sets = tuple(
        replace(each, values=np.vstack([np.full_like(each.values[:1], 1e5), each.values[1:]]))
        for each in request.question.rivals
    )
    return replace(request, question=replace(request.question, rivals=sets))


def rebound(request):
    """Return the request with the digests of its own question."""
    return replace(request, layout=replace(request.layout, told=request.told(), asked=request.asked()))


def test_others_are_not_asked_about_other_centroids():
    """With a cluster that only the rows of one participant can be in, the total of the cluster was its part."""
    liar = Liar(FIVE)
    liar.sum_of(requests_of(liar, Describe))
    liar.summarize()
    requests = requests_of(liar, Refine)
    honest, lied = requests["a"], {name: with_far_centroid(requests[name]) for name in "bcde"}
    vectors, failures = liar.masked({"a": honest})
    assert not failures
    _, failures = liar.masked(lied)
    assert len(failures) == 4
    assert all(
        "is not the one that all participants of the sum were told" in each.message for each in failures.values()
    )


def test_masks_of_different_questions_do_not_cancel():
    liar = Liar(FIVE)
    liar.sum_of(requests_of(liar, Describe))
    liar.summarize()
    requests = requests_of(liar, Refine)
    lied = {name: rebound(with_far_centroid(requests[name])) for name in "bcde"}
    vectors, failures = liar.masked({"a": requests["a"], **lied})
    assert not failures
    shares, _ = liar.unmask(requests["a"].index, "abcde")
    own = liar.people.heard.vectors["a", requests["a"].index]
    for layout in (requests["a"].layout, lied["b"].layout):
        total = liar.total(requests["a"].index, layout, vectors, shares)
        assert not (total == own).any()
        assert (np.abs(total.astype(float)) > 2.0**40).mean() > 0.9


@pytest.mark.parametrize("what", ["seed", "round", "columns", "extent", "feature"])
def test_every_part_of_a_question_is_the_same_for_all(what):
    liar = Liar(FIVE, max_rounds=3)
    liar.sum_of(requests_of(liar, Describe))
    liar.summarize()
    request = liar.asked("a", liar.index_of(Refine))
    question, layout = request.question, request.layout
    columns, rivals = question.columns, question.rivals
    other = {
        "seed": lambda: replace(request, question=replace(question, seed=1)),
        "round": lambda: replace(request, question=replace(question, round=2)),
        "columns": lambda: replace(
            request, question=replace(question, columns=replace(columns, scale=columns.scale * 1000))
        ),
        "extent": lambda: replace(
            request, question=replace(question, rivals=tuple(replace(each, high=each.high + 1) for each in rivals))
        ),
        "feature": lambda: replace(request, layout=replace(layout, features=("x", "z"))),
    }[what]()
    _, failures = liar.masked({"a": other})
    assert failures["a"].error in {"ReleaseError", "ProtocolError"}
