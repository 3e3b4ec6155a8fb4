from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from intarsia.federation.site_settings import LocalSettings, write_settings


@pytest.fixture
def kit(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 2)) + 9 * (np.arange(40) % 2)[:, None]
    table = pl.DataFrame({"patient": [f"p{n}" for n in range(40)], "x": values[:, 0], "y": values[:, 1]})
    table.write_csv(tmp_path / "data.csv")
    (tmp_path / "local").mkdir()
    write_settings(tmp_path / "local", LocalSettings(str(tmp_path / "data.csv"), id_column="patient"))
    return tmp_path
