"""
Forces between densities: how the one-shot method groups
========================================================

In the one-shot method each participant sends a density of each local cluster, here a Gaussian. Densities attract each
other over the columns that both have: much if they lie on top of each other, little if they are far apart.
"""

# %%
# Two participants: both have *age*, one has *cholesterol*, the other *pulse*. Each has the same two kinds of patients.
import matplotlib.pyplot as plt
import numpy as np

import intarsia

rng = np.random.default_rng(3)


def patients(n, column, healthy, ill):
    is_ill = rng.integers(2, size=n)
    age = np.where(is_ill, 68, 42) + 5 * rng.normal(size=n)
    return {"age": age, column: np.where(is_ill, ill, healthy) + 12 * rng.normal(size=n)}


tables = {"north": patients(200, "cholesterol", 190, 260), "south": patients(150, "pulse", 75, 95)}
result = intarsia.cluster(tables, n_clusters=2, method="one_shot", density="gaussian_diagonal", random_state=0)

# %%
# The four local clusters, and which cluster each became part of:
for local in result.local_clusters:
    print(local)

# %%
# Over *age*, the only shared column, two densities of different participants nearly coincide, and the other two as well.
# The force is the expectation of 1 / (d² + s²) between a point of one and a point of the other, with d as a share of the
# extent of all data and a softening s: this is what the library computes exactly, here by points.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
ages, points = np.linspace(20, 95, 400), {}
for name, colour in (("north", "tab:blue"), ("south", "tab:orange")):
    for cluster in range(2):
        age = tables[name]["age"][result.local_labels[name] == cluster]
        density = np.exp(-((ages - age.mean()) ** 2) / (2 * age.var())) / age.std()
        left.plot(ages, density, color=colour, linestyle=("-", "--")[cluster], label=f"{name}, local cluster {cluster}")
        points[name, cluster] = rng.normal(age.mean(), age.std(), size=500)
left.set(xlabel="age", yticks=[], title="densities over the shared column")
left.legend(fontsize=8)

names, softening = list(points), 0.1
force = np.array(
    [
        [np.mean(1 / (((points[a][:, None] - points[b]) / np.ptp(ages)) ** 2 + softening**2)) for b in names]
        for a in names
    ]
)
right.imshow(force, cmap="YlGnBu")
for i in range(4):
    for j in range(4):
        right.text(j, i, f"{force[i, j]:.0f}", ha="center", va="center", color="black" if force[i, j] < 50 else "white")
labels = [f"{name} {cluster}" for name, cluster in names]
right.set_xticks(range(4), labels)
right.set_yticks(range(4), labels)
right.set_title("force")
