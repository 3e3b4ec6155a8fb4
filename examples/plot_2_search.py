"""
What the search adds to Methods A and B
=======================================

The coordinator has to find out which local clusters belong together. The paper has two methods for it: Method A follows
the chain of shared columns, Method B takes the local clusters of one participant as seeds. Intarsia searches from many
starts, these two among them, and takes the grouping with the smallest objective.
"""

# %%
# Twenty random studies: four clusters over 12 columns, six participants in a chain, with 60 rows each.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

import intarsia
from intarsia.datasets import Split, mask_features, partition

warnings.simplefilter("ignore", intarsia.AssumptionWarning)
methods = ("method_a", "method_b", "search")
seeds = range(100, 120)


def study(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(4, size=360)
    X = rng.normal(size=(4, 12))[truth] * 1.6 + rng.normal(size=(360, 12))
    masks = mask_features(12, 6, layout="chain", overlap=0.5, random_state=seed)
    return Split.of(X, truth, partition(360, 6, random_state=seed), masks)


scores = {method: [] for method in methods}
for seed in seeds:
    split = study(seed)
    for method in methods:  # n_rivals=0, refinement="plain": only the grouping differs
        settings = {"aggregation": method, "n_rivals": 0, "refinement": "plain", "random_state": seed}
        result = intarsia.cluster(split.tables(), 4, **settings)
        scores[method].append(adjusted_rand_score(split.truth, split.in_order(result.labels)))

# %%
# Each line is a study. The search is not the best in every single one, because the objective sees summaries only.
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
values = np.array([scores[method] for method in methods])
axis.plot(range(3), values, color="0.75", linewidth=1)
axis.plot(range(3), values.mean(axis=1), color="tab:orange", linewidth=3, marker="o", label="mean")
axis.set_xticks(range(3), ["Method A", "Method B", "search"])
axis.set(ylabel="adjusted Rand index", title="Four clusters, six participants in a chain")
axis.legend()
for method, each in scores.items():
    print(f"{method:10} mean {np.mean(each):.2f}, worst {np.min(each):.2f}")

# %%
# The defaults do more: where groupings are nearly as good (``result.outcome.confidence`` is low), the first rounds compare
# several of them on the rows. Measurements on real data are in the evidence pages.
