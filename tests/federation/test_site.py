"""A participant at its site, without any network."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.exceptions import InputError, ProtocolError
from intarsia.federation.site import RELEASES, Site
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.privacy.journal import LEFT, Journal
from intarsia.privacy.policy import ReleasePolicy
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


def summarize():
    return Summarize(
        seed=0, n_clusters=2, n_local_clusters=2, max_local_clusters=5, scale="standard", density="gaussian"
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
