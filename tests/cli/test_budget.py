"""``intarsia participant budget``: what was spent, of a table or by way of a kit, and a reset."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from intarsia.cli import main
from intarsia.federation.kit_folder import write_study
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.federation.study_file import Study
from intarsia.privacy.ledger import Ledger
from intarsia.privacy.noise import epsilon_of, rho_of


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("x\n1\n2\n")
    return path


@pytest.fixture
def budget(capsys):
    def run(*words, rc=0):
        with pytest.raises(SystemExit) as end:
            main(["participant", "budget", *map(str, words)])
        said = capsys.readouterr()
        assert end.value.code == rc, said.err
        return said.out if rc == 0 else " ".join(said.err.split())

    return run


def spend(table, *studies):
    for k, study in enumerate(studies):
        Ledger.beside(table).charge(study, "r1", sha256(bytes([k])).hexdigest(), "counts", 2**-8, 1)


def test_it_shows_what_each_study_spent(table, budget):
    assert "Nothing was spent" in budget(table)
    spend(table, "heart", "lung", "heart")
    said = budget(table, "--epsilon", "1")
    assert [line.split()[:5] for line in said.splitlines() if "counts" in line] == [
        ["heart", "r1", "counts", "2", "0.0078125"],
        ["lung", "r1", "counts", "1", "0.00390625"],
    ]
    said = " ".join(said.split())
    assert f"Spent in all: rho 0.0117188, which is epsilon {epsilon_of(3 * 2**-8, 1e-6):.4g} at delta 1e-06" in said
    assert f"Left of epsilon 1: rho {rho_of(1.0, 1e-6) - 3 * 2**-8:.6g}." in said


def test_a_kit_leads_to_the_ledger_of_its_table(table, tmp_path, budget):
    spend(table, "heart")
    kit = tmp_path / "kit"
    (kit / "local").mkdir(parents=True)
    write_study(kit, Study("heart", ("a", "b"), n_clusters=2))
    write_settings(kit / "local", LocalSettings())
    assert "names no table yet" in budget(kit, rc=1)
    write_settings(kit / "local", LocalSettings(str(table)))
    by_kit, by_table = (json.loads(budget(path, "--json")) for path in (kit, table))
    assert by_kit == by_table
    assert by_kit["rho"] == 2**-8
    assert by_kit["rho_left"] is None
    assert by_kit["spent"][0]["study"] == "heart"


def test_a_reset_needs_new_data_and_a_reason(table, budget):
    spend(table, "heart")
    assert "same content" in budget(table, "--reset", "--reason", "because", rc=1)
    table.write_text("x\n3\n")
    assert "a reset needs a reason" in budget(table, "--reset", rc=1)
    assert "without --reset" in budget(table, "--reason", "because", rc=1)
    said = budget(table, "--reset", "--reason", "patients of 2026")
    assert "The last reset: patients of 2026" in said
    assert "Nothing was spent" in said
    assert len(list(table.parent.glob("data.csv.budget.[0-9a-f]*"))) == 1


def test_what_is_wrong_is_said(table, tmp_path, budget):
    assert "not found" in budget(tmp_path / "other.csv", rc=1)
    assert "delta must be between 0 and 1" in budget(table, "--epsilon", "1", "--delta", "2", rc=1)
    spend(table, "heart", "lung")
    path = tmp_path / "data.csv.budget"
    path.write_bytes(path.read_bytes().replace(b"heart", b"heard"))
    assert "was changed or damaged: line 1" in budget(table, rc=1)
