"""Weights on the command line: an error names the option's setting, the column or participant, and its value."""

from __future__ import annotations

import pytest

from intarsia.cli.weights import feature_weights, participant_weights
from intarsia.exceptions import SettingError


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "2e6"])
def test_a_weight_out_of_range_is_named_with_what_to_do_instead(weight):
    with pytest.raises(SettingError) as raised:
        feature_weights(["height=2", f"age={weight}"])
    seen = f"{float(weight):g}"
    assert str(raised.value) == (
        f"feature_weights: the weight of 'age' must be from 1e-06 to 1e+06. Got {seen}. "
        "Hint: to leave a column out, use -x age."
    )
    with pytest.raises(SettingError, match="participant_weights: the weight of 'east' must be") as raised:
        participant_weights([f"east={weight}"])
    assert f"Got {seen}. Hint: to leave a participant out" in str(raised.value)
    assert "-x" not in str(raised.value)


def test_weights_in_range_are_numbers_by_name():
    assert feature_weights(["age=2", "a=b=0.5"]) == {"age": 2.0, "a=b": 0.5}
    assert participant_weights(["equal"]) == "equal"
