"""The ledger of a table: exact, for all studies, and never below what was told."""

from __future__ import annotations

import json
import os
import shutil
import threading
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.exceptions import OutputError, ReleaseError, SettingError
from intarsia.privacy import ledger as module
from intarsia.privacy import ledger_store
from intarsia.privacy.ledger import GRAIN, Ledger, grains_of, grains_within, split
from intarsia.privacy.noise import epsilon_of
from intarsia.privacy.spending import Spending


def digest(question):
    return sha256(str(question).encode()).hexdigest()


def ask(ledger, question, rho=0.125, limit=1.0, study="s", run="r", data=None):
    """What a participant does with a question."""
    with ledger.locked():
        answer = ledger.answer(digest(question))
        if answer is None:
            ledger.charge(study, run, digest(question), "counts", rho, limit, sensitivity=1.0)
            answer = os.urandom(8) if data is None else data
            ledger.keep(digest(question), answer)
        return answer


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n2\n")
    return path


@pytest.fixture(params=["disk", "memory"])
def ledger(request, table):
    return Ledger.beside(table) if request.param == "disk" else Ledger.in_memory()


def budget_of(table):
    return table.with_name(table.name + ".budget")


# --- cases worked by hand


def test_five_tenths_are_five_and_the_sixth_is_refused(ledger):
    part = split(0.5, [0.2] * 5)[0]
    for question in range(5):
        ask(ledger, question, part, 0.5)
    assert 0.5 - 5 * GRAIN <= ledger.spent() <= 0.5
    with pytest.raises(ReleaseError, match=r"'counts' costs rho 0.1, but of the table's 0.5 only .* are left"):
        ask(ledger, 5, part, 0.5)
    assert len(ledger.entries()) == 5


def test_a_limit_is_reached_exactly(ledger):
    ask(ledger, 1, 0.75, 1.0)
    with pytest.raises(ReleaseError, match=r"only 0.25 are left"):
        ask(ledger, 2, 0.25 + GRAIN, 1.0)
    ask(ledger, 3, 0.25, 1.0)
    assert ledger.spent() == 1.0
    with pytest.raises(ReleaseError, match=r"only 0 are left"):
        ask(ledger, 4, GRAIN, 0.5)


def test_the_same_question_costs_once(ledger):
    first = ask(ledger, "q")
    assert [ask(ledger, "q") for _ in range(3)] == [first] * 3
    assert ledger.spent() == 0.125
    assert ledger.answer(digest("other")) is None


def test_the_lines_say_who_asked_what(table):
    ask(Ledger.beside(table), 1, study="heart", run="0123")
    ask(Ledger.beside(table), 2, 3 * GRAIN, study="lung")
    first, second = map(json.loads, budget_of(table).read_text().splitlines())
    assert first | {"time": 0, "check": 0} == {
        "time": 0,
        "event": "debit",
        "study": "heart",
        "run": "0123",
        "digest": digest(1),
        "what": "counts",
        "sensitivity": 1.0,
        "rho": 2**37,
        "table": sha256(table.read_bytes()).hexdigest(),
        "check": 0,
    }
    assert second["rho"] == 3
    assert "table" not in second


def test_spending_is_by_study_run_and_release(ledger):
    ask(ledger, 1, study="heart")
    ask(ledger, 2, study="lung")
    ask(ledger, 3, study="heart")
    spending = Spending.of(ledger.entries())
    assert [(part.study, part.rho, part.debits) for part in spending.parts] == [("heart", 0.25, 2), ("lung", 0.125, 1)]
    assert spending.by_study() == {"heart": 0.25, "lung": 0.125}
    assert spending.epsilon(1e-6) == epsilon_of(0.375, 1e-6) < epsilon_of(0.25, 1e-6) + epsilon_of(0.125, 1e-6)
    assert json.loads(json.dumps(spending.as_dict(1e-6)))["rho"] == 0.375


def test_files_are_for_their_owner_only(table):
    ask(Ledger.beside(table), 1)
    for path in (budget_of(table), table.parent / "t.csv.answers", table.parent / "t.csv.answers" / digest(1)):
        assert path.stat().st_mode & 0o077 == 0


def test_nothing_was_asked_and_nothing_is_written(table):
    assert Ledger.beside(table).entries() == ()
    assert [path.name for path in table.parent.iterdir()] == ["t.csv"]


# --- for all studies, kits and restarts


def test_a_second_study_sees_the_debits_of_the_first_by_any_path(table, tmp_path, monkeypatch):
    ask(Ledger.beside(table), 1, 0.75, study="first")
    (tmp_path / "kit").mkdir()
    link = tmp_path / "kit" / "mine.csv"
    link.symlink_to(table)
    monkeypatch.chdir(tmp_path)
    for path in (link, "t.csv", tmp_path / "kit" / ".." / "t.csv"):
        assert Ledger.beside(path).spent() == 0.75
        with pytest.raises(ReleaseError, match=r"only 0.25 are left"):
            ask(Ledger.beside(path), 2, 0.5, study="second")


@pytest.mark.parametrize("year", [1971, 2400])
def test_a_changed_clock_changes_nothing(table, monkeypatch, year):
    first = ask(Ledger.beside(table), 1, 0.75)

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(year, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(module, "datetime", Clock)
    assert ask(Ledger.beside(table), 1) == first
    ask(Ledger.beside(table), 2, 0.25)
    assert str(year) in Ledger.beside(table).entries()[1]["time"]
    with pytest.raises(ReleaseError):
        ask(Ledger.beside(table), 3, GRAIN)


def test_a_copy_of_the_table_has_a_ledger_of_its_own(table):
    """As the documentation says: who copies the table also copies what was spent, or answers for it."""
    ask(Ledger.beside(table), 1, 1.0)
    copy = table.with_name("copy.csv")
    shutil.copy(table, copy)
    assert Ledger.beside(copy).spent() == 0


def test_an_answer_needs_a_debit_under_the_same_lock(ledger):
    with pytest.raises(ReleaseError, match="not charged"):
        ledger.keep(digest(1), b"x")
    ledger.charge("s", "r", digest(1), "counts", 0.1, 1)
    with pytest.raises(ReleaseError, match="not charged"):  # another process may have answered meanwhile
        ledger.keep(digest(1), b"x")
    assert ledger.answer(digest(1)) is None
    ask(ledger, 1, 0.1)
    with ledger.locked():
        ledger.charge("s", "r", digest(1), "counts", 0.1, 1)
        with pytest.raises(ReleaseError, match="second time"):
            ledger.keep(digest(1), b"y")


def test_a_failure_after_the_debit_is_not_refunded(ledger):
    with suppress(KeyError), ledger.locked():
        ledger.charge("s", "r", digest(1), "counts", 0.25, 1)
        raise KeyError
    assert ledger.spent() == 0.25
    ask(ledger, 1, 0.25)
    assert ledger.spent() == 0.5


def test_threads_answer_a_question_once(ledger):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(ledger, 1))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len(set(answers)) == 1
    assert ledger.spent() == 0.125


# --- damage


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The lines of a ledger with four debits."""
    path = tmp_path_factory.mktemp("written") / "t.csv"
    path.write_text("x\n1\n")
    for question in range(4):
        with (ledger := Ledger.beside(path)).locked():
            ledger.charge("s", "r", digest(question), "counts", 0.125, 1)
    return budget_of(path).read_bytes()


def test_a_ledger_that_is_cut_anywhere_counts_the_lines_that_are_whole_and_goes_on(written, table):
    """Power fails at any byte of the last line: no noise was drawn for it. Lines before it count."""
    starts = [0] + [at + 1 for at, byte in enumerate(written) if byte == 10]
    for cut in range(starts[3], len(written) + 1):
        budget_of(table).write_bytes(written[:cut])
        whole = 4 if cut >= len(written) - 1 else 3
        ledger = Ledger.beside(table)
        assert len(ledger.entries()) == whole
        ledger.charge("s", "r", digest("next"), "counts", 0.125, 1)
        assert len(ledger.entries()) == whole + 1
        assert budget_of(table).read_bytes().startswith(written[: starts[3]])


@settings(max_examples=200)
@given(st.data())
def test_a_changed_byte_is_refused_or_counts_no_less(written, tmp_path_factory, data):
    at = data.draw(st.integers(0, len(written) - 1))
    changed = bytearray(written)
    changed[at] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("changed") / "t.csv"
    budget_of(path).write_bytes(changed)
    try:
        assert Ledger.beside(path).spent() == 0.5
    except ReleaseError as error:
        assert "t.csv.budget" in str(error)  # noqa: PT017


@pytest.mark.parametrize("gone", [(0,), (1,), (2,), (0, 1), (0, 1, 2), (1, 2)])
def test_removed_lines_are_refused(written, table, gone):
    lines = written.splitlines(keepends=True)
    budget_of(table).write_bytes(b"".join(line for at, line in enumerate(lines) if at not in gone))
    with pytest.raises(ReleaseError, match="changed or damaged: line"):
        Ledger.beside(table).charge("s", "r", digest(9), "counts", 0.1, 1)


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 1, 3, 2), (0, 1, 1, 2, 3), (0, 1, 2, 3, 3)])
def test_swapped_and_repeated_lines_are_refused(written, table, order):
    lines = written.splitlines(keepends=True)
    budget_of(table).write_bytes(b"".join(lines[at] for at in order))
    with pytest.raises(ReleaseError, match="changed or damaged"):
        Ledger.beside(table).entries()


def test_an_answer_whose_debit_was_removed_is_noticed(table):
    for question in range(3):
        ask(Ledger.beside(table), question)
    lines = budget_of(table).read_bytes().splitlines(keepends=True)
    for left in (b"".join(lines[:2]), b""):
        budget_of(table).write_bytes(left)
        with pytest.raises(ReleaseError, match=r"answer\(s\) have no debit"):
            ask(Ledger.beside(table), 9)
    budget_of(table).unlink()
    with pytest.raises(ReleaseError, match=r"3 answer\(s\) have no debit"):
        Ledger.beside(table).entries()


def test_a_folder_that_cannot_be_written_is_an_error_before_any_noise(tmp_path):
    with pytest.raises(OutputError, match=r"the ledger of the table, cannot be written.*Hint"):
        ask(Ledger.beside(tmp_path / "none" / "t.csv"), 1)
    (tmp_path / "t.csv").write_text("x\n1\n")
    (tmp_path / "t.csv.budget").mkdir()
    with pytest.raises((OutputError, ValueError), match=r"t.csv.budget, the ledger"):
        ask(Ledger.beside(tmp_path / "t.csv"), 1)


# --- reset


def test_a_reset_needs_a_reason_and_new_data(table):
    ledger = Ledger.beside(table)
    with pytest.raises(SettingError, match="nothing was spent"):
        ledger.reset("new rows")
    first = ask(ledger, 1, 1.0)
    before = budget_of(table).read_bytes()
    with pytest.raises(SettingError, match="reason"):
        ledger.reset("  ")
    with pytest.raises(ReleaseError, match="same content"):
        ledger.reset("because")
    table.write_text("x\n3\n4\n")
    aside = ledger.reset("patients of 2026")
    assert aside.read_bytes() == before
    assert aside.stat().st_mode & 0o077 == 0
    (entry,) = Ledger.beside(table).entries()
    assert entry["reason"] == "patients of 2026"
    assert entry["old"] == sha256(before).hexdigest()
    assert Ledger.beside(table).spent() == 0
    assert ask(Ledger.beside(table), 1, 1.0) != first
    assert Spending.of(ledger.entries()).reset == "patients of 2026"


def test_old_data_do_not_come_back_by_way_of_new_data(table):
    old, ledger = table.read_bytes(), Ledger.beside(table)
    ask(ledger, 1)
    table.write_text("x\n3\n4\n")
    ledger.reset("new")
    table.write_bytes(old)
    with pytest.raises(ReleaseError, match="same content"):  # at the first debit
        ask(ledger, 1)
    table.write_text("x\n3\n4\n")
    ask(ledger, 1)
    table.write_bytes(old)
    with pytest.raises(ReleaseError, match="same content"):  # at a second reset
        ledger.reset("again")
    table.write_text("x\n5\n")
    ledger.reset("third")
    assert len(ledger.entries()[0]["earlier"]) == 2


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_reset_that_is_interrupted_loses_no_debit_and_can_be_repeated(table, monkeypatch, step):
    """It has three steps that change files: the answers aside, the lines aside, the new ledger."""
    ledger = Ledger.beside(table)
    ask(ledger, 1)
    table.write_text("x\n3\n4\n")
    steps = iter(range(3))

    def until_killed(do):
        def run(*args, **kwargs):
            if next(steps) == step:
                raise KeyboardInterrupt
            return do(*args, **kwargs)

        return run

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", until_killed(Path.rename))
        patch.setattr(ledger_store, "write_atomically", until_killed(ledger_store.write_atomically))
        with pytest.raises(KeyboardInterrupt):
            ledger.reset("new rows")
    assert Ledger.beside(table).spent() == 0.125
    Ledger.beside(table).reset("new rows")
    assert Ledger.beside(table).spent() == 0
    assert Ledger.beside(table).answer(digest(1)) is None


def test_a_folder_of_files_is_a_table(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(b"1")
    ledger = Ledger.beside(folder)
    ask(ledger, 1)
    ask(Ledger.beside(folder / "a.parquet"), 1)  # writes into the folder, but no rows
    with pytest.raises(ReleaseError, match="same content"):
        ledger.reset("why not")
    (folder / "b.parquet").write_bytes(b"1")
    ledger.reset("more")


def test_a_ledger_in_memory_is_never_reset():
    ledger = Ledger.in_memory()
    ask(ledger, 1)
    with pytest.raises(ReleaseError, match="same content"):
        ledger.reset("new")


# --- laws


@given(st.floats(1e-12, 1e6))
def test_a_debit_is_rounded_up_and_a_limit_down_by_less_than_a_grain(rho):
    assert grains_within(rho) * GRAIN <= rho <= grains_of(rho) * GRAIN
    assert grains_of(rho) - grains_within(rho) in {0, 1}


@given(st.floats(1e-6, 100), st.lists(st.floats(0.01, 1), min_size=1, max_size=12))
def test_the_parts_of_a_budget_can_all_be_spent(rho, weights):
    shares = [weight / sum(weights) for weight in weights]
    parts = split(rho, shares)
    assert sum(map(grains_of, parts)) <= grains_within(rho)
    assert sum(parts) >= rho - (len(parts) + 1) * GRAIN - rho * 1e-9
    ledger = Ledger.in_memory()
    for question, part in enumerate(parts):
        ask(ledger, question, part, rho)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 2**39)), max_size=30), st.integers(0, 2**41))
def test_any_questions_in_any_order(asked, limit):
    """An agreement: with a ledger of one dictionary."""
    ledger, paid = Ledger.in_memory(), {}
    for question, grains in asked:
        fits = question in paid or sum(paid.values()) + grains <= limit
        try:
            ask(ledger, question, grains * GRAIN, limit * GRAIN)
            assert fits
            paid.setdefault(question, grains)
        except ReleaseError:
            assert not fits
    assert ledger.spent() == sum(paid.values()) * GRAIN


@pytest.mark.parametrize("rho", [0, -1.0, float("nan"), float("inf")])
def test_a_debit_of_nothing_is_refused(ledger, rho):
    with pytest.raises(SettingError, match="rho must be above 0"):
        ask(ledger, 1, rho)
    with pytest.raises(SettingError, match="limit"):
        ask(ledger, 1, 1, -1 if rho <= 0 else rho)


@pytest.mark.parametrize("name", ["", "../../etc", "a" * 63, "A" * 64])
def test_a_question_is_named_by_its_digest(ledger, name):
    with pytest.raises(ValueError, match="SHA-256"):
        ledger.answer(name)
    with pytest.raises(ValueError, match="SHA-256"):
        ledger.charge("s", "r", name, "counts", 0.1, 1)


def test_shares_are_of_one_whole():
    for shares in ([], [0.5, 0.6], [1.5, -0.5], [1, 0]):
        with pytest.raises(SettingError, match="shares of rho"):
            split(1, shares)
    with pytest.raises(SettingError, match="too small"):
        split(GRAIN, [0.5, 0.5])
