"""What a participant sees before anything leaves."""

from __future__ import annotations

import json

import msgspec
import polars as pl
import pytest
from msgspec.structs import replace

from intarsia.cli import main
from intarsia.coordinator import FederatedAlgorithm
from intarsia.federation.algorithms import rounds_beyond
from intarsia.federation.preview import preview
from intarsia.federation.site_settings import LocalSettings, read_settings, write_settings
from intarsia.federation.study_file import Study
from intarsia.privacy.policy import ReleasePolicy


@pytest.fixture
def own_kit(kit):
    """The folder as a participant's kit, without certificates."""
    (kit / "startup").mkdir()
    (kit / "startup" / "fed_client.json").write_text('{"client": {"fqsn": "a"}}')
    (kit / "study.json").write_bytes(msgspec.json.encode(Study("s", ("a", "b"), n_clusters=2)))
    return kit


def previewed(capsys, *words, rc=0):
    with pytest.raises(SystemExit) as end:
        main(["participant", "preview", *map(str, words)])
    said = capsys.readouterr()
    assert end.value.code == rc, said.err
    return said.out if rc == 0 else " ".join(said.err.split())


def test_what_is_not_said_comes_from_the_kit_and_what_is_said_wins(own_kit, capsys):
    mine = LocalSettings(str(own_kit / "data.csv"), ("x", "y"), "patient", release=ReleasePolicy(6, round_counts_to=4))
    write_settings(own_kit / "local", mine)
    (described, _) = json.loads(previewed(capsys, "--kit", own_kit, "--json"))
    assert described["values"]["n_rows"] == 40
    assert "rules: min_cluster_size = 6" in previewed(capsys, "--kit", own_kit)
    said = previewed(capsys, "--kit", own_kit, "--min-cluster-size", 4, "--max-rounds", "any", "--allow-extremes")
    assert 'min_cluster_size = 4, small = "merge", round_counts_to = 4, allow_extremes = true' in said
    assert "These rules let more leave than the default: min_cluster_size, allow_extremes, max_rounds." in said
    assert read_settings(own_kit / "local") == mine  # a preview changes nothing
    (described, _) = json.loads(previewed(capsys, "--kit", own_kit, "--columns", "y", "--json"))
    assert described["values"]["features"] == ["y"]
    assert "an empty name" in previewed(capsys, "--kit", own_kit, "--columns", "y,", rc=1)
    assert "small must be one of" in previewed(capsys, "--kit", own_kit, "--small", "hide", rc=1)
    assert "max_rounds" in previewed(capsys, "--kit", own_kit, "--max-rounds", "many", rc=1)


def test_a_study_that_asks_for_more_than_the_rules_allow_is_noticed_before_anything_leaves(own_kit, capsys):
    study = Study("s", ("a", "b"), n_clusters=2, settings={"scale": "minmax"})
    (own_kit / "study.json").write_bytes(msgspec.json.encode(study))
    said = previewed(capsys, "--kit", own_kit, rc=1)
    assert "your release rules forbid what the study asks for: units 'minmax' need values of single rows" in said
    assert "fewest rows behind one" in previewed(capsys, "--kit", own_kit, "--allow-extremes")
    assert "allow 2" in str(rounds_beyond(FederatedAlgorithm(n_clusters=2), ReleasePolicy(max_rounds=2)))


def test_a_preview_prints_the_very_messages(kit, capsys):
    with pytest.raises(SystemExit) as end:
        main(["participant", "preview", "--table", str(kit / "data.csv"), "--id", "patient", "-k", "2", "--json"])
    assert end.value.code == 0
    messages = json.loads(capsys.readouterr().out)
    assert [message["message"] for message in messages] == ["reply.description", "reply.summary"]
    assert messages[0]["values"]["features"] == ["x", "y"]
    assert {"field": "sizes", "entries": 2, "bytes": 16, "fewest_rows": 20} in messages[1]["fields"]
    with pytest.raises(SystemExit) as end:
        main(["participant", "preview", "--table", str(kit / "data.csv"), "--id", "patient", "--one-shot"])
    assert end.value.code == 0
    assert "fewest rows behind one" in capsys.readouterr().out


def test_a_preview_lists_the_requests_that_are_answered_and_a_participant_may_refuse_some(own_kit, capsys):
    write_settings(own_kit / "local", LocalSettings(str(own_kit / "data.csv"), id_column="patient"))
    said = previewed(capsys, "--kit", own_kit)
    assert 'requests that are answered: method = "federated", n_clusters = 2, max_clusters = 2, seed = 0' in said
    assert "n_rivals = 3, trial_rounds = 4, crosswise = true" in said
    assert "n_rivals is 3 in the study" in previewed(capsys, "--kit", own_kit, "--max-rivals", 2, rc=1)
    assert "refinement = 'plain'" in previewed(capsys, "--kit", own_kit, "--no-crosswise", rc=1)
    study = Study("s", ("a", "b"), n_clusters=2, settings={"refinement": "plain"})
    (own_kit / "study.json").write_bytes(msgspec.json.encode(study))
    assert "n_rivals = 0" in previewed(capsys, "--kit", own_kit, "--no-crosswise", "--max-rivals", 0)


def test_a_kit_from_others_does_not_lower_the_floor_and_the_own_command_does(own_kit, capsys):
    loose = LocalSettings(str(own_kit / "data.csv"), id_column="patient", release=ReleasePolicy(min_cluster_size=1))
    write_settings(own_kit / "local", loose)
    assert "rules: min_cluster_size = 5" in previewed(capsys, "--kit", own_kit)
    assert "rules: min_cluster_size = 2" in previewed(capsys, "--kit", own_kit, "--min-cluster-size", 2)


def test_columns_that_look_like_row_ids_are_named_unless_they_are_said_to_be(tmp_path):
    rows = {"patient": list(range(40)), "x": [0.7 * n for n in range(40)]}
    pl.DataFrame(rows).write_csv(tmp_path / "data.csv")
    study = Study("heart", ("a", "b"), n_clusters=2, settings={"random_state": 0})
    settings = LocalSettings(str(tmp_path / "data.csv"))
    warning = preview(settings, study, "a").warning
    assert "look like row IDs and will be clustered on: 'patient'. Hint: --id patient" in warning
    assert preview(replace(settings, id_column="patient"), study, "a").warning is None
