"""A participant's own side of a federation, without any network."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import HDBSCAN

from intarsia.algorithms import FederatedAlgorithm, OneShotAlgorithm
from intarsia.cli import main
from intarsia.exceptions import InputError, ProtocolError, SettingError
from intarsia.messages import Assign, Describe, Description, Failure, Labelled, Summarize, encode
from intarsia.runtime.flare.site import LocalSettings, Site, local_algorithm, read_settings, write_settings
from intarsia.runtime.flare.study import as_json, digest_of, from_json, read_study

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
    said = LocalSettings('/d/ö "x".csv', ("a", 'b"'), "id", "HDBSCAN(min_cluster_size=20)", "drop", "manhattan", 5)
    write_settings(tmp_path, said)
    assert read_settings(tmp_path) == said
    (tmp_path / "intarsia.toml").write_text('tabel = "x"')
    with pytest.raises(SettingError, match="tabel"):
        read_settings(tmp_path)


def test_only_clusterers_of_scikit_learn_by_name_are_local_algorithms():
    assert isinstance(local_algorithm("HDBSCAN(min_cluster_size=20)"), HDBSCAN)
    assert local_algorithm(None) is None
    for text in (
        "__import__('os').system('x')",
        "os",
        "HDBSCAN(open('x'))",
        "HDBSCAN(20)",
        "k_means",
        "Nothing()",
        "1 +",
    ):
        with pytest.raises(SettingError, match="must be a clusterer"):
            local_algorithm(text)


def test_labels_stay_in_the_kit_beside_the_ids(kit):
    site = Site("a", kit, RUN)
    assert isinstance(site.answer(encode(summarize())), type(site.answer(encode(summarize()))))
    reply = site.answer(encode(Assign(groups=np.array([1, 0]), n_groups=2)))
    assert isinstance(reply, Labelled)
    labels = pl.read_csv(kit / "labels.csv")
    assert labels.columns == ["id", "cluster"]
    assert labels["id"].to_list() == [f"p{n}" for n in range(40)]
    assert np.bincount(labels["cluster"]).tolist() == reply.sizes.tolist()


def test_after_a_restart_a_participant_knows_its_clusters_of_this_run_and_no_other(kit):
    first = Site("a", kit, RUN)
    first.answer(encode(summarize()))
    assign = encode(Assign(groups=np.array([1, 0]), n_groups=2))
    assert encode(Site("a", kit, RUN).answer(assign)) == encode(first.answer(assign))
    assert isinstance(Site("a", kit, "f" * 16).answer(assign), Failure)
    with pytest.raises(ProtocolError):
        Site("a", kit, "../../etc")


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
        ("participants = []\nname = 's'", "named"),
        ("participants = ['a', 'a']\nname = 's'", "each once"),
        ("participants = ['a/b']\nname = 's'", "cannot be used"),
        ("participants = ['server']\nname = 's'", "cannot be used"),
        ("participants = ['a']\nname = 's'\nmethod = 'x'", "method must be"),
        ("participants = ['a']\nname = 's'\nquorum = 1", "mean nothing"),
        ("participants = 3\nname = 's'", "participants"),
        ("x", "not TOML"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(text, why, tmp_path):
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(InputError, match=why):
        read_study(tmp_path / "study.toml")


def test_a_preview_prints_the_very_messages(kit, capsys):
    with pytest.raises(SystemExit) as end:
        main(["participant", "preview", "--table", str(kit / "data.csv"), "--id", "patient", "-k", "2", "--json"])
    assert end.value.code == 0
    messages = json.loads(capsys.readouterr().out)
    assert [message["message"] for message in messages] == ["reply.description", "reply.summary"]
    assert messages[0]["values"]["features"] == ["x", "y"]
    assert {"field": "sizes", "entries": 2, "fewest_rows": 20} in messages[1]["fields"]
    with pytest.raises(SystemExit) as end:
        main(["participant", "preview", "--table", str(kit / "data.csv"), "--id", "patient", "--one-shot"])
    assert end.value.code == 0
    assert "fewest rows behind one" in capsys.readouterr().out
