"""
A subtraction attack, without rules and with them
=================================================

No message contains a row. But two exact sums over nearly the same rows can be subtracted, and what remains is the sum over
the few rows in which they differ. This example is a coordinator that does so on purpose, against a participant without
release rules, and against one with the default rules.
"""

# %%
# The participant's table, which the coordinator does not have: 200 patients with age and cholesterol.
import matplotlib.pyplot as plt
import numpy as np

from intarsia import ReleasePolicy
from intarsia.participant import Participant
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.policy import OPEN
from intarsia.protocol import Centres, Refine
from intarsia.tables.frame import read_table

rng = np.random.default_rng(12)
patients = {"age": np.sort(rng.uniform(20, 90, size=200)).round(3), "chol": rng.normal(220, 40, size=200).round(1)}

# %%
# The attack. Two centroids at *t* − 1 and *t* + 1 divide the rows at age *t*. The reply of an ordinary round tells the
# number of rows and the means on both sides. Asked with two nearby cuts, the difference is what lies between them.


def ask(participant, number, cut):
    """One round whose centroids divide the rows at this age: number of rows below it, and their sums."""
    values = np.array([[cut - 1, 220.0], [cut + 1, 220.0]])
    reach = np.full(2, 1e6)
    centres = Centres(values, np.ones((2, 2), dtype=bool), -reach, reach)
    reply = participant.handle(Refine(seed=0, round=number, rivals=(centres,), min_points=1, max_iter=1))
    told = reply.refined[0]
    return np.cumsum(told.sizes)[0], told.sizes[0] * told.values[0]


def attack(rules):
    """Ask for neighbouring cuts, subtract, and return what lies between them."""
    participant = Participant(read_table(patients, "clinic"), pipeline=Pipeline(rules))
    cuts = (patients["age"][99:104] + patients["age"][98:103]) / 2  # a real attacker finds such places by bisection
    told = [ask(participant, number, cut) for number, cut in enumerate(cuts, start=1)]
    return [(b[0] - a[0], b[1] - a[1]) for a, b in zip(told, told[1:], strict=False)]


# %%
# Without rules four patients come out, to the last digit.
print("really:       ", [(float(patients["age"][k]), float(patients["chol"][k])) for k in range(99, 103)])
without = attack(OPEN)
for n_rows, sums in without:
    print(f"without rules: {n_rows} row  age {sums[0]:.3f}  chol {sums[1]:.1f}")

# %%
# With the default rules the participant audits itself: it counts a few rows with the other side, so that no two sums that it
# ever told differ by one to four rows. Differences are 0 rows, or at least five.
with_rules = attack(ReleasePolicy())
for n_rows, _ in with_rules:
    print(f"with rules:    {n_rows} rows")

# %%
figure, axis = plt.subplots(figsize=(7, 3.4), layout="constrained")
place = np.arange(4)
axis.bar(place - 0.2, [n for n, _ in without], width=0.4, label="without rules", color="tab:red")
axis.bar(place + 0.2, [n for n, _ in with_rules], width=0.4, label="with the default rules", color="tab:green")
axis.axhline(5, color="0.4", linestyle=":", label="smallest sum that the rules allow")
axis.set(ylabel="rows between two cuts", xticks=place, xlabel="pair of neighbouring questions")
axis.legend()

# %%
# An audit is not a proof about single rows: exact sums over five rows still say something about each of them. What the
# rules do and do not prevent is measured in the threat model; a bound by proof needs differential privacy.
