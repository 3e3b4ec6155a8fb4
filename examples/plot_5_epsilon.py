"""
Epsilon against accuracy
========================

A private study adds noise to everything that a participant tells. How much that costs depends on the number of rows more
than on anything else. The forecast says it before anything is spent.
"""

# %%
# Two clinics with two kinds of patients. Bounds come from what is known of the measurements, never from the rows.
import matplotlib.pyplot as plt
import numpy as np

import intarsia


def clinics(n_rows):
    rng, tables = np.random.default_rng(5), {}
    for name, column, mean, step in (("north", "chol", 190, 60), ("south", "pulse", 85, -15)):
        ill = rng.integers(2, size=n_rows)
        tables[name] = {
            "age": 42 + 26 * ill + 8 * rng.normal(size=n_rows),
            column: mean + step * ill + abs(step) / 3 * rng.normal(size=n_rows),
        }
    return tables


bounds = {"age": (0, 110), "chol": (50, 400), "pulse": (30, 150)}

# %%
# For each number of rows and each ε the agreement with the labels that would be found without noise, over six private
# runs: line and band are mean and range.
epsilons = [0.1, 0.25, 0.5, 1, 2, 4]
figure, axis = plt.subplots(figsize=(7.5, 4), layout="constrained")
for n_rows, colour in ((100, "tab:red"), (400, "tab:orange"), (2000, "tab:green")):
    tables = clinics(n_rows)
    exact = intarsia.cluster(tables, 2, scale="standard", random_state=0)
    agreements = []
    for epsilon in epsilons:
        declared = intarsia.DifferentialPrivacy(epsilon=epsilon, bounds=bounds)
        runs = [intarsia.cluster(tables, 2, privacy=declared, random_state=seed) for seed in range(6)]
        agreements.append(
            [
                np.mean([intarsia.metrics.clustering_accuracy(exact.labels[name], run.labels[name]) for name in tables])
                for run in runs
            ]
        )
    agreements = np.array(agreements)
    axis.plot(epsilons, agreements.mean(axis=1), color=colour, marker="o", label=f"{n_rows} rows each")
    axis.fill_between(epsilons, agreements.min(axis=1), agreements.max(axis=1), color=colour, alpha=0.15)
axis.set(xscale="log", xlabel="ε", ylabel="rows with the label of the run without noise", ylim=(0.45, 1.02))
axis.set_xticks(epsilons, [str(e) for e in epsilons])
axis.legend(loc="lower right")

# %%
# The forecast answers the same question for one's own tables, and spends nothing. Its figures come from the rows without
# protection: they are for the owner of the tables only.
declared = intarsia.DifferentialPrivacy(epsilon=1, bounds=bounds)
print(intarsia.forecast_privacy(clinics(400), 2, privacy=declared, n_runs=3))
