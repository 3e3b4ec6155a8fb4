"""What a private study declares, as TOML."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import SettingError
from intarsia.privacy.bounds_file import privacy_from, read_bounds, template, undeclared

NAMES = st.text(st.characters(codec="utf-8"), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["epsilon", "delta", "bounds", "levels", "rows_per_person", "rounds", "other"])


def test_a_file_by_hand(tmp_path):
    path = tmp_path / "bounds.toml"
    path.write_text('rows_per_person = 2\ndelta = 1e-5\n[bounds]\nage = [0, 110]\n[levels]\nsex = ["m", "f"]\n')
    expected = DifferentialPrivacy(2, 1e-5, {"age": (0.0, 110.0)}, {"sex": ("f", "m")}, rows_per_person=2)
    assert read_bounds(path, 2) == expected
    assert undeclared(expected, {"a": ["age", "sex"], "b": ["age", "chol"]}) == {"b": ["chol"]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("epsilon = 1\n[bounds]\nage = [0, 110]", "has an epsilon.*--epsilon"),
        ("[bounds]\nage = [110, 0]", "bounds of column 'age' must be two numbers"),
        ("[levels]\nsex = []", "levels of column 'sex' must be a list of texts, at least one"),
        ("bound = 3", "unknown settings: 'bound'"),
        ("bounds = 3", "bounds and levels must be mappings"),
        ("rounds = 9", "rounds must be a whole number from 0 to 3"),
    ],
)
def test_an_error_names_the_file_and_the_key(text, why, tmp_path):
    path = tmp_path / "bounds.toml"
    path.write_text(text)
    with pytest.raises(SettingError, match=rf"bounds\.toml.*{why}"):
        read_bounds(path, 1)


def test_a_study_without_epsilon_says_what_to_add():
    with pytest.raises(SettingError, match=r"\[privacy\] has no epsilon.*epsilon = 1"):
        privacy_from({"bounds": {"age": [0, 110]}}, "[privacy]")


@given(st.dictionaries(KEYS, VALUES) | VALUES)
def test_whatever_a_file_says_is_a_declaration_or_a_setting_error(table):
    try:
        declared = privacy_from(table, "here")
    except SettingError as error:
        assert str(error).startswith("here")  # noqa: PT017
    else:
        assert 0 < declared.epsilon <= 100


@given(st.lists(NAMES, unique=True, max_size=5))
def test_a_template_is_valid_and_once_filled_in_has_all_names(names):
    half = len(names) // 2
    text = template(names[:half], names[half:])
    assert tomllib.loads(text) == {"bounds": {}, "levels": {}}
    head, _, body = text.partition("[bounds]")
    filled = body.replace("\n# ", "\n").replace("[low, high]", "[0, 1]").replace("= []", '= ["x"]')
    assert sorted(
        [*tomllib.loads(head), *privacy_from(tomllib.loads(f"epsilon = 1\n[bounds]{filled}"), "").bounds]
    ) == (sorted(names[:half]))


def test_the_order_of_a_declaration_does_not_matter():
    one, other = ({"a": (0, 1), "b": (0, 2)}, {"b": (0, 2.0), "a": (0, 1)})
    assert repr(DifferentialPrivacy(1, bounds=one)) == repr(DifferentialPrivacy(1.0, bounds=other))
