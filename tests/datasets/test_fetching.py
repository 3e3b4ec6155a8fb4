"""Datasets that are read from a folder: checked files, and errors that say where they come from."""

from __future__ import annotations

import os

import numpy as np
import pytest

from intarsia.datasets import data_folder, fetch_dim_set, fetch_har, fetch_qmnist
from intarsia.exceptions import DatasetError, SettingError


@pytest.mark.data
def test_the_files_are_as_described():
    try:
        har, published, qmnist = fetch_har(), fetch_har(66), fetch_qmnist()
    except DatasetError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    assert har.X.shape[1] == 561
    assert published.X.shape[1] == 66
    assert len(np.unique(har.groups)) == 30
    assert qmnist.X.shape == (21337, 784)
    assert 0 <= qmnist.X.min() < qmnist.X.max() == 1
    assert len(set(har.feature_names)) == 561
    assert fetch_dim_set(1024).X.shape == (1024, 1024)


def test_a_missing_dataset_says_what_is_missing_and_where_it_comes_from(monkeypatch, tmp_path):
    monkeypatch.setenv("INTARSIA_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    with pytest.raises(DatasetError, match="dim_sets.npz not found in.*Eastern Finland.*INTARSIA_DATA"):
        fetch_dim_set()


def test_a_damaged_dataset_is_refused(monkeypatch, tmp_path):
    (tmp_path / "qmnist_037.npz").write_bytes(b"not this")
    monkeypatch.setenv("INTARSIA_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match="qmnist_037.npz is not the expected file.*SHA-256"):
        fetch_qmnist()


VARIANTS = {
    "columns": lambda: fetch_har(7),
    "activities": lambda: fetch_har(activities=("flying",)),
    "dimension": lambda: fetch_dim_set(3),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_unknown_variants_are_refused(variant):
    with pytest.raises(SettingError, match="must be"):
        VARIANTS[variant]()
