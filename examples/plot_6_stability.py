"""
Do the clusters come back?
==========================

Every method returns K clusters, also where there are none. Stability tells ends of one cloud from groups: it resamples the
rows, clusters them anew and compares, and does the same with rows of a single cloud.
"""

# %%
# Three tables: two groups far apart, two groups that touch, and one long cloud. Each is shared by two participants.
import matplotlib.pyplot as plt
import numpy as np

import intarsia

rng = np.random.default_rng(8)
side = rng.integers(2, size=400)[:, None]
clouds = {
    "two groups": rng.normal(size=(400, 2)) + side * [6, 2],
    "two that touch": rng.normal(size=(400, 2)) + side * [3, 1],
    "one cloud": rng.normal(size=(400, 2)) * [2.5, 1],
}

figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for axis, (title, X) in zip(axes, clouds.items(), strict=True):
    tables = {"north": {"x": X[:200, 0], "y": X[:200, 1]}, "south": {"x": X[200:, 0], "y": X[200:, 1]}}
    result = intarsia.cluster(tables, n_clusters=2, random_state=0)
    figures = result.stability()
    labels = np.concatenate([result.labels["north"], result.labels["south"]])
    axis.scatter(*X.T, c=labels, cmap="coolwarm", s=8)
    axis.set(title=f"{title}: stability {figures.mean:.2f}", aspect="equal", xticks=[], yticks=[])
    print(title, figures, sep="\n", end="\n\n")

# %%
# The Jaccard similarity alone is high in all three: a long cloud is cut at nearly the same place again and again. The
# stability compares with what one cloud of the same shape gives. From 0.75 on a cluster is stable. Below 0.6 with a high
# Jaccard similarity, clusters are ends of a scale rather than groups; groups that touch, as in the middle, can look like
# this, too.
