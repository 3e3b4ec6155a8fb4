"""What densities tell, shrunk or of maximum likelihood: few parameters, and sums over groups of rows that are audited."""

from itertools import combinations

import numpy as np
import pytest

from intarsia import ReleasePolicy
from intarsia.privacy.record import ROWS
from tests.privacy.cases import blobs, participant_with, summarize

FEWEST = 5


def n_parameters(parts, d):
    """The numbers in a mean, a covariance and its factors that are not determined by the others."""
    covariance, factors = parts["covariance"], parts.get("factors")
    of_covariance = d if covariance.ndim == 1 else d * (d + 1) // 2
    r = 0 if factors is None else factors.shape[1]
    return d + of_covariance + d * r - r * (r - 1) // 2


@pytest.mark.parametrize("shrink", [True, False])
@pytest.mark.parametrize("density", ["gaussian_full", "gaussian_low_rank", "gaussian"])
@pytest.mark.parametrize("n", [7, 40, 90])
def test_covariances_have_at_most_a_third_as_many_parameters_as_rows_or_are_diagonal(density, shrink, n):
    d = 6
    reply = participant_with(blobs([n, n + 1], d=d)).handle(
        summarize(density=density, shrink=shrink, n_local_clusters=2, n_clusters=2)
    )
    assert len(reply.densities) == 2
    for size, sent in zip(reply.sizes, reply.densities, strict=True):
        assert n_parameters(sent.parts, d) <= max(size / 3, 2 * d)
        if n == 90:
            assert sent.parts["covariance"].shape == (d, d)  # there are rows enough


@pytest.mark.parametrize("density", ["gaussian_full", "gaussian_diagonal"])
def test_products_that_follow_from_unshrunk_covariances_are_sums_over_audited_groups_of_rows(density):
    rng = np.random.default_rng(4)
    values = rng.normal(size=(100, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    policy = ReleasePolicy(min_cluster_size=FEWEST, max_rounds=None)
    participant = participant_with({"x": values[:, 0], "y": values[:, 1]}, policy)
    told = []
    for k in (2, 3, 4):
        reply = participant.handle(
            summarize(density=density, shrink=False, n_local_clusters=k, n_clusters=k, max_local_clusters=k)
        )
        told.extend(
            (n, mean, sent.parts["covariance"])
            for n, mean, sent in zip(reply.sizes, reply.values, reply.densities, strict=True)
        )
    atoms = participant._audit._atoms.by_key[ROWS].atoms
    rows = [np.flatnonzero(atoms == atom) for atom in np.unique(atoms)]
    assert min(map(len, rows)) >= FEWEST
    assert len(rows) > 2
    unions = [np.concatenate(some) for r in range(1, len(rows) + 1) for some in combinations(rows, r)]
    for n, mean, covariance in told:
        products = covariance + (np.square(mean) if covariance.ndim == 1 else np.outer(mean, mean))
        expected = (values[each].T @ values[each] / len(each) for each in unions if len(each) == n)
        assert any(np.allclose(products, np.diagonal(e) if products.ndim == 1 else e, atol=1e-9) for e in expected)


def test_shrinkage_of_variances_protects_nobody():
    """What docs/theory/audit.md says: (n v + 5 v') / (n + 5) of all clusters can be solved for the variances v."""
    table = blobs([20, 30, 50], d=3)
    plain, shrunk = (
        participant_with(table).handle(summarize(density="gaussian_diagonal", shrink=shrink))
        for shrink in (False, True)
    )
    n = shrunk.sizes[:, None]
    sent, expected = (np.array([each.parts["covariance"] for each in reply.densities]) for reply in (shrunk, plain))
    within = (sent * (n + 5)).sum(axis=0) / (n.sum() + 5 * len(n))
    np.testing.assert_allclose((sent * (n + 5) - 5 * within) / n, expected, rtol=1e-9)
    assert not np.allclose(sent, expected, rtol=1e-3)
