"""Invitations: what a newcomer agrees to is what it is asked, and a job carries the model exactly."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import intarsia
from intarsia.exceptions import InputError, ProtocolError, SettingError
from intarsia.federation.algorithms import algorithm_of, as_json, from_json, terms_for
from intarsia.federation.invitation import add_to, invitation, joining, write_invitation
from intarsia.federation.study_file import Study, check_study, read_study
from intarsia.results import model_file
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime
from intarsia.runtime.processes import Joining
from intarsia.tables.frame import read_table

ROWS = {"x": [0.0, 1, 0, 1, 9, 8, 9, 8], "y": [0.0, 1, 1, 0, 9, 8, 8, 9]}
LATE = {"x": [0.0, 1, 1, 9, 9, 8], "z": [5.0, 6, 5, 7, 8, 7]}


def study_and_result(**chosen):
    settings = {"random_state": 3} | chosen
    method = settings.pop("method", "federated")
    study = Study("s", ("p", "q"), method=method, n_clusters=2, settings=settings)
    return study, intarsia.cluster({"p": ROWS, "q": ROWS}, 2, method=method, **settings)


@pytest.mark.parametrize(
    "chosen",
    [{}, {"scale": "standard"}, {"model": "mixture"}, {"method": "one_shot"}, {"feature_weights": {"x": 2.0}}],
    ids=str,
)
def test_a_newcomer_is_asked_what_it_agreed_to_and_gets_the_labels_of_one_process(chosen, tmp_path):
    study, result = study_and_result(**chosen)
    write_invitation(tmp_path / "new.study.toml", invitation(study, result.outcome, "new"))
    invited = read_study(tmp_path / "new.study.toml")
    algorithm, _ = joining(invited, result.outcome)
    terms = terms_for(invited, "new")
    assert algorithm.terms("new") == terms
    assert (terms.n_rivals, terms.crosswise, terms.halves, terms.stability) == (0, False, False, False)
    again = from_json(json.loads(json.dumps(as_json(algorithm))))
    one = Joining(
        read_table(LATE, "new"), None, "euclidean", "observed", intarsia.ReleasePolicy(min_cluster_size=1), terms
    )
    participant = one.participant()
    late = drive(again, InProcessRuntime([participant]))
    joined = result.join({"new": LATE})
    np.testing.assert_array_equal(participant.labels, joined.labels["new"])
    np.testing.assert_array_equal(late.model.values, joined.outcome.model.values)
    assert late.participants == ("new",)


def test_the_file_of_a_newcomer_is_added_to_that_of_the_study(tmp_path):
    study, result = study_and_result()
    invited = invitation(study, result.outcome, "new")
    algorithm, _ = joining(invited, result.outcome)
    one = Joining(
        read_table(LATE, "new"), None, "euclidean", "observed", intarsia.ReleasePolicy(1), algorithm.terms("new")
    )
    late = drive(algorithm, InProcessRuntime([one.participant()]))
    result.save(tmp_path / "study.intarsia")
    run = replace(result.run, exchanges=(), sent=(), audited={}, differences={})
    model_file.save(tmp_path / "late.intarsia", late, late.model.space.names, run)
    add_to(tmp_path / "study.intarsia", tmp_path / "late.intarsia", tmp_path / "both" / "model.intarsia")
    both = intarsia.load(tmp_path / "both" / "model.intarsia")
    assert both.outcome.participants == ("p", "q", "new")
    assert both.feature_names == ("x", "y", "z")
    assert list(both.run.joined) == ["new"]
    np.testing.assert_array_equal(both.predict(ROWS), result.labels["p"])


def test_who_is_there_already_and_other_models_are_refused():
    study, result = study_and_result()
    with pytest.raises(InputError, match="part of the model already: 'p'"):
        invitation(study, result.outcome, "p")
    with pytest.raises(SettingError, match="name"):
        invitation(study, result.outcome, "no name")
    invited = invitation(study, result.outcome, "new")
    other = intarsia.cluster({"p": ROWS, "q": ROWS}, 3, random_state=0)
    with pytest.raises(SettingError, match="another model"):
        joining(invited, other.outcome)
    with pytest.raises(SettingError, match="no newcomer"):
        joining(study, result.outcome)
    with pytest.raises(SettingError, match="one participant"):
        check_study(Study("s", ("a", "b"), joins=True))


@pytest.mark.parametrize(
    "change",
    [
        lambda job: job.update(into="?"),
        lambda job: job.update(into=job["into"][:80]),
        lambda job: job.pop("into"),
        lambda job: job.update(secure={"min_holders": 2}),
        lambda job: job["settings"].update(n_clusters=3),
        lambda job: job["settings"].update(n_clusters=None),
        lambda job: job["settings"].update(unknown=1),
    ],
)
def test_a_job_that_was_changed_is_refused(change):
    study, result = study_and_result()
    job = as_json(joining(invitation(study, result.outcome, "new"), result.outcome)[0])
    change(job)
    with pytest.raises(ProtocolError):
        from_json(job)


def test_the_consent_form_of_others_does_not_change():
    study, result = study_and_result()
    assert not study.joins
    assert algorithm_of(study)[0].n_local_clusters == {"p": None, "q": None}
    assert terms_for(invitation(study, result.outcome, "new"), "new").n_local_clusters is None
