from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from intarsia.federation.kit_folder import write_study
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.federation.study_file import Study

_SETTINGS = {"scale": "standard", "n_local_clusters": 2, "random_state": 0}
ONE_SHOT = Study("s", ("a", "b"), "one_shot", n_clusters=2, settings={**_SETTINGS, "labels": "local"})


@pytest.fixture
def kit(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 2)) + 9 * (np.arange(40) % 2)[:, None]
    table = pl.DataFrame({"patient": [f"p{n}" for n in range(40)], "x": values[:, 0], "y": values[:, 1]})
    table.write_csv(tmp_path / "data.csv")
    (tmp_path / "local").mkdir()
    write_settings(tmp_path / "local", LocalSettings(str(tmp_path / "data.csv"), id_column="patient"))
    write_study(tmp_path, ONE_SHOT)
    return tmp_path
