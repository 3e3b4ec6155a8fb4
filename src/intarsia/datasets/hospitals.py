"""UCI Heart Disease: four hospitals that measured different columns (CC BY 4.0; see ATTRIBUTION.md)."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from intarsia.core.types import FloatArray, IntArray
from intarsia.tables.frame import native_table

HOSPITALS = {"cleveland": "cleveland", "hungary": "hungarian", "switzerland": "switzerland", "long_beach": "va"}
COLUMNS = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal",
)  # fmt: skip
DESCRIPTIONS = {
    "age": "age, years",
    "sex": "sex, 1 = male",
    "cp": "chest pain, 1 typical … 4 none",
    "trestbps": "resting blood pressure, mm Hg",
    "chol": "cholesterol, mg/dl",
    "fbs": "fasting blood sugar > 120 mg/dl",
    "restecg": "resting ECG, 0 normal … 2",
    "thalach": "maximum heart rate",
    "exang": "angina under exercise",
    "oldpeak": "ST depression under exercise",
    "slope": "ST slope, 1 up … 3 down",
    "ca": "major vessels coloured, 0–3",
    "thal": "thallium scan, 3 normal … 7",
}
ZERO_IS_MISSING = ("trestbps", "chol")
MIN_FILLED = 0.5  # a column that is filled for a smaller share of a hospital's patients is dropped


class HeartDisease(NamedTuple):
    """By hospital, its table, and the diagnosis (1 = diseased), which is not part of the table."""

    tables: dict[str, Any]
    diagnosis: dict[str, IntArray]


def load_heart_disease(backend: str | None = None) -> HeartDisease:
    """Return the tables of four hospitals: 303, 294, 123 and 200 patients, 13 columns in all, of which each has some.

    Parameters
    ----------
    backend : {"pandas", "polars", "pyarrow"}, optional
        The library of the tables. Default: a dict of column names to arrays.

    Examples
    --------
    >>> hospitals = load_heart_disease()
    >>> {name: (len(table["age"]), len(table)) for name, table in hospitals.tables.items()}
    {'cleveland': (303, 13), 'hungary': (294, 10), 'switzerland': (123, 10), 'long_beach': (200, 10)}
    """
    tables, diagnosis = {}, {}
    for name, stem in HOSPITALS.items():
        cells = _read(stem)
        columns = {column: cells[:, k] for k, column in enumerate(COLUMNS)}
        for column in ZERO_IS_MISSING:
            columns[column] = np.where(columns[column] == 0, np.nan, columns[column])
        kept = {column: values for column, values in columns.items() if np.mean(~np.isnan(values)) >= MIN_FILLED}
        tables[name] = kept if backend is None else native_table(kept, backend)
        diagnosis[name] = (cells[:, -1] > 0).astype(np.intp)
    return HeartDisease(tables, diagnosis)


def _read(stem: str) -> FloatArray:
    text = files("intarsia.datasets").joinpath("heart_disease", f"processed.{stem}.data").read_text(encoding="ascii")
    rows = [[np.nan if cell == "?" else float(cell) for cell in line.split(",")] for line in text.splitlines() if line]
    return np.array(rows)
