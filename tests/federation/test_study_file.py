"""The study file."""

from __future__ import annotations

import msgspec
import pytest

from intarsia.exceptions import InputError, SettingError
from intarsia.federation.study_file import Study, read_study
from intarsia.privacy.policy import ReleasePolicy


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("participants = []\nname = 's'", "with at least one"),
        ("participants = ['a', 'a']\nname = 's'", "different names"),
        ("participants = ['a/b']\nname = 's'", "are invalid"),
        ("participants = ['server']\nname = 's'", "are invalid"),
        ("participants = ['a']\nname = 's'\nmethod = 'x'", "method must be"),
        ("participants = ['a']\nname = 's'\nquorums = 1", "unknown settings: 'quorums'. Known settings: name, "),
        (
            "participants = ['a']\nname = 's'\nquorum = 2",
            "quorum must be from 1 to 1, the number of participants. Got 2",
        ),
        ("participants = ['a']\nname = 's'\nquorum = 0", "quorum must be"),
        ("participants = ['a']\nname = 's'\nhost = 'x'", "unknown settings: 'host'"),
        (
            "participants = ['a']\nname = 's'\n[server]\nhots = 'x'",
            "unknown field `hots` - at `.*server`",
        ),
        ("participants = ['a']\nname = 's'\nserver = 'x'", "Expected `object`, got `str` - at `.*server`"),
        ("participants = ['a']\nname = 's'\n[release]\nallow_medoids = true", "unknown rules: 'allow_medoids'"),
        ("participants = ['a']\nname = 's'\n[release]\nround_counts_to = 50", "round_counts_to must not be above"),
        ("participants = 3\nname = 's'", "participants"),
        ("x", "not valid TOML"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(text, why, tmp_path):
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(InputError, match=why):
        read_study(tmp_path / "study.toml")


def test_a_study_has_rules_a_quorum_and_a_deadline(tmp_path):
    (tmp_path / "study.toml").write_text(
        "name = 's'\nparticipants = ['a', 'b', 'c']\nquorum = 2\ndeadline = 7\n"
        "[release]\nmin_cluster_size = 12\nmax_rounds = 'any'\n"
    )
    study = read_study(tmp_path / "study.toml")
    assert (study.needed, study.deadline) == (2, 7)
    assert study.release == ReleasePolicy(12, max_rounds=None)
    assert msgspec.json.decode(msgspec.json.encode(study), type=Study) == study
    assert Study("s", ("a", "b")).needed == 2
    assert Study("s", ("a", "b")).release == ReleasePolicy()


def test_a_study_cannot_ask_for_fewer_rows_than_the_floor(tmp_path):
    path = tmp_path / "study.toml"
    head = 'name = "s"\nparticipants = ["a"]\n[release]\nmin_cluster_size = '
    path.write_text(f"{head}1\n")
    with pytest.raises(SettingError, match="min_cluster_size must be at least 5 in a study"):
        read_study(path)
    path.write_text(f"{head}6\n")
    assert read_study(path).release.min_cluster_size == 6
