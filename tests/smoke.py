"""A minute's worth of checks that the whole still works together; the other tests say what exactly holds."""

import numpy as np
import pytest

import intarsia

HOSPITALS = intarsia.datasets.load_heart_disease().tables


@pytest.mark.parametrize("method", ["federated", "one_shot"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_hospitals(method, n_jobs):
    settings = {"scale": "standard", "missing": "observed", "random_state": 0, "n_jobs": n_jobs}
    result = intarsia.cluster(HOSPITALS, 2, method=method, **settings)
    assert sorted(np.unique(np.concatenate(list(result.labels.values())))) == [0, 1]


def test_release_rules_and_the_report(tmp_path):
    result = intarsia.cluster(HOSPITALS, 2, random_state=0, release=intarsia.ReleasePolicy())
    result.save(tmp_path / "study.intarsia")
    page = intarsia.load(tmp_path / "study.intarsia").report(tmp_path / "study.html")
    assert page.stat().st_size > 100_000
