"""Rows of results picked, compared, and put into cells and tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from experiments.measuring import FEDERATED, ONE_SHOT

BOLD = (FEDERATED, ONE_SHOT)
Rows = list[dict[str, Any]]
Results = dict[str, Rows]


def pick(rows: Rows, **where: str) -> Rows:
    return [row for row in rows if all(row[key] == value for key, value in where.items())]


def column(rows: Rows, key: str, **where: str) -> np.ndarray:
    return np.array([row[key] for row in pick(rows, **where)], dtype=float)


def paired(rows: Rows, key: str, layout: str, ours: str, theirs: str) -> tuple[np.ndarray, np.ndarray]:
    """Both ways' figures on the splits that both were tried on."""
    mine = {row["split"]: row[key] for row in pick(rows, layout=layout, way=ours)}
    other = {row["split"]: row[key] for row in pick(rows, layout=layout, way=theirs)}
    both = [split for split in mine if split in other]
    return np.array([mine[s] for s in both], dtype=float), np.array([other[s] for s in both], dtype=float)


def table(head: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    head = list(head)
    shown = [[*map(str, line)] for line in lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *shown])


def mean_sd(values: np.ndarray, digits: int, scale: float = 1.0) -> str:
    if not len(values) or np.isnan(values).all():
        return ""
    return f"{scale * np.nanmean(values):.{digits}f} ± {scale * np.nanstd(values):.{digits}f}"


def worst(values: np.ndarray, digits: int, scale: float = 1.0, *, largest: bool = False) -> str:
    if not len(values) or np.isnan(values).all():
        return ""
    return f"{scale * (np.nanmax(values) if largest else np.nanmin(values)):.{digits}f}"


def bold(way: str) -> str:
    return f"**{way}**" if way in BOLD else way


def verdict(holds: bool, measured: int) -> str:
    return "not measured" if not measured else "yes" if holds else "**no**"
