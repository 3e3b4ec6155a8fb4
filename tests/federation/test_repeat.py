"""A study that is repeated in the same kits: terms, jobs, runs, and the files that stay at a site."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import intarsia
from intarsia import ReleasePolicy
from intarsia.exceptions import ProtocolError, ReleaseError, SettingError
from intarsia.federation.algorithms import algorithm_of, as_json, digest_of, from_json, terms_for
from intarsia.federation.kit_folder import write_study
from intarsia.federation.site import Site
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.federation.study_file import Previous, Study, check_study
from intarsia.protocol import Failure, encode
from intarsia.runtime.drive import exception_of

NAMES = ("north", "south", "west")
STUDY = Study("registry", NAMES, n_clusters=3, previous=Previous())


def tables(shares=(1, 1, 1, 0), seed=0):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(3).normal(0.0, 6.0, (4, 4))
    found = {}
    for i, name in enumerate(NAMES):
        rows = centres[rng.choice(4, 80, p=np.array(shares) / sum(shares))] + rng.normal(size=(80, 4))
        found[name] = {f"c{m}": rows[:, m] for m in range(4) if m != i}
    return found


def add_kits(folder, given, study=STUDY):
    for name, table in given.items():
        kit = folder / name
        (kit / "local").mkdir(parents=True, exist_ok=True)
        pl.DataFrame(table).write_csv(kit / "data.csv")
        release = ReleasePolicy(max_rounds_per="month")
        write_settings(kit / "local", LocalSettings(str(kit / "data.csv"), release=release))
        write_study(kit, study)


def run(folder, algorithm):
    description = as_json(algorithm)
    name_of_run = digest_of(description, NAMES)
    algorithm = from_json(description)
    sites = {name: Site(name, folder / name, name_of_run) for name in NAMES}
    step = algorithm.start(NAMES)
    while step.result is None:
        replies = {name: sites[name].answer(encode(request)) for name, request in step.requests.items()}
        for reply in replies.values():
            if isinstance(reply, Failure):
                raise exception_of(reply)
        step = algorithm.advance(step.state, replies)
    return step.result


def model_file(path, outcome, given):
    """The model as the analyst would have it."""
    result = intarsia.cluster(given, 3, random_state=0)
    object.__setattr__(result, "outcome", outcome)
    result.save(path)


def test_a_study_is_repeated_in_the_same_kits_and_numbers_stay(tmp_path):
    given = tables()
    add_kits(tmp_path, given)
    first = run(tmp_path, algorithm_of(STUDY)[0])
    assert first.repeat is None
    model_file(tmp_path / "march.intarsia", first, given)
    again = run(tmp_path, algorithm_of(STUDY, tmp_path / "march.intarsia")[0])
    assert again.repeat.unchanged
    assert again.repeat.n_changed == 0
    assert [path.read_text() for path in sorted(tmp_path.glob("*/labels.csv"))] == [
        path.read_text() for path in sorted(tmp_path.glob("*/labels/*.csv"))
    ][1::2]
    more = tables((0, 0, 0, 1), 9)
    later = {name: {c: np.append(x, more[name][c][:40]) for c, x in given[name].items()} for name in NAMES}
    add_kits(tmp_path, later)  # rows were added, with a new cluster
    model_file(tmp_path / "april.intarsia", again, given)
    grown = run(tmp_path, algorithm_of(STUDY, tmp_path / "april.intarsia")[0])
    assert not grown.repeat.of("gone") + grown.repeat.of("new")  # three clusters were agreed
    small = np.array(grown.repeat.moves)
    assert small[small > 0].min() >= ReleasePolicy().min_cluster_size


def test_participants_that_did_not_agree_refuse_a_repeat(tmp_path):
    given, plain = tables(), Study("registry", NAMES, n_clusters=3)
    add_kits(tmp_path, given, plain)
    model_file(tmp_path / "march.intarsia", run(tmp_path, algorithm_of(plain)[0]), given)
    with pytest.raises(SettingError, match="have not agreed"):
        algorithm_of(plain, tmp_path / "march.intarsia")
    with pytest.raises(ReleaseError, match="the study says 3"):
        run(tmp_path, algorithm_of(STUDY, tmp_path / "march.intarsia")[0])


def test_terms_say_that_a_study_repeats_and_older_studies_keep_their_runs():
    assert terms_for(STUDY, "north").previous
    plain = Study("registry", NAMES, n_clusters=3)
    assert not terms_for(plain, "north").previous
    assert not {"previous", "repeats"} & set(as_json(algorithm_of(plain)[0])["settings"])


def test_a_job_carries_the_previous_model_to_the_last_digit_and_refuses_a_broken_one(tmp_path):
    intarsia.cluster(tables(), 3, random_state=0).save(tmp_path / "m.intarsia")
    algorithm = algorithm_of(STUDY, tmp_path / "m.intarsia")[0]
    description = as_json(algorithm)
    assert from_json(description).previous == algorithm.previous
    description["settings"]["previous"]["shift"] = [0.0]
    with pytest.raises(ProtocolError, match="settings that the algorithm does not have"):
        from_json(description)


@pytest.mark.parametrize("wrong", [{"method": "one_shot"}, {"secure_sums": True}])
def test_what_cannot_be_repeated_is_refused_in_a_study_file(wrong):
    settings = {"method": "federated", "previous": Previous()} | wrong
    with pytest.raises(SettingError, match="previous"):
        check_study(Study("registry", NAMES, **settings))
