"""Algorithm 2 from tables to labels: ``preset="paper"`` equals the paper's lines on 200 random studies."""

import numpy as np
import pytest

import intarsia
from intarsia.core.randomness import stream
from tests.paper.algorithm_1 import summarize
from tests.paper.algorithm_2 import agglomerate, embed, fit_pdf, labels_of, number_of_proxies
from tests.paper.distances import merge
from tests.paper.studies import cluster_of_each, draw_study, renumbering

BLOCK = 20  # studies of one test
pytestmark = pytest.mark.filterwarnings("ignore")  # random studies need not fulfil any assumption


def parameters_of(seed):
    """Draw w and the bounds of M; for half of the studies they are those of the preset."""
    rng = np.random.default_rng([19, seed])
    if rng.random() < 0.5:
        return {}
    return {"exponent": float(rng.choice([1.5, 2.0, 4.0])), "n_proxies": (int(rng.integers(2, 10)), 50)}


def draw_proxies(study, densities, seed, bounds):
    """Return P_i^a of all densities (line 4), from the package's own random streams and our own Gaussians."""
    proxies, numbers = [], dict.fromkeys(range(len(study.rows)), 0)
    for density in densities:
        i = density.participant
        rng = stream(seed, study.names[i], "proxies", numbers[i])
        M = number_of_proxies(density.n_rows, *bounds)
        points = rng.multivariate_normal(density.mean, density.covariance, M, check_valid="ignore", method="eigh")
        proxies.append(embed(points, density.features, study.rows[0].shape[1]))
        numbers[i] += 1
    return proxies


def check_agreement(study, seed, **settings):
    """Compare both implementations on one study: every Q_k, labels and centroids."""
    is_built_in = seed % 4 == 0
    labels = study.built_in_labels() if is_built_in else study.local_labels()
    local = {"n_local_clusters": study.n_local_by_name} if is_built_in else {"local": study.local}
    # the built-in k-means has random starts, so its labels are those of one seed
    settings = {"random_state": 0 if is_built_in else seed} | settings
    densities = [density for i, X in enumerate(study.rows) for density in fit_pdf(i, X, labels[i])]
    proxies = draw_proxies(study, densities, settings["random_state"], settings.get("n_proxies", (30, 100)))
    Q = agglomerate(proxies, settings.get("exponent", 2.0), settings.get("linkage", "force"))
    result = intarsia.cluster(study.tables, study.K, method="one_shot", preset="paper", **local, **settings)
    for k, G in Q.items():
        assert renumbering(G, result.outcome.merge_tree.cut(k)) is not None, f"study {seed}: other Q_{k}"
    K = max(study.K, min(Q))
    number = renumbering(Q[K], cluster_of_each(result))
    assert number is not None, f"study {seed}: other groups"
    for name, expected in zip(study.names, labels_of(Q[K], densities, labels), strict=True):
        assert np.array_equal(result.labels[name], np.array(number)[expected]), f"study {seed}, participant {name}"
    centroids = summarize(study.rows, labels)
    expected = np.array([merge([centroids[z] for z in group]).value for group in Q[K]])
    np.testing.assert_allclose(study.values_of(result)[number], expected, atol=1e-9, err_msg=f"study {seed}")


@pytest.mark.parametrize("first", range(0, 200, BLOCK))
def test_algorithm_2_agrees_with_its_lines(first):
    for seed in range(first, first + BLOCK):
        check_agreement(draw_study(seed), seed, **parameters_of(seed))


@pytest.mark.parametrize("linkage", ["smallest", "smallest_mean", "mean"])
def test_distances_between_groups_agree_with_the_table(linkage):
    for seed in range(201, 209):
        check_agreement(draw_study(seed), seed, linkage=linkage, **parameters_of(seed))


def test_groups_that_cannot_be_compared_stay_apart():
    for seed in range(4):
        one, other = draw_study(seed), draw_study(seed + 1)
        study = one.beside(other)
        check_agreement(study, seed, allow_partial=True)
