from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.features import is_complete, is_connected
from intarsia.datasets import Split, choose_holders, mask_features, partition
from intarsia.exceptions import InputError, SettingError


@given(st.integers(2, 12), st.integers(0, 999), st.booleans())
def test_a_chain_connects_neighbours_by_three_tenths_and_covers_everything(n, seed, balanced):
    d = 20 * n
    importance = np.random.default_rng(seed).random(d) if balanced else None
    masks = mask_features(d, n, layout="chain", importance=importance, random_state=seed)
    assert masks.any(axis=0).all()
    assert is_connected(masks)
    for i in range(n - 1):
        assert (masks[i] & masks[i + 1]).sum() / masks[i].sum() == pytest.approx(0.3, abs=0.07)
        assert not (masks[i] & masks[i + 2 :]).any()


@given(st.integers(2, 12), st.integers(0, 999))
def test_a_core_is_shared_by_all_and_the_rest_by_nobody(n, seed):
    d = 20 * n
    masks = mask_features(d, n, layout="core", random_state=seed)
    assert is_complete(masks)
    seen_by = masks.sum(axis=0)
    assert set(seen_by.tolist()) <= {1, n}
    assert (seen_by == n).sum() == round(0.1 * d)


@given(st.integers(2, 12), st.integers(3, 60), st.floats(0.51, 1.0), st.integers(0, 999))
def test_a_random_layout_gives_everybody_a_share_and_every_feature_two_holders(n, d, share, seed):
    masks = mask_features(max(d, n), n, layout="random", share=share, random_state=seed)
    assert set(masks.sum(axis=1).tolist()) == {math.ceil(share * max(d, n) - 1e-9)}
    assert masks.sum(axis=0).min() >= 1
    if masks.sum() >= 2 * masks.shape[1]:
        assert masks.sum(axis=0).min() >= 2
    assert is_connected(masks)


@given(st.integers(3, 8), st.integers(0, 999))
def test_a_small_random_share_covers_all_features_and_connects_or_is_refused(n, seed):
    masks = mask_features(30, n, layout="random", share=0.4, random_state=seed)
    assert masks.any(axis=0).all()
    assert is_connected(masks)
    with pytest.raises(SettingError, match="share 0.1 is too small: .* with 3 of 30 features"):
        mask_features(30, n, layout="random", share=0.1, random_state=seed)


def test_random_layouts_differ_by_seed_and_follow_the_share():
    first, second = (mask_features(40, 6, layout="random", random_state=seed) for seed in (0, 1))
    assert (first != second).any()
    drawn = [mask_features(40, 6, layout="random", random_state=seed).sum(axis=0) for seed in range(50)]
    assert np.ptp(np.mean(drawn, axis=0)) < 0.8  # no feature is preferred


def test_features_dealt_by_importance_give_everybody_about_as_much():
    rng = np.random.default_rng(0)
    importance = rng.pareto(1.5, size=200)
    shares = [
        importance[mask].sum() for mask in mask_features(200, 5, layout="core", importance=importance, random_state=0)
    ]
    at_random = [
        np.ptp([importance[mask].sum() for mask in mask_features(200, 5, layout="core", random_state=seed)])
        for seed in range(20)
    ]
    assert np.ptp(shares) < np.mean(at_random)


def test_rows_at_random_and_evenly():
    owner = partition(103, 4, random_state=0)
    assert sorted(np.bincount(owner).tolist()) == [25, 26, 26, 26]


@given(st.integers(4, 10), st.integers(0, 999))
def test_unequal_sizes_differ_and_nobody_has_less_than_half_of_an_equal_part(n, seed):
    rows = np.bincount(partition(1000, n, sizes="unequal", random_state=seed), minlength=n)
    assert rows.sum() == 1000
    assert rows.min() >= 1000 // (2 * n) - 1
    assert len(set(rows.tolist())) > 1


def test_sizes_are_relative_to_each_other():
    owner = partition(100, 3, sizes=[1, 3, 6], random_state=0)
    assert np.bincount(owner).tolist() == [10, 30, 60]
    assert (np.diff(owner) < 0).any()  # rows are taken at random


def test_groups_stay_together():
    groups = np.repeat(list("abcdef"), 5)
    for n in (6, 3):
        owner = partition(30, n, groups=groups, random_state=0)
        assert all(len(set(owner[groups == g])) == 1 for g in "abcdef")
        assert np.bincount(owner).tolist() == [30 // n] * n
    with pytest.raises(InputError, match="there are 6 groups for 7 participants"):
        partition(30, 7, groups=groups)


def test_sorted_rows_are_dealt_in_blocks_within_each_cluster():
    labels, key = np.repeat([0, 1], 10), np.random.default_rng(0).random(20)
    owner = partition(20, 2, labels=labels, sort_by=key)
    for c in (0, 1):
        mine = labels == c
        assert key[mine & (owner == 0)].max() < key[mine & (owner == 1)].min()


def test_holders_are_as_many_as_wanted_and_neighbours_if_wanted():
    holders = choose_holders(np.arange(50), 10, fewest=5, most=8, consecutive=True, random_state=0)
    assert {len(who) for who in holders.values()} == {5, 6, 7, 8}
    assert all((np.diff(who) == 1).all() for who in holders.values())
    owner = partition(
        50,
        10,
        labels=np.arange(50) % 5,
        holders=choose_holders(np.arange(5), 10, fewest=2, most=2, random_state=1),
        random_state=0,
    )
    assert all(len(set(owner[np.arange(50) % 5 == c])) == 2 for c in range(5))


def test_a_split_gives_tables_and_takes_labels_back_in_order():
    X = np.arange(12.0).reshape(4, 3)
    masks = np.array([[True, True, False], [True, False, True], [False, True, True]])
    split = Split.of(X, [0, 1, 0, 1], [2, 0, 2, -1], masks, ["a", "b", "c"])
    assert split.names == ("p0", "p1")  # the second participant has no row, and a row has no participant
    assert {name: {c: v.tolist() for c, v in t.items()} for name, t in split.tables().items()} == {
        "p0": {"a": [3.0], "b": [4.0]},
        "p1": {"b": [1.0, 7.0], "c": [2.0, 8.0]},
    }
    assert split.in_order({"p0": [5], "p1": [6, 7]}).tolist() == [6, 5, 7]
    assert np.isnan(split.masked()).tolist() == [[True, False, False], [False, False, True], [True, False, False]]
    assert {name: t.tolist() for name, t in split.truth_of().items()} == {"p0": [1], "p1": [0, 0]}


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(SettingError, match="layout"):
        mask_features(10, 2, layout="ring")
    with pytest.raises(SettingError, match="n_participants must be from 1 to the number of features .10"):
        mask_features(10, 11)
    with pytest.raises(SettingError, match="overlap must be at least 0 and below 1"):
        mask_features(10, 2, overlap=1.0)
    with pytest.raises(SettingError, match="importance has shape"):
        mask_features(10, 2, importance=[1.0])
    with pytest.raises(SettingError, match="share must be above 0 and at most 1"):
        mask_features(10, 2, layout="random", share=0.0)
    with pytest.raises(SettingError, match="importance cannot be combined"):
        mask_features(10, 2, layout="random", importance=np.ones(10))
    with pytest.raises(SettingError, match="sizes must be 'unequal' or 2 positive numbers. Got 'odd'"):
        partition(10, 2, sizes="odd")
    with pytest.raises(SettingError, match="Got shape .3,."):
        partition(10, 2, sizes=[1, 2, 3])
    with pytest.raises(SettingError, match="sizes cannot be combined with groups"):
        partition(4, 2, sizes=[1, 3], groups=[0, 0, 1, 1])
    with pytest.raises(SettingError, match="fewest and most must"):
        choose_holders([0], 3, fewest=2, most=4)
    with pytest.raises(InputError, match="labels are needed"):
        partition(4, 2, sort_by=[1, 2, 3, 4])
    with pytest.raises(InputError, match="do not match"):
        Split.of(np.ones((2, 2)), [0], [0, 0], np.ones((1, 2)))
