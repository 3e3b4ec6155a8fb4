"""Invalid policies are refused."""

import pytest

import intarsia
from intarsia import ReleasePolicy
from intarsia.exceptions import SettingError


def test_invalid_policies_are_refused():
    for wrong in ({"min_cluster_size": 0}, {"small": "hide"}, {"max_rounds": -1}, {"round_counts_to": 2.5}):
        with pytest.raises(SettingError):
            ReleasePolicy(**wrong)
    with pytest.raises(SettingError, match="round_counts_to"):
        ReleasePolicy(min_cluster_size=5, round_counts_to=10)
    with pytest.raises(SettingError, match="release"):
        intarsia.cluster({"a": {"x": [1.0, 2.0]}}, 1, release=5)
