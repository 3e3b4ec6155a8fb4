"""
Who has which columns: chain, core and random
=============================================

Intarsia needs no column that all participants have. It needs a path: every participant shares columns with some other,
and all of them are connected in this way. Three layouts that our measurements use, drawn.
"""

# %%
# ``mask_features`` deals the columns of a table to participants. A coloured field is a column that a participant has.
import matplotlib.pyplot as plt
import numpy as np

from intarsia.datasets import mask_features

n_columns, n_participants = 24, 6
layouts = {
    "chain: neighbours share 30 %": mask_features(n_columns, n_participants, layout="chain", random_state=2),
    "core: all share 10 %, nothing else": mask_features(n_columns, n_participants, layout="core", random_state=2),
    "random: everybody has 70 %": mask_features(n_columns, n_participants, layout="random", random_state=2),
}

figure, axes = plt.subplots(1, 3, figsize=(12, 3), layout="constrained", sharey=True)
for axis, (title, masks) in zip(axes, layouts.items(), strict=True):
    order = np.lexsort(masks[::-1])[::-1]  # columns of the first participant first
    shown = np.where(masks, 1 + np.arange(n_participants)[:, None] / 10, np.nan)[:, order]
    axis.pcolormesh(shown, cmap="viridis", edgecolors="white", linewidth=1)
    axis.set(title=title, xlabel="columns", yticks=np.arange(n_participants) + 0.5)
    axis.set_yticklabels([f"participant {i}" for i in range(n_participants)])
    axis.invert_yaxis()

# %%
# What a layout costs
# -------------------
# The same rows, divided in the three ways and clustered. ``adjusted_rand_score`` is 1 for the true classes and 0 for chance.
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

import intarsia
from intarsia.datasets import Split, partition

X, truth = make_blobs(n_samples=1200, n_features=n_columns, centers=4, cluster_std=4.0, random_state=1)
owner = partition(len(X), n_participants, random_state=1)
for title, masks in layouts.items():
    split = Split.of(X, truth, owner, masks)
    result = intarsia.cluster(split.tables(), n_clusters=4, random_state=0)
    score = adjusted_rand_score(truth, split.in_order(result.labels))
    print(f"{title:36}  {masks.sum(axis=1).mean():4.1f} columns each  adjusted Rand index {score:.2f}")

# %%
# A participant that shares no column with anybody cannot be compared. ``intarsia check`` and the report name such
# participants, and also those on whom the connection of others depends.
apart = {"a": {"age": [30, 31, 70]}, "b": {"pulse": [80, 82, 60]}}
try:
    intarsia.cluster(apart, n_clusters=2)
except intarsia.exceptions.DisjointFeaturesError as error:
    print(error)
