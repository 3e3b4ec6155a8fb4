"""``intarsia share`` writes a public model without what one participant alone has."""

from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia.cli.app import main


@pytest.fixture
def study(tmp_path):
    x = np.random.default_rng(0).normal(size=(3, 60)) + 9 * (np.arange(60) % 2)
    result = intarsia.cluster({"north": {"x": x[0], "own": x[1]}, "south": {"x": x[2]}}, 2, random_state=0)
    result.save(tmp_path / "model.intarsia")
    return tmp_path


def share(*arguments, code=0):
    with pytest.raises(SystemExit) as done:
        main(["share", *map(str, arguments)])
    assert done.value.code == code


def test_what_one_participant_alone_has_is_hidden_unless_asked_for(study, capsys):
    out = study / "heart.intarsia"
    share(study, "-o", out)
    public = intarsia.load(out)
    assert public.min_holders == 2
    assert np.isnan(public.centroids[:, public.feature_names.index("own")]).all()
    assert b"south" not in out.read_bytes()
    assert "hidden (fewer than 2 participants have them): 'own'" in capsys.readouterr().err
    share(study, "-o", out, code=1)
    assert "--force" in capsys.readouterr().err
    share(study / "model.intarsia", "-o", out, "--min-holders", 1, "--force")
    assert intarsia.load(out).n_hidden == 0


def test_a_public_model_is_no_study(study, capsys):
    share(study, "-o", study / "p.intarsia")
    share(study / "p.intarsia", "-o", study / "q.intarsia", code=1)
    assert "is a public model" in capsys.readouterr().err
