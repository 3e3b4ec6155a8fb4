from __future__ import annotations

import numpy as np

from intarsia.core.grouping.objective import CentroidObjective
from intarsia.core.grouping.rematching import assign, rematch
from tests.core.grouping.cases import planted
from tests.naive import partition


def test_rematch_repairs_a_swapped_participant():
    local, label = planted(np.random.default_rng(7), n=9)
    wrong = label.copy()
    wrong[local.owner == 2] = np.roll(wrong[local.owner == 2], 1)
    assert partition(rematch(CentroidObjective(local, 3), wrong)) == partition(label)


def test_assign_is_one_to_one_or_each_on_its_own():
    costs = np.array([[1.0, 2.0], [1.0, 9.0]])
    assert assign(costs, one_per_group=True).tolist() == [1, 0]
    assert assign(costs, one_per_group=False).tolist() == [0, 0]
