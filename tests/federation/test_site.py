"""A participant's own side of a federation, without any network."""

from __future__ import annotations

import json
from hashlib import sha256

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from intarsia.cli import main
from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.exceptions import InputError, ProtocolError, SettingError
from intarsia.federation.algorithms import as_json, check_rules, digest_of, from_json, rounds_beyond
from intarsia.federation.settings_file import looser
from intarsia.federation.site import RELEASES, Site
from intarsia.federation.site_settings import LocalSettings, read_settings, write_settings
from intarsia.federation.study_file import Study, read_study
from intarsia.privacy.journal import LEFT, Journal
from intarsia.privacy.policy import OPEN, ReleasePolicy
from intarsia.protocol import (
    Assign,
    Centres,
    Describe,
    Description,
    Failure,
    Labelled,
    LocalSummary,
    Refine,
    Refinement,
    Summarize,
    encode,
)

RUN = "0123456789abcdef"


@pytest.fixture
def kit(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 2)) + 9 * (np.arange(40) % 2)[:, None]
    table = pl.DataFrame({"patient": [f"p{n}" for n in range(40)], "x": values[:, 0], "y": values[:, 1]})
    table.write_csv(tmp_path / "data.csv")
    (tmp_path / "local").mkdir()
    write_settings(tmp_path / "local", LocalSettings(str(tmp_path / "data.csv"), id_column="patient"))
    return tmp_path


def summarize():
    return Summarize(
        seed=0, n_clusters=2, n_local_clusters=2, max_local_clusters=5, scale="standard", density="gaussian"
    )


def test_settings_survive_writing(tmp_path):
    said = LocalSettings(
        '/d/ö "x".csv',
        ("a", 'b"'),
        "id",
        "HDBSCAN(min_cluster_size=20)",
        "drop",
        "manhattan",
        ReleasePolicy(9, "withhold", 3, max_rounds=None),
    )
    write_settings(tmp_path, said)
    assert read_settings(tmp_path) == said
    for wrong, why in (
        ('tabel = "x"', "tabel"),
        ("[release]\nmin_size = 3", "unknown rules: 'min_size'. Known rules: min_cluster_size"),
        ('[release]\nmin_cluster_size = "3"', "release.*Expected `int`, got `str`.*min_cluster_size"),
        ("[release]\nmin_cluster_size = 0", "min_cluster_size must be a whole number from 1"),
        ('[release]\nsmall = "hide"', "small must be one of"),
        ("release = 5", "must be a table of rules"),
    ):
        (tmp_path / "intarsia.toml").write_text(wrong)
        with pytest.raises(SettingError, match=why):
            read_settings(tmp_path)


@pytest.mark.parametrize(
    "local",
    [
        "GaussianMixture(n_components=2)",
        "KMedoids(n_clusters=2, metric='euclidean')",
        "HDBSCAN(min_cluster_size=8, copy=True)",
        "sklearn.cluster.Birch(n_clusters=2)",
    ],
)
def test_a_site_clusters_with_any_clusterer_that_its_settings_name(local, kit):
    write_settings(kit / "local", LocalSettings(str(kit / "data.csv"), id_column="patient", local=local))
    reply = Site("a", kit, RUN).answer(encode(summarize()))
    assert isinstance(reply, LocalSummary), reply
    assert sorted(reply.sizes) == [20, 20]


def test_labels_stay_in_the_kit_beside_the_ids(kit):
    site = Site("a", kit, RUN)
    assert isinstance(site.answer(encode(summarize())), type(site.answer(encode(summarize()))))
    reply = site.answer(encode(Assign(groups=np.array([1, 0]), n_groups=2)))
    assert isinstance(reply, Labelled)
    labels = pl.read_csv(kit / "labels.csv")
    assert labels.columns == ["id", "cluster"]
    assert labels["id"].to_list() == [f"p{n}" for n in range(40)]
    assert np.bincount(labels["cluster"]).tolist() == reply.sizes.tolist()


def test_another_run_overwrites_no_labels_of_this_one(kit):
    labels = {}
    for run, groups in ((RUN, [1, 0]), ("f" * 16, [0, 0])):
        site = Site("a", kit, run)
        site.answer(encode(summarize()))
        site.answer(encode(Assign(groups=np.array(groups), n_groups=2)))
        labels[run] = (kit / "labels.csv").read_text()
    assert labels[RUN] != labels["f" * 16]
    assert {run: (kit / "labels" / f"{run}.csv").read_text() for run in labels} == labels


def test_groups_are_told_as_often_as_a_study_needs_and_no_more(kit):
    own = LocalSettings(str(kit / "data.csv"), id_column="patient", release=ReleasePolicy(max_rounds=3))
    write_settings(kit / "local", own)
    site = Site("a", kit, RUN)
    site.answer(encode(summarize()))
    replies = [site.answer(encode(Assign(groups=np.array([0, n]), n_groups=n + 1))) for n in range(7)]
    assert [isinstance(reply, Labelled) for reply in replies] == [True] * 5 + [False] * 2
    assert replies[-1].error == "ReleaseError"


def test_after_a_restart_a_participant_knows_its_clusters_of_this_run_and_no_other(kit):
    first = Site("a", kit, RUN)
    first.answer(encode(summarize()))
    assign = encode(Assign(groups=np.array([1, 0]), n_groups=2))
    assert encode(Site("a", kit, RUN).answer(assign)) == encode(first.answer(assign))
    assert isinstance(Site("a", kit, "f" * 16).answer(assign), Failure)
    with pytest.raises(ProtocolError):
        Site("a", kit, "../../etc")


def test_a_site_refuses_a_reply_that_is_larger_than_one_message(kit):
    reply = Site("a", kit, RUN, max_bytes=100).answer(encode(summarize()))
    assert isinstance(reply, Failure)
    assert "bytes is larger than the 100 of one message" in reply.message
    assert [entry["reply"] for entry in Journal(kit / RELEASES).entries(LEFT)] == ["reply.failure"]


def test_the_journal_lists_each_reply_once_with_the_digest_of_the_bytes_that_leave(kit):
    site = Site("a", kit, RUN)
    replies = [site.answer(data) for data in (encode(Describe()), b"rows", encode(summarize()))]
    entries = list(Journal(kit / RELEASES).entries(LEFT))
    assert [entry["sha256"] for entry in entries] == [sha256(encode(reply)).hexdigest() for reply in replies]
    assert [entry["request"] for entry in entries] == ["query.describe", None, "query.summarize"]
    Site("a", kit, RUN).answer(encode(Assign(groups=np.array([1, 0]), n_groups=2)))
    requests = [entry["request"] for entry in Journal(kit / RELEASES).entries(LEFT)]
    assert requests[3:] == ["query.assign"]  # clustered again after a restart, but that summary did not leave


def test_rounds_are_capped_over_all_runs_of_a_study_and_across_restarts(kit):
    """Whoever asks says which run it is; another name must not be a way to ask more."""
    own = LocalSettings(str(kit / "data.csv"), id_column="patient", release=ReleasePolicy(max_rounds=3))
    write_settings(kit / "local", own)
    d = len(Site("a", kit, RUN).answer(encode(Describe())).features)

    def refine(n):
        centres = Centres(
            values=np.full((1, d), float(n)), known=np.ones((1, d), dtype=bool), low=np.zeros(d), high=np.ones(d)
        )
        return encode(Refine(seed=0, round=n, rivals=(centres,), min_points=1, max_iter=1))

    for n in range(3):
        assert isinstance(Site("a", kit, f"{n}" * 16).answer(refine(n)), Refinement)
    assert isinstance(
        Site("a", kit, RUN).answer(refine(1)), Refinement
    )  # the same question once more tells nothing new
    reply = Site("a", kit, "e" * 16).answer(refine(3))
    assert isinstance(reply, Failure)
    assert reply.error == "ReleaseError"


@given(data=st.binary(max_size=200))
def test_anything_but_a_request_is_refused_without_a_crash(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kit")
    (folder / "local").mkdir()
    pl.DataFrame({"x": [1.0, 2.0, 9.0] * 5, "y": [1.0, 2.0, 9.0] * 5}).write_csv(folder / "data.csv")
    write_settings(folder / "local", LocalSettings(str(folder / "data.csv")))
    reply = Site("a", folder, RUN).answer(data)
    assert isinstance(reply, Failure)
    assert reply.error == "ProtocolError"


def test_chosen_columns_take_part_and_a_missing_one_is_named(kit):
    write_settings(kit / "local", LocalSettings(str(kit / "data.csv"), ("y",)))
    reply = Site("a", kit, RUN).answer(encode(Describe()))
    assert isinstance(reply, Description)
    assert reply.features == ("y",)
    write_settings(kit / "local", LocalSettings(str(kit / "data.csv"), ("z",)))
    with pytest.raises(InputError, match="'z'"):
        Site("a", kit, RUN)


@pytest.mark.parametrize("algorithm", [FederatedAlgorithm(n_clusters=None, seed=3), OneShotAlgorithm(n_clusters=2)])
def test_an_algorithm_survives_the_way_to_the_server(algorithm):
    sent = json.loads(json.dumps(as_json(algorithm)))
    assert from_json(sent) == algorithm
    assert digest_of(sent, ("a", "b")) == digest_of(as_json(algorithm), ("b", "a"))


@pytest.mark.parametrize(
    "what", [None, {}, {"method": "os", "settings": {}}, {"method": "federated", "settings": {"x": 1}}]
)
def test_a_job_that_names_no_algorithm_is_refused(what):
    with pytest.raises(ProtocolError):
        from_json(what)


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


@pytest.mark.parametrize(
    ("method", "settings", "why"),
    [
        ("federated", {"scale": "minmax"}, "units 'minmax' need values of single rows"),
        ("one_shot", {"density": "discrete"}, "discrete densities"),
        ("one_shot", {"bounding_boxes": True, "force": "sampled"}, "bounding boxes"),
        ("federated", {"release": {}}, "a table of its own"),
    ],
)
def test_a_study_whose_rules_forbid_its_settings_is_refused(method, settings, why):
    study = Study("s", ("a", "b"), method, 2, settings=settings)
    with pytest.raises(SettingError, match=why):
        check_rules(study)
    if "release" not in settings:
        check_rules(replace(study, release=ReleasePolicy(allow_extremes=True, allow_discrete=True)))


def test_more_rounds_than_are_allowed_are_a_warning():
    warning = check_rules(Study("s", ("a", "b"), n_clusters=2, release=ReleasePolicy(max_rounds=3)))
    assert warning.startswith("the study takes up to 20 rounds, and the release rules allow 3")


def test_rules_that_let_out_more_than_usual_are_named():
    assert looser(ReleasePolicy(9, "withhold", 3, max_rounds=3)) == []
    assert looser(OPEN) == [
        "min_cluster_size",
        "allow_extremes",
        "allow_discrete",
        "allow_any_covariance",
        "max_rounds",
    ]


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
