"""Algorithm 1 from tables to labels: ``preset="paper"`` equals the paper's lines on 200 random studies."""

from functools import partial

import numpy as np
import pytest

import intarsia
from tests.paper.algorithm_1 import Study, algorithm_1
from tests.paper.distances import objective, silhouette
from tests.paper.studies import cluster_of_each, draw_study, renumbering

BLOCK = 20  # studies of one test
pytestmark = pytest.mark.filterwarnings("ignore")  # random studies need not fulfil any assumption


def parameters_of(seed):
    """Draw the parameters of Algorithm 1; for half of the studies they are those of the preset."""
    rng = np.random.default_rng([18, seed])
    if rng.random() < 0.5:
        return {}
    return {
        "step_size": float(rng.choice([0.3, 0.8, 1.0])),
        "max_rounds": int(rng.integers(1, 5)),
        "min_points": int(rng.choice([1, 4])),
        "local_iterations": int(rng.choice([1, 2])),
    }


def compare(seed, study, labels, parameters, **local):
    """Compare both implementations from given local clusters; return False if the matching has ties."""
    run = algorithm_1(Study(study.rows, study.K, **parameters), labels)
    if run.tied:
        return False
    result = intarsia.cluster(study.tables, study.K, preset="paper", random_state=0, **local, **parameters)
    aggregation = result.outcome.aggregation
    assert (aggregation.branch, aggregation.unmet) == (run.method, run.unmet), f"study {seed}: other branch"
    number = renumbering(run.G, cluster_of_each(result))
    assert number is not None, f"study {seed}: other groups"
    np.testing.assert_allclose(study.values_of(result)[number], run.G_c[-1], atol=1e-9, err_msg=f"study {seed}")
    for name, expected in zip(study.names, run.labels, strict=True):
        assert np.array_equal(result.labels[name], np.append(number, -1)[expected]), f"study {seed}, participant {name}"
    assert aggregation.loss == pytest.approx(objective(run.centroids, run.G), abs=1e-9), f"study {seed}: other loss"
    return True


@pytest.mark.parametrize("first", range(0, 200, BLOCK))
def test_algorithm_1_agrees_with_its_lines(first):
    n_compared, seed = 0, 10 * first
    while n_compared < BLOCK:
        study = draw_study(seed)
        if seed % 4:
            labels, local = study.local_labels(), {"local": study.local}
        else:
            labels, local = study.built_in_labels(), {"n_local_clusters": study.n_local_by_name}
        n_compared += compare(seed, study, labels, parameters_of(seed), **local)
        seed += 1
    assert seed - 10 * first <= 1.5 * BLOCK  # few studies have ties


def test_participants_choose_the_number_with_the_highest_silhouette():
    """The whole preset, without any other setting: "maximizing the silhouette score", K_i ≤ K."""
    n_compared, seed = 0, 3000
    while n_compared < 5:
        seed += 1
        study = draw_study(seed, separation=10.0)
        found = [study.with_n_local(k).built_in_labels() for k in range(2, study.K + 1)]
        ordered = [sorted(each, key=partial(silhouette, X)) for X, *each in zip(study.rows, *found, strict=True)]
        chosen = [each[-1] for each in ordered]
        if sum(max(each) + 1 for each in chosen) < study.K or not all(map(is_clear, study.rows, ordered)):
            continue  # the paper: K ≤ |𝒸|; and another start of k-means should find the same clusters
        result = intarsia.cluster(study.tables, study.K, preset="paper", max_rounds=0, random_state=0)
        n_compared += compare(seed, study, study.numbered_like(result, chosen), {})
    assert seed < 3050


def is_clear(X, ordered):
    """Whether the best number of clusters is far ahead of the next."""
    return len(ordered) == 1 or silhouette(X, ordered[-1]) > silhouette(X, ordered[-2]) + 0.1
