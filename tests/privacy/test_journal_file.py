"""The file of a journal: for its owner only, and a damaged line is no fault of the others."""

from __future__ import annotations

import stat

from intarsia.privacy.journal import Journal


def test_a_journal_is_its_owner_s_alone(tmp_path):
    journal = Journal(tmp_path / "releases.jsonl")
    with journal.locked() as locked:
        locked.append({"event": "asked"})
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600


def test_a_line_that_is_nested_too_deeply_is_skipped_like_a_damaged_one(tmp_path):
    journal = Journal(tmp_path / "releases.jsonl")
    journal.path.write_text("[" * 100_000 + "]" * 100_000 + '\n{"event": "asked"}\n')
    assert list(journal.entries()) == [{"event": "asked"}]
