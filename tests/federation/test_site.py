"""A participant at its site, without any network."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import intarsia
from intarsia.exceptions import InputError, ProtocolError, SettingError
from intarsia.federation.consent import keep
from intarsia.federation.kit_folder import write_study
from intarsia.federation.site import RELEASES, Site
from intarsia.federation.site_settings import FLOOR, LocalSettings, environment_of, read_settings, write_settings
from intarsia.federation.study_file import Study
from intarsia.privacy.journal import LEFT, REFUSED, Journal
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol import (
    Assign,
    Centres,
    Describe,
    Description,
    Failure,
    KeepModel,
    Label,
    Labelled,
    LocalSummary,
    ModelKept,
    Refine,
    Refinement,
    Summarize,
    encode,
)
from tests.federation.conftest import ONE_SHOT

RUN = "0123456789abcdef"


def summarize():
    return Summarize(
        seed=0, n_clusters=2, n_local_clusters=2, max_local_clusters=2, scale="standard", density="gaussian"
    )


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


def test_labels_get_the_names_of_clusters_when_the_model_arrives(kit):
    site = Site("a", kit, RUN)
    site.answer(encode(summarize()))
    site.answer(encode(Assign(groups=np.array([1, 0]), n_groups=2)))
    plain = pl.read_csv(kit / "labels.csv")
    model_of(kit, kit / "plain")
    intarsia.load(kit / "plain").rename({1: "mild"}).save(kit / "named")
    assert isinstance(site.answer(encode(KeepModel(model=(kit / "named").read_bytes()))), ModelKept)
    for path in (kit / "labels.csv", kit / "labels" / f"{RUN}.csv"):
        labels = pl.read_csv(path)
        assert labels.drop("name").equals(plain)
        assert labels["name"].to_list() == ["mild" if k == 1 else "" for k in plain["cluster"]]
        assert path.stat().st_mode & 0o077 == 0


def test_another_run_overwrites_no_labels_of_this_one(kit):
    labels = {}
    for run, groups in ((RUN, [1, 0]), ("f" * 16, [0, 0])):
        keep(kit, f"consent to {run}", is_new_form=True)
        site = Site("a", kit, run)
        site.answer(encode(summarize()))
        site.answer(encode(Assign(groups=np.array(groups), n_groups=2)))
        labels[run] = (kit / "labels.csv").read_text()
    assert labels[RUN] != labels["f" * 16]
    assert {run: (kit / "labels" / f"{run}.csv").read_text() for run in labels} == labels


def test_groups_are_told_once_in_a_run_over_restarts_and_whatever_the_run_is_called(kit):
    first, other = (encode(Assign(groups=np.array(groups), n_groups=2)) for groups in ([0, 1], [1, 1]))
    site = Site("a", kit, RUN)
    site.answer(encode(summarize()))
    for again in (site, site, Site("a", kit, RUN)):
        assert isinstance(again.answer(first), Labelled)
    renamed = Site("a", kit, "f" * 16)
    renamed.answer(encode(summarize()))
    for asked in (site, Site("a", kit, RUN), renamed):
        refused = asked.answer(other)
        assert refused.error == "ReleaseError"
        assert "labels: another such request was answered in this run" in refused.message
    assert ["labels" in entry["why"] for entry in Journal(kit / RELEASES).entries(REFUSED)] == [True] * 3
    keep(kit, "consent", is_new_form=True)
    assert isinstance(Site("a", kit, RUN).answer(other), Failure)  # the first consent changes nothing
    keep(kit, "consent, given anew", is_new_form=True)
    assert isinstance(Site("a", kit, RUN).answer(other), Labelled)


def test_a_site_answers_its_study_and_nothing_else(kit):
    site = Site("a", kit, RUN)
    refused = site.answer(encode(replace(summarize(), seed=7, max_local_clusters=50)))
    assert refused.error == "ReleaseError"
    assert "seed is 7, and the study says 0; max_local_clusters is 50, and the study says 2" in refused.message
    (line,) = Journal(kit / RELEASES).entries(REFUSED)
    assert line["request"] == "query.summarize"
    (kit / "study.json").unlink()
    with pytest.raises(SettingError, match="is not a kit"):  # without a study nothing is answered
        Site("a", kit, RUN)


def test_a_kit_cannot_lower_the_floor_of_a_participant(kit, monkeypatch):
    """A file that others made says 1; the participant's own machine says nothing, or 3."""
    write_settings(kit / "local", LocalSettings(str(kit / "data.csv"), release=ReleasePolicy(min_cluster_size=1)))
    assert read_settings(kit / "local").release.min_cluster_size == 5
    monkeypatch.setenv(FLOOR, "3")
    assert read_settings(kit / "local").release.min_cluster_size == 3
    write_settings(kit / "local", LocalSettings(str(kit / "data.csv"), release=ReleasePolicy(min_cluster_size=8)))
    assert read_settings(kit / "local").release.min_cluster_size == 8
    monkeypatch.setenv(FLOOR, "none")
    with pytest.raises(SettingError, match=FLOOR):
        read_settings(kit / "local")


def test_a_participant_lowers_its_floor_by_its_own_command():
    chosen = LocalSettings(release=ReleasePolicy(min_cluster_size=2))
    assert environment_of(chosen) == {FLOOR: "2"}
    assert environment_of(LocalSettings()) == {}


def test_after_a_restart_a_participant_knows_its_clusters_of_this_run_and_no_other(kit):
    first = Site("a", kit, RUN)
    first.answer(encode(summarize()))
    assign = encode(Assign(groups=np.array([1, 0]), n_groups=2))
    assert encode(Site("a", kit, RUN).answer(assign)) == encode(first.answer(assign))
    assert isinstance(Site("a", kit, "f" * 16).answer(assign), Failure)
    with pytest.raises(ProtocolError):
        Site("a", kit, "../../etc")


def test_labels_by_centroids_need_no_earlier_request_and_repeat_after_a_restart(kit):
    write_study(kit, replace(ONE_SHOT, settings={**ONE_SHOT.settings, "labels": "nearest"}))
    ends = np.array([[0.0, 0.0], [9.0, 9.0]])
    centres = Centres(values=ends, known=ends >= 0, low=ends[0], high=ends[1])
    label = encode(Label(centres=centres, columns=None, spread=False))
    first = Site("a", kit, RUN)
    first.answer(encode(summarize()))
    reply = first.answer(label)
    assert reply.counts is None
    assert reply.squares is None
    assert reply.sizes.sum() == 40
    kept = (kit / "labels.csv").read_text()
    (kit / "labels.csv").unlink()
    assert encode(Site("a", kit, RUN).answer(label)) == encode(reply)
    assert (kit / "labels.csv").read_text() == kept


def test_the_journal_lists_what_is_repeated_also_where_rows_would_tell_something_else_now(kit):
    told = replace(Site("a", kit, RUN).answer(encode(summarize())), clarity=0.5)
    (stored,) = (kit / "intarsia" / f"{RUN}.replies").iterdir()
    stored.write_bytes(encode(told))
    assert encode(Site("a", kit, RUN).answer(encode(summarize()))) == encode(told)
    assert list(Journal(kit / RELEASES).entries(LEFT))[-1]["sha256"] == sha256(encode(told)).hexdigest()


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
    write_study(kit, Study("s", ("a", "b"), n_clusters=1, settings={"scale": "none"}))
    own = LocalSettings(str(kit / "data.csv"), id_column="patient", release=ReleasePolicy(max_rounds=3))
    write_settings(kit / "local", own)
    d = len(Site("a", kit, RUN).answer(encode(Describe())).features)

    def refine(n):
        centres = Centres(
            values=np.full((1, d), float(n)), known=np.ones((1, d), dtype=bool), low=np.zeros(d), high=np.ones(d)
        )
        return encode(Refine(seed=0, round=n, rivals=(centres,), min_points=1, max_iter=1))

    for n in range(1, 4):
        assert isinstance(Site("a", kit, f"{n}" * 16).answer(refine(n)), Refinement)
    assert isinstance(
        Site("a", kit, RUN).answer(refine(1)), Refinement
    )  # the same question once more tells nothing new
    reply = Site("a", kit, "e" * 16).answer(refine(4))
    assert isinstance(reply, Failure)
    assert reply.error == "ReleaseError"


@given(data=st.binary(max_size=200))
def test_anything_but_a_request_is_refused_without_a_crash(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kit")
    (folder / "local").mkdir()
    pl.DataFrame({"x": [1.0, 2.0, 9.0] * 5, "y": [1.0, 2.0, 9.0] * 5}).write_csv(folder / "data.csv")
    write_settings(folder / "local", LocalSettings(str(folder / "data.csv")))
    write_study(folder, ONE_SHOT)
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


def test_the_same_request_gets_the_same_reply_after_a_restart_whatever_was_told_since(kit):
    asked = encode(summarize())
    first = Site("a", kit, RUN).answer(asked)
    assert encode(Site("a", kit, RUN).answer(asked)) == encode(first)
    path = next((kit / "intarsia").glob("*.replies/*"))
    assert path.stat().st_mode & 0o077 == 0
    told = replace(first, sizes=first.sizes[::-1].copy())  # as if another study had changed what may be told
    path.write_bytes(encode(told))
    assert encode(Site("a", kit, RUN).answer(asked)) == encode(told)


def model_of(kit, path, columns=("x", "y")):
    table = pl.read_csv(kit / "data.csv")
    tables = {name: {new: table[old].to_numpy() for old, new in zip("xy", columns, strict=True)} for name in "ab"}
    intarsia.cluster(tables, 2, random_state=0).save(path, public=True)
    return encode(KeepModel(model=path.read_bytes()))


def test_the_public_model_is_kept_in_the_kit_once_in_a_run_and_for_its_owner_alone(kit):
    right, other = model_of(kit, kit / "right"), model_of(kit, kit / "other", ("x", "z"))
    lie = Site("a", kit, RUN).answer(model_of(kit, kit / "lie", ("p", "q")))
    assert lie.error == "ProtocolError"
    assert "no column of this participant" in lie.message
    assert not (kit / "model.intarsia").exists()
    keep(kit, "consent", is_new_form=True)
    keep(kit, "consent, given anew", is_new_form=True)
    for _ in range(2):  # a restarted site, and a file that was lost
        assert isinstance(Site("a", kit, RUN).answer(right), ModelKept)
        assert (kit / "model.intarsia").read_bytes() == (kit / "right").read_bytes()
        assert (kit / "model.intarsia").stat().st_mode & 0o777 == 0o600
        (kit / "model.intarsia").unlink()
    refused = Site("a", kit, RUN).answer(other)
    assert refused.error == "ReleaseError"
    assert "model: another such request was answered in this run" in refused.message
    assert not (kit / "model.intarsia").exists()


def test_a_study_that_shares_no_model_keeps_none(kit):
    write_study(kit, replace(ONE_SHOT, share_model=False))
    refused = Site("a", kit, RUN).answer(model_of(kit, kit / "right"))
    assert "share_model is True, and the study says False" in refused.message
    assert not (kit / "model.intarsia").exists()
