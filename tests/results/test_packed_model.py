"""A model as bytes: every entry comes back, and nothing else is read."""

from __future__ import annotations

from dataclasses import fields, replace

import msgspec
import numpy as np
import pytest

import intarsia
from intarsia.core.distances import Extent
from intarsia.exceptions import ModelFileError
from intarsia.results.packed_model import packed, unpacked_model

TABLE = {"x": [0.0, 1, 9, 8], "colour": ["r", "r", "b", "b"]}


@pytest.fixture(scope="module")
def model():
    return intarsia.cluster({"p": TABLE, "q": TABLE}, 2, model="mixture", random_state=0).outcome.model


def test_all_fields_come_back_exactly(model):
    again = unpacked_model(packed(model))
    for field in fields(model):
        one, other = getattr(model, field.name), getattr(again, field.name)
        if field.name == "centroids":
            np.testing.assert_array_equal(one.values, other.values)
            np.testing.assert_array_equal(one.counts, other.counts)
        elif field.name == "extent" or isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
        elif field.name == "space":
            assert one.names == other.names
        else:
            assert one == other


@pytest.mark.parametrize(
    "changed",
    [
        {"scale": np.zeros(3)},
        {"shift": np.full(3, np.inf)},
        {"cells": np.zeros((2, 2))},
        {"metric": "mine"},
        {"units": "auto?"},
        {"n_joined": 3},
        {"levels": {"other": ("a",)}},
        {"extent": Extent(np.zeros(1), np.ones(1))},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(model, changed):
    with pytest.raises(ModelFileError, match="invalid"):
        unpacked_model(packed(replace(model, **changed)))


def test_other_bytes_are_refused(model):
    data = packed(model)
    for broken in (b"", b"x", data[:-5], msgspec.msgpack.encode({"features": ["a"]})):
        with pytest.raises(ModelFileError):
            unpacked_model(broken)
