"""Every attack on every study finds rows without rules, and none with the rules of a federation."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from intarsia.exceptions import DatasetError
from tests.attacks.measuring import measured
from tests.attacks.studies import LARGE, SEEDS, STUDIES

BUILD = Path(__file__).parents[2] / "build"
LISTENER = ("listener: pairs and peeling", "listener: labels known, groups below 5")


def attacked(name, seed):
    try:
        return measured(STUDIES[name], seed)
    except DatasetError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def check(name, found):
    without, guarded = ({one.attack: getattr(one, side) for one in found} for side in ("without", "guarded"))
    assert all(without[attack] > 0 for attack in (*LISTENER, "clever asker: 20 rounds")), (name, without)
    assert guarded == dict.fromkeys(guarded, 0), name


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.data] * ("HAR" in name)) for name in STUDIES if name not in LARGE],
)
def test_rows_that_attacks_compute_without_rules_stay_hidden_with_rules(name):
    check(name, attacked(name, 0))


@pytest.mark.attack
@pytest.mark.data
def test_all_studies_with_all_seeds_and_a_table():
    sums = defaultdict(lambda: [0, 0])
    for name in STUDIES:
        for seed in SEEDS:
            found = attacked(name, seed)
            for one in found:
                sums[name, one.attack][0] += one.without
                sums[name, one.attack][1] += one.guarded
            check(name, found)
    text = table_of(sums)
    BUILD.mkdir(exist_ok=True)
    (BUILD / "attacks.md").write_text(text, encoding="utf-8")
    sys.stdout.write("\n" + text)
    curious = [sums[name, "curious participant of two"][0] for name in STUDIES]
    over_all = [sums[name, "sums over all participants"][0] for name in STUDIES]
    assert sum(curious) > 0 < sum(over_all)


def table_of(sums):
    lines = [f"Rows that attacks computed, {len(SEEDS)} seeds together.", ""]
    lines += ["| study | attack | without rules | with the rules |", "|---|---|---|---|"]
    lines += [f"| {name} | {attack} | {before:,} | {after:,} |" for (name, attack), (before, after) in sums.items()]
    return "\n".join(lines) + "\n"
