"""Columns in other units at a participant: found from moments, and from local clusters where no moments are exchanged."""

import numpy as np
import pytest

import intarsia


def tables(factor):
    """Four participants; the third has creatinine in another unit."""
    rng, result = np.random.default_rng(0), {}
    for name in "abcd":
        group = rng.integers(2, size=150)
        creatinine = (80.0 + 30.0 * group + 12.0 * rng.normal(size=150)) * (factor if name == "c" else 1.0)
        result[name] = {"creatinine": creatinine, "age": 50.0 + 15.0 * group + 5.0 * rng.normal(size=150)}
    return result


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.IntarsiaWarning")
@pytest.mark.parametrize("scale", ["standard", None])
@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_column_participant_and_factor_are_named(scale, method):
    odd = intarsia.cluster(tables(1 / 88.42), 2, method=method, scale=scale, random_state=0).outcome.odd_columns
    assert [(entry.column, entry.participant) for entry in odd] == [("creatinine", "c")]
    assert odd[0].units == "creatinine in mg/dl and µmol/l"


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_the_same_units_everywhere_are_not_odd(method):
    assert not intarsia.cluster(tables(1.0), 2, method=method, random_state=0).outcome.odd_columns
