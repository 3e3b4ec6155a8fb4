"""New rows are labelled at home, with the public model alone."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import intarsia
from intarsia.cli.app import main
from intarsia.federation.site_settings import LocalSettings, write_settings


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 60)) + 9 * (np.arange(60) % 2)
    result = intarsia.cluster({"a": {"x": x[0], "y": x[1]}, "b": {"x": x[1]}}, 2, random_state=0)
    result.save(tmp_path / "public.intarsia", public=True)
    rows = pl.DataFrame({"patient": [f"p{n}" for n in range(30)], "x": x[0, ::2], "unknown": x[1, ::2]})
    rows.write_parquet(tmp_path / "new.parquet")
    return tmp_path, result.predict({"x": x[0, ::2]}).tolist()


def label(*arguments, code=0):
    with pytest.raises(SystemExit) as done:
        main(["participant", "label", *map(str, arguments)])
    assert done.value.code == code


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_new_rows_are_labelled_with_a_public_model_and_a_file(folder, suffix, capsys):
    where, expected = folder
    out = where / f"labels{suffix}"
    label("--model", where / "public.intarsia", "--table", where / "new.parquet", "--id", "patient", "-o", out)
    labels = (pl.read_csv if suffix == ".csv" else pl.read_parquet)(out)
    assert labels["cluster"].to_list() == expected
    assert labels["id"].to_list()[:2] == ["p0", "p1"]
    assert out.stat().st_mode & 0o777 == 0o600
    assert "unknown" in capsys.readouterr().err


def test_the_kit_names_model_table_and_ids(folder, capsys):
    where, expected = folder
    kit = where / "kit"
    (kit / "local").mkdir(parents=True)
    (kit / "startup").mkdir()
    (kit / "startup" / "fed_client.json").write_text('{"client": {"fqsn": "a"}}')
    write_settings(kit / "local", LocalSettings(str(where / "new.parquet"), id_column="patient"))
    label("--kit", kit, code=1)
    assert "--model" in capsys.readouterr().err
    (kit / "model.intarsia").write_bytes((where / "public.intarsia").read_bytes())
    label("--kit", kit, "-o", where / "labels.csv")
    assert pl.read_csv(where / "labels.csv")["cluster"].to_list() == expected
    (kit / "startup" / "fed_server.json").write_text("{}")
    label("--kit", kit, code=1)
    assert "not a participant's" in capsys.readouterr().err


def test_a_table_is_read_as_the_kit_says_and_rows_that_are_like_no_cluster_are_none(folder):
    where, expected = folder
    kit = where / "kit"
    (kit / "local").mkdir(parents=True)
    (kit / "startup").mkdir()
    (kit / "startup" / "fed_client.json").write_text('{"client": {"fqsn": "a"}}')
    (kit / "model.intarsia").write_bytes((where / "public.intarsia").read_bytes())
    rows = pl.read_parquet(where / "new.parquet")
    lines = [f"{name};{x:.6f}".replace(".", ",") for name, x in rows.select("patient", "x").iter_rows()]
    table = where / "neu.csv"
    table.write_bytes("\n".join(["Schl\xfcssel;Wert", *lines, "pX;1000,5"]).encode("latin-1"))
    own = LocalSettings(str(table), id_column="Schlüssel", decimal=",", encoding="latin-1", rename={"Wert": "x"})
    write_settings(kit / "local", own)
    label("--kit", kit, "--none-beyond", 0.99, "--margins", "-o", where / "labels.csv")
    written = pl.read_csv(where / "labels.csv")
    ordinary = written["cluster"][:-1].to_numpy()
    assert (ordinary == expected).mean() >= 0.9
    assert set(ordinary.tolist()) <= {-1, *expected}
    assert (written["cluster"][-1], written["margin"][-1]) == (-1, None)


def test_what_is_missing_is_named(folder, capsys):
    where, _ = folder
    label(code=1)
    assert "no model was given" in capsys.readouterr().err
    label("--model", where / "public.intarsia", code=1)
    assert "no table was given" in capsys.readouterr().err


def test_an_existing_file_is_replaced_by_force_and_a_folder_is_a_model(folder, capsys):
    where, expected = folder
    (where / "study").mkdir()
    (where / "study" / "model.intarsia").write_bytes((where / "public.intarsia").read_bytes())
    words = ("--model", where / "study", "--table", where / "new.parquet", "-o", where / "labels.csv")
    label(*words)
    label(*words, code=1)
    assert "--force" in capsys.readouterr().err
    label(*words, "--force")
    assert pl.read_csv(where / "labels.csv")["cluster"].to_list() == expected
    label("--model", where, "--table", where / "new.parquet", code=1)
    assert "model.intarsia was not found" in capsys.readouterr().err.replace("\n", "")


def test_a_table_is_read_as_options_say_without_a_kit_and_before_the_kit(folder):
    where, expected = folder
    x = pl.read_parquet(where / "new.parquet")["x"]
    table = where / "neu.csv"
    table.write_bytes(
        "\n".join(["Größe;Tag", *(f"{v:.6f};1.2.2020".replace(".", ",", 1) for v in x)]).encode("latin-1")
    )
    kit = where / "kit"
    (kit / "local").mkdir(parents=True)
    (kit / "startup").mkdir()
    (kit / "startup" / "fed_client.json").write_text('{"client": {"fqsn": "a"}}')
    write_settings(kit / "local", LocalSettings(str(table), decimal=".", encoding="utf-8"))
    how = ("--decimal", ",", "--encoding", "latin-1", "--rename", "Größe=x", "--dates", "Tag=2020-01-01")
    for given in (("--table", table), ("--kit", kit)):
        out = where / f"{len(given[0])}.csv"
        label("--model", where / "public.intarsia", *given, *how, "-o", out)
        assert pl.read_csv(out)["cluster"].to_list() == expected
