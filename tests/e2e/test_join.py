"""A newcomer joins a finished study while the sites of all others are off."""

from __future__ import annotations

import json
import shutil

import numpy as np
import polars as pl
import pytest

pytest.importorskip("nvflare")
pytest.importorskip("psutil")

import intarsia
from tests.e2e.federations import Federation

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]
CENTRES = np.array([[0.0, 0, 0, 0], [9, 9, 9, 9], [0, 9, 18, 9]])


def table(columns, seed, n=30):
    rng = np.random.default_rng(seed)
    rows = np.vstack([centre + rng.normal(size=(n, 4)) for centre in CENTRES])
    return pl.DataFrame({name: rows[:, k] for k, name in enumerate("abcd") if name in columns})


def everything(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_newcomer_joins_while_the_others_are_off_and_nothing_leaves_them(tmp_path):
    tables = {"p": table("abc", 1), "q": table("abc", 2)}
    late = table("bcd", 3)
    with Federation(tmp_path, tables, k=3) as federation:
        federation.wait_connected()
        assert federation.begin().wait() == 0, federation.log()
        for name in tables:
            federation.kill(name)
        federation.command("federation", "result", "--kit", "kits/analyst", "-o", "again", check=True)
        before = {name: everything(tmp_path / "kits" / name) for name in tables}
        told = {name: (tmp_path / f"{name}.parquet.told").read_bytes() for name in tables}

        where = ("--kit", "kits/analyst", "--study", "study")
        asked = federation.command("federation", "invite", "new", *where, "--authority", "kits/authority")
        assert asked.returncode == 0, asked.stderr
        late.write_parquet(tmp_path / "new.parquet")
        federation.agree("new")
        form = (tmp_path / "new.consent.toml").read_text()
        assert "joins = true" in form
        assert "n_rivals = 0 " in form
        federation.names.append("new")
        federation.start("new")
        federation.wait_connected(["new"])
        done = federation.command("federation", "add", "new.study.toml", *where, "-o", "study2")
        assert done.returncode == 0, done.stderr + federation.log("new") + federation.log("server")
        labels = federation.labels("new")
        at_site = everything(tmp_path / "kits" / "new")
        fetched = federation.command("federation", "result", "--kit", "kits/analyst", "-o", "third", check=True)
        assert fetched.returncode == 0

    assert {name: everything(tmp_path / "kits" / name) for name in tables} == before
    assert {name: (tmp_path / f"{name}.parquet.told").read_bytes() for name in tables} == told
    first, joined = intarsia.load(tmp_path / "study/model.intarsia"), intarsia.load(tmp_path / "study2/model.intarsia")
    in_process = first.join({"new": late}, release=intarsia.ReleasePolicy())
    np.testing.assert_array_equal(labels, in_process.labels["new"])
    np.testing.assert_array_equal(joined.centroids, in_process.centroids)
    assert joined.feature_names == ("a", "b", "c", "d")
    assert list(joined.run.joined) == ["new"]
    n = len(first.run.exchanges)
    assert joined.run.exchanges[:n] == first.run.exchanges
    assert all(set(exchange.bytes_out) == {"new"} for exchange in joined.run.exchanges[n:])
    for name, rows in tables.items():
        np.testing.assert_array_equal(joined.predict(rows), federation.labels(name))
    # the site of the newcomer was not given the model, but for centroids on its own columns
    assert not [path for path in at_site if "config_fed_server" in path]
    # the result of the study is still that of the study
    assert intarsia.load(tmp_path / "third/model.intarsia").outcome.participants == ("p", "q")


def test_an_invitation_is_refused_for_who_is_there_already_and_for_another_model(tmp_path):
    tables = {"p": table("abc", 1), "q": table("abc", 2)}
    federation = Federation(tmp_path, tables, k=3)
    result = intarsia.cluster(tables, 3, random_state=0)
    (tmp_path / "study").mkdir()
    result.save(tmp_path / "study/model.intarsia")
    where = ("--kit", "kits/analyst", "--study", "study")
    refused = federation.command("federation", "invite", "q", *where)
    assert refused.returncode == 1
    assert "part of the model already: 'q'" in refused.stderr
    assert federation.command("federation", "invite", "new", *where, check=True)
    shutil.rmtree(tmp_path / "study")
    (tmp_path / "study").mkdir()
    intarsia.cluster(tables, 2, random_state=0).save(tmp_path / "study/model.intarsia")
    other = federation.command("federation", "add", "new.study.toml", *where, "-o", "study2")
    assert other.returncode == 1
    assert "another model" in other.stderr
    assert not json.loads(json.dumps(sorted(path.name for path in tmp_path.glob("study2"))))
