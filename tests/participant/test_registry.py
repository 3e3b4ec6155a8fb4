"""Clusterers that a participant names in its settings."""

from __future__ import annotations

import pytest
from sklearn.cluster import DBSCAN, HDBSCAN, Birch
from sklearn.mixture import GaussianMixture

from intarsia.exceptions import SettingError
from intarsia.participant.registry import clusterer_from_text


def test_classes_are_found_by_name_and_by_dotted_path():
    assert clusterer_from_text(None) is None
    assert clusterer_from_text("HDBSCAN(min_cluster_size=20)").get_params()["min_cluster_size"] == 20
    assert isinstance(clusterer_from_text("HDBSCAN"), HDBSCAN)
    assert isinstance(clusterer_from_text(" GaussianMixture(n_components=3, covariance_type='diag')"), GaussianMixture)
    assert type(clusterer_from_text("KMedoids(n_clusters=2, metric='euclidean')")).__name__ == "KMedoids"
    assert isinstance(clusterer_from_text("DBSCAN(eps=1e3)"), DBSCAN)
    assert isinstance(clusterer_from_text("sklearn.cluster.Birch(threshold=0.5)"), Birch)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "os.system('x')",
        "HDBSCAN(open('x'))",
        "HDBSCAN(min_cluster_size=open('x'))",
        "HDBSCAN(20)",
        "HDBSCAN(**{'min_cluster_size': 20})",
        "1 +",
        "",
        "(" * 500,
    ],
)
def test_text_that_is_not_a_class_with_literal_settings_is_refused(text):
    with pytest.raises(SettingError, match="must be the name of a clusterer with settings by name"):
        clusterer_from_text(text)


def test_the_error_says_what_was_looked_up_and_where():
    with pytest.raises(
        SettingError, match=r"'Nothing' was found. Looked in sklearn.cluster \(no such name\), sklearn.mix"
    ):
        clusterer_from_text("Nothing()")
    with pytest.raises(SettingError, match=r"sklearn.cluster \(not a class with fit_predict\)"):
        clusterer_from_text("k_means")
    with pytest.raises(SettingError, match=r"Looked in no.such.module \(not installed\)"):
        clusterer_from_text("no.such.module.Clusterer()")
    with pytest.raises(SettingError, match=r"HDBSCAN cannot be made with min_size \(TypeError\)"):
        clusterer_from_text("HDBSCAN(min_size=3)")
