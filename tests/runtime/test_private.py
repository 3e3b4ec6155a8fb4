"""A private study over each runtime: with the ledgers of one run, all others give the same answers and spend nothing."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia import DifferentialPrivacy, FederatedClustering
from intarsia.privacy.budget import Charged
from intarsia.privacy.ledger import Ledger
from intarsia.runtime.drive import drive
from intarsia.runtime.processes import Joining
from intarsia.tables.frame import read_table
from tests.runtime import cases
from tests.runtime.test_conformance import CASES

pytest.importorskip("opendp")
PRIVACY = DifferentialPrivacy(8, bounds=dict.fromkeys("xyzw", (-5, 15)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The tables as files, beside which the ledgers stand."""
    where = tmp_path_factory.mktemp("ledgers")
    for name, table in cases.tables().items():
        table.write_csv(where / f"{name}.csv")
    return where


def run(case, folder):
    algorithm = FederatedClustering(2, random_state=0, privacy=PRIVACY).algorithm_for(cases.NAMES)
    runtime = case.over(
        [
            Joining(
                read_table(table, name), None, "euclidean", "observed", cases.RULES, algorithm.terms(name),
                Charged(str(folder / f"{name}.csv"), "study", type(case).__name__, PRIVACY.epsilon),
            )
            for name, table in cases.tables().items()
        ]
    )  # fmt: skip
    outcome = drive(algorithm, runtime)
    return outcome, {name: kept.labels.tolist() for name, kept in case.labels(runtime).items()}


@pytest.fixture(scope="module")
def first(folder):
    return run(cases.InProcess(), folder)


@pytest.mark.parametrize("name", CASES)
def test_all_runtimes_find_the_same_and_pay_once(name, folder, first):
    if name == "flare_tasks":
        pytest.importorskip("nvflare")
    case = CASES[name]()
    try:
        outcome, labels = run(case, folder)
    finally:
        case.close()
    np.testing.assert_array_equal(outcome.model.values, first[0].model.values)
    assert outcome.privacy == first[0].privacy
    assert labels == first[1]
    for owner in cases.NAMES:
        entries = Ledger.beside(folder / f"{owner}.csv").entries()
        assert {entry["run"] for entry in entries} == {"InProcess"}
        assert sum(entry["rho"] for entry in entries) * 2.0**-40 == pytest.approx(outcome.privacy.rho[owner])
