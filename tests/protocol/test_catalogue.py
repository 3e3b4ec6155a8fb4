"""What left and what came, field by field, taken from the messages themselves."""

import numpy as np

from intarsia.core.densities import family_of, fit_densities
from intarsia.protocol import (
    Assign,
    DensityMessage,
    Description,
    Labelled,
    LocalSummary,
    Moments,
    Refined,
    Refinement,
)
from intarsia.protocol.catalogue import Field, differences, fields_of, rows_behind
from intarsia.protocol.densities import packed
from tests.core.densities.fitting import clustered


def _summary(**more):
    return LocalSummary(
        features=("age", "chol"),
        n_rows=12,
        filled=np.array([12, 9]),
        values=np.array([[1.0, 2.0], [3.0, 0.0]]),
        counts=np.array([[7.0, 4.0], [5.0, 0.0]]),
        sizes=np.array([7, 5]),
        **more,
    )


def test_every_field_is_counted_and_what_is_not_there_is_withheld():
    held = {
        h.path: h
        for h in fields_of(
            _summary(
                densities=(
                    DensityMessage("gaussian", {"covariance": np.ones(2)}),
                    DensityMessage("gaussian", {"covariance": np.ones(1)}),
                )
            )
        )
    }
    assert held["values"] == Field("values", 4, 32)
    assert held["features"] == Field("features", 2, 7)
    assert held["moments"] == Field("moments", None, 0)
    assert held["low"].entries is None
    assert "protocol" not in held
    several = [
        h.entries
        for h in fields_of(_summary(densities=(DensityMessage("gaussian", {"covariance": np.ones(2)}),) * 2))
        if h.path.startswith("dens")
    ]
    assert several == [2, 2]


def test_levels_count_their_column_and_themselves():
    description = Description(features=("age",), n_rows=3, levels={"sex": ("f", "m")})
    assert Field("levels", 3, 5) in list(fields_of(description))


def test_rows_behind_are_the_fewest_that_any_entry_has():
    behind = rows_behind(_summary())
    assert (behind["values"], behind["counts"], behind["sizes"], behind["filled"]) == (4, 4, 5, 12)
    assert "low" not in behind  # it was not sent
    moments = Moments(np.array([9.0, 3.0]), np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2))
    behind = rows_behind(Description(features=("a", "b"), n_rows=9, moments=moments))
    assert (behind["moments.mean"], behind["moments.low"], behind["n_rows"]) == (3, 1, 9)
    refined = Refined(np.zeros((2, 1)), np.array([[0.0], [6.0]]), np.array([0, 8]), 1.0)
    assert rows_behind(Refinement(refined=(refined,))) == {
        "refined.values": 6,
        "refined.counts": 6,
        "refined.sizes": 8,
    }
    labelled = Labelled(sizes=np.array([2, 0]), counts=np.array([[1.0, 2.0], [0.0, 0.0]]), squares=np.zeros((2, 2)))
    assert rows_behind(labelled) == {"sizes": 2, "counts": 1, "squares": 1}
    assert "densities.gaussian.covariance" in rows_behind(
        _summary(densities=(DensityMessage("gaussian", {"covariance": np.ones(2)}),))
    )


def test_the_rarest_outcome_counts_for_a_table_of_probabilities():
    [codes] = fit_densities(clustered(np.array([[1.0]] * 9 + [[2.0]]), np.ones((10, 1), dtype=bool)), "discrete")
    density = packed(codes, family_of("discrete"))
    assert rows_behind(_summary(densities=(density, density)))["densities.discrete.outcomes"] == 1


def test_sums_that_can_be_subtracted():
    def refinement(*counts):
        return Refinement(refined=(Refined(np.zeros((2, 1)), np.array(counts)[:, None], np.array([9, 9]), 1.0),))

    assert differences(refinement(9.0, 12.0), None) is None
    assert differences(refinement(9.0, 12.0), refinement(9.0, 12.0)) is None
    assert differences(refinement(9.0, 12.0), refinement(11.0, 9.0)) == 2
    assert differences(_summary(), None) is None
    noisy = LocalSummary(
        features=("x",), n_rows=14, filled=np.array([14]), values=np.ones((1, 1)), counts=np.full((1, 1), 11.0),
        sizes=np.array([11]),
    )  # fmt: skip
    assert differences(noisy, None) == 3


def test_the_groups_that_a_participant_is_told_are_counted():
    assert [h.path for h in fields_of(Assign(groups=np.array([0, 1]), n_groups=2))] == ["groups", "n_groups"]
