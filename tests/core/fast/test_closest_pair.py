from __future__ import annotations

import numpy as np
from hypothesis import given

from intarsia.core.fast.bounds import WindowSizes
from intarsia.core.grouping.method_a import join_closest_first, method_a, method_a_seeds
from tests.core.grouping.cases import line, many_centroids

# so small that bounds decide, and are looked at again and again
SMALL = WindowSizes(core=2, window=5, short=3, long=4, widest=4, pool=2)


@given(many_centroids())
def test_method_a_with_bounds_equals_all_distances_computed_again_to_the_last_tie(case):
    local, k = case
    separate = np.bincount(local.owner)[local.owner] <= k
    plain = join_closest_first(local, separate, method_a_seeds(local, k))
    np.testing.assert_array_equal(method_a(local, k), plain)
    np.testing.assert_array_equal(method_a(local, k, SMALL), plain)


def test_method_a_on_copies_of_the_same_table_takes_them_in_order():
    local = line([0, 10] * 40, np.arange(80) // 2)
    assert method_a(local, 2, SMALL).tolist() == [0, 1] * 40
