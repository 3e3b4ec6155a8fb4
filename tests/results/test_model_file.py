"""A saved study comes back as it was; a damaged or invalid file is refused in words, whatever its bytes are."""

from __future__ import annotations

import json
import re
import stat
import struct
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia
from intarsia.exceptions import ModelFileError, SettingError
from intarsia.results import model_file
from intarsia.results.outcome import RoundInfo
from intarsia.results.stored import StoredTree

WRITTEN = sorted((Path(__file__).parent / "files").glob("*.intarsia"))


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=(2, 60))
    centres = 6 * rng.normal(size=(3, 4))
    rows = centres[truth] + rng.normal(size=(2, 60, 4))
    return {
        "ä": pd.DataFrame(rows[0][:, :3], columns=["x", "y", "z"]),
        "b": pd.DataFrame(rows[1][:, 1:], columns=["y", "z", "w"]),
    }


@pytest.fixture(scope="module", params=["federated", "one_shot", "one_shot, K chosen"])
def result(request, tables):
    method, *chosen = request.param.split(", ")
    return intarsia.cluster(tables, "auto" if chosen else 3, method=method, scale="standard", random_state=0)


def same(left, right):
    if isinstance(left, dict):
        return set(left) == set(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, np.ndarray):
        return np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    return left == right or (left != left and right != right)


def test_a_study_comes_back_as_it_was(result, tables, tmp_path):
    result.save(tmp_path / "study.intarsia", labels=True)
    assert stat.S_IMODE((tmp_path / "study.intarsia").stat().st_mode) == 0o600  # it holds data about single rows
    again = intarsia.load(tmp_path / "study.intarsia")
    assert str(again) == str(result)
    assert same(again.labels, result.labels)
    assert same(again.local_labels, result.local_labels)
    assert again.feature_names == result.feature_names
    assert np.array_equal(again.centroids, result.centroids, equal_nan=True)
    assert np.array_equal(again.counts, result.counts)
    assert same(again.sizes, result.sizes)
    assert again.rounds == result.rounds
    assert again.local_clusters == result.local_clusters
    assert again.assumptions == result.assumptions
    assert same(dict(again.outcome.silhouettes), dict(result.outcome.silhouettes))
    if result.outcome.merge_tree is not None:
        assert same(again.outcome.merge_tree.merges, result.outcome.merge_tree.merges)
    assert same(again.predict(tables), result.predict(tables))
    assert list(tmp_path.iterdir()) == [tmp_path / "study.intarsia"]


def test_labels_are_left_out_unless_asked_for(result, tmp_path):
    path = tmp_path / "study.intarsia"
    result.save(path)
    again = intarsia.load(path)
    assert again.labels == {} == again.local_labels
    assert str(again) == str(result)
    for labels in result.labels.values():
        assert labels.astype("<i8").tobytes() not in path.read_bytes()


def test_participants_by_position_stay_numbers(tables, tmp_path):
    result = intarsia.cluster(list(tables.values()), 3, random_state=0)
    result.save(tmp_path / "s.intarsia", labels=True)
    assert set(intarsia.load(tmp_path / "s.intarsia").labels) == {0, 1}


def test_a_metric_of_one_s_own_is_not_code_in_a_file(tables, tmp_path):
    result = intarsia.cluster(tables, 3, metric=lambda u, v: float(np.abs(u - v).sum()), max_rounds=0, random_state=0)
    with pytest.raises(SettingError, match="metric"):
        result.save(tmp_path / "s.intarsia")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keys", [(True, False), (-1, 0), ((1, 2), (3, 4)), (0.5, 1.5)])
def test_keys_that_would_not_come_back_are_refused(keys, tables, tmp_path):
    result = intarsia.cluster(dict(zip(keys, tables.values(), strict=True)), 3, random_state=0)
    with pytest.raises(SettingError, match="keys"):
        result.save(tmp_path / "s.intarsia")


def test_saving_keeps_links_and_permissions(result, tmp_path):
    real, link = tmp_path / "real.intarsia", tmp_path / "link.intarsia"
    real.write_bytes(b"")
    real.chmod(0o600)
    link.symlink_to(real)
    result.save(link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert intarsia.load(real).n_clusters == result.n_clusters
    assert len(list(tmp_path.iterdir())) == 2


def test_places_that_cannot_be_written_or_read_are_named(result, tmp_path):
    for place in (tmp_path / "nowhere" / "s.intarsia", tmp_path):
        with pytest.raises(ModelFileError, match=re.escape(str(place))):
            result.save(place)
        with pytest.raises(ModelFileError, match=re.escape(str(place))):
            intarsia.load(place)


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.UnknownLevelsWarning")
@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_files_written_before_load_and_predict_the_same_labels(path):
    facts, result = json.loads(path.with_suffix(".json").read_text(encoding="utf-8")), intarsia.load(path)
    rows = {
        name: values if name in result.levels else [np.nan if v is None else v for v in values]
        for name, values in facts["rows"].items()
    }
    assert str(result) == facts["text"]
    assert result.predict(rows).tolist() == facts["predicted"]
    assert result.score(rows) == pytest.approx(facts["score"])
    if facts["margins"] is not None:
        np.testing.assert_allclose(result.predict_margin(rows), facts["margins"], atol=1e-6)
    if result.labels:
        assert {str(key): labels.tolist() for key, labels in result.labels.items()} == facts["labels"]


def test_files_written_before_have_every_feature_of_a_study():
    results = [intarsia.load(path) for path in WRITTEN]
    assert any(result.levels for result in results)
    assert any(result.fidelity for result in results)
    assert any(result.outcome.merge_tree is not None for result in results)
    assert any(result.run.absent for result in results)
    assert any(result.run.settings["release"] for result in results)
    assert any(set(result.keys.values()) == {0, 1, 2} for result in results)
    assert {result.run.method for result in results} == {"federated", "one_shot"}


@pytest.fixture(scope="module")
def raw(tables, tmp_path_factory):
    path = tmp_path_factory.mktemp("raw") / "s.intarsia"
    intarsia.cluster(tables, 3, method="one_shot", random_state=0).save(path, labels=True)
    return path.read_bytes()


def load_bytes(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "fuzz.intarsia"
    path.write_bytes(data)
    return intarsia.load(path)


def with_header(body, version=model_file.VERSION):
    return model_file.MAGIC + struct.pack(">H", version) + sha256(body).digest() + body


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: b"", "not a saved study"),
        (lambda raw: b"PK\x03\x04" + raw, "not a saved study"),
        (lambda raw: raw[:20], "not a saved study"),
        (lambda raw: raw[:-1], "damaged"),
        (lambda raw: raw + b"\x00", "damaged"),
        (lambda raw: raw[:200] + bytes([raw[200] ^ 1]) + raw[201:], "damaged"),
        (lambda raw: with_header(raw[model_file.HEADER :], version=9), "version 9.*newer intarsia"),
        (lambda raw: with_header(raw[model_file.HEADER :], version=1), "version 1.*fit and save the study again"),
        (lambda raw: with_header(b"\x80"), "cannot be read"),
        (lambda raw: with_header(b"\x93" * 5000), "cannot be read"),
    ],
)
def test_what_is_not_a_whole_file_is_refused_in_words(change, words, raw, tmp_path_factory):
    with pytest.raises(ModelFileError, match=words):
        load_bytes(tmp_path_factory, change(raw))


LIES = {
    "wrong shape": {"values": lambda s: s.values[:, :1]},
    "not finite": {"values": lambda s: s.values * np.inf},
    "negative counts": {"local_counts": lambda s: -s.local_counts},
    "a scale of nothing": {"scale": lambda s: s.scale * 0},
    "a stranger": {"sizes": lambda s: {**s.sizes, "stranger": s.size[:3]}},
    "a group that is not there": {"group": lambda s: s.group + 7},
    "a feature twice": {"features": lambda s: (s.features[0],) * len(s.features)},
    "other names": {"names_in_order": lambda s: s.features[:1]},
    "a metric of theirs": {"metric": lambda s: "os.system"},
    "a tree that is a ring": {"tree": lambda s: StoredTree(s.tree.n_leaves, s.tree.merges * 0, s.tree.strengths)},
    "labels below": {"labels": lambda s: {"b": np.array([-9])}},
    "labels beyond": {"labels": lambda s: {"b": s.labels["b"] + 5}},
    "labels that are not counted": {"labels": lambda s: {"b": s.labels["b"][:-1]}},
    "values of no dimension": {"values": lambda s: np.array(1.0)},
    "owner of no dimension": {"owner": lambda s: np.array(1)},
    "a tree of no dimension": {"tree": lambda s: StoredTree(6, np.array(1), np.array(1.0))},
    "no sizes": {"sizes": lambda s: {}},
    "negative sizes": {"sizes": lambda s: {name: -sizes for name, sizes in s.sizes.items()}},
    "an extent turned round": {"low": lambda s: s.high + 1},
    "a blank name": {"features": lambda s: (" ", *s.features[1:]), "names_in_order": lambda s: (" ", *s.features[1:])},
    "cells below nothing": {"cells": lambda s: -s.cells - 1},
    "numbered participants with names": {"numbered": lambda s: True},
    "strain of a stranger": {"strain": lambda s: {"mallory": 1.0}},
    "doubts about a stranger": {"doubts": lambda s: {"mallory": {"means": 1.0}}},
    "doubts below 0": {"doubts": lambda s: {"b": {"means": -1.0}}},
    "strain below 0": {"strain": lambda s: {"b": -1.0}},
    "endless strain": {"strain": lambda s: {"b": float("inf")}},
    "strain that is no number": {"strain": lambda s: {"b": float("nan")}},
    "confidence above 1": {"aggregation": lambda s: replace(s.aggregation, confidence=1.5)},
    "an unknown branch": {"aggregation": lambda s: replace(s.aggregation, branch="method_c")},
    "an unknown condition": {"aggregation": lambda s: replace(s.aggregation, unmet={"4": 1})},
    "a condition that no cluster breaks": {"aggregation": lambda s: replace(s.aggregation, unmet={"3": 0})},
    "an unknown phase": {"run": lambda s: replace(s.run, absent={"b": ("rumour",)})},
    "an unknown kind of round": {"rounds": lambda s: (RoundInfo(1, 0.1, (1, 2, 3), kind="odd"),)},
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_file_with_a_right_checksum_and_wrong_content_is_refused(lie, raw, tmp_path_factory):
    stored = model_file.from_bytes(raw, "study")
    changed = msgspec.structs.replace(stored, **{field: make(stored) for field, make in LIES[lie].items()})
    with pytest.raises(ModelFileError, match="is invalid"):
        load_bytes(tmp_path_factory, model_file.to_bytes(changed))


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_no_bytes_lead_to_anything_but_a_study_or_our_error(data, raw, tmp_path_factory):
    body = bytearray(raw[model_file.HEADER :])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        result = load_bytes(tmp_path_factory, with_header(bytes(body)))
    except ModelFileError:
        return
    assert isinstance(str(result), str)
    result.predict({"y": [0.0]})
