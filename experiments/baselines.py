"""What a user would otherwise do, on the same splits. Each takes a split, K and a seed, and labels every row of the split.

Pooled baselines need every row in one place, which is what nobody may do; they are here to show what that would buy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from intarsia.core.kmeans import observed_kmeans
from intarsia.datasets import Split


class Baseline(NamedTuple):
    label: Callable[[Split, int, int], np.ndarray]
    needs: str | None = None  # an optional package
    pools_rows: bool = True


def kmeans(rows: np.ndarray, k: int, seed: int) -> np.ndarray:
    return KMeans(k, n_init=10, random_state=seed).fit_predict(rows)


def centralised(split: Split, k: int, seed: int) -> np.ndarray:
    """The ceiling of pooling: all rows with all columns, which nobody has."""
    return kmeans(split.X, k, seed)


def each_alone(split: Split, k: int, seed: int) -> np.ndarray:  # noqa: ARG001
    """k-means at every participant, told how many classes it holds.

    Clusters of different participants are matched by the truth, which nobody has who goes alone.
    """
    labels = np.empty(len(split.X), dtype=int)
    classes = np.unique(split.truth)
    for i, mask in enumerate(split.masks):
        rows = split.rows_of(i)
        n_own = len(np.unique(split.truth[rows]))
        mine = kmeans(split.X[rows][:, mask], n_own, seed)
        table = np.array([[np.sum((mine == a) & (split.truth[rows] == c)) for c in classes] for a in range(n_own)])
        labels[rows] = linear_sum_assignment(-table)[1][mine]
    return labels


def imputed(imputer: Callable[[int], object]) -> Callable[[Split, int, int], np.ndarray]:
    def label(split: Split, k: int, seed: int) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # iterative imputation says when it stops short of convergence, which it always does
            return kmeans(imputer(seed).fit_transform(split.masked()), k, seed)

    return label


def masked_lloyd(split: Split, k: int, seed: int) -> np.ndarray:
    """k-means on the observed entries of the pooled rows, 20 restarts: the k-POD objective."""
    rows = split.masked()
    return observed_kmeans(rows, ~np.isnan(rows), k, np.random.default_rng(seed), n_init=20).labels


def stepmix(split: Split, k: int, seed: int) -> np.ndarray:
    """A Gaussian mixture with diagonal covariance on the observed entries."""
    from stepmix import StepMix

    model = StepMix(k, measurement="continuous_nan", n_init=5, random_state=seed, progress_bar=0, max_iter=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(split.masked()).predict(split.masked())


def opimc(split: Split, k: int, seed: int) -> np.ndarray:
    """One-pass incomplete multi-view clustering; a view is a set of columns that the same participants have."""
    import pandas as pd
    from imml.cluster import OPIMC

    patterns, view = np.unique(split.masks, axis=1, return_inverse=True)
    views = [pd.DataFrame(split.masked()[:, view.reshape(-1) == v]) for v in range(patterns.shape[1])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(OPIMC(n_clusters=k, random_state=seed).fit_predict(views))


CENTRALISED = "centralised k-means, all columns"
ALONE = "each participant alone, matched by the truth"
MEAN = "pooled, mean imputation, k-means"
NEIGHBOURS = "pooled, 5 nearest neighbours, k-means"
ITERATIVE = "pooled, iterative imputation, k-means"
MASKED_LLOYD = "pooled, masked Lloyd, 20 restarts"
STEPMIX = "pooled, StepMix"
BASELINES = {
    CENTRALISED: Baseline(centralised),
    ALONE: Baseline(each_alone, pools_rows=False),
    MEAN: Baseline(imputed(lambda _: SimpleImputer())),
    NEIGHBOURS: Baseline(imputed(lambda _: KNNImputer())),
    ITERATIVE: Baseline(imputed(lambda seed: IterativeImputer(random_state=seed, max_iter=5, n_nearest_features=10))),
    MASKED_LLOYD: Baseline(masked_lloyd),
    STEPMIX: Baseline(stepmix, needs="stepmix"),
    "pooled, OPIMC": Baseline(opimc, needs="imml"),
}
