"""Tables as hospitals export them, through the commands: what check says is what fit does."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from tests.cli.test_commands import inside, run


@pytest.fixture
def folder(tmp_path):
    """A German and an Italian export, and an English one."""
    rng = np.random.default_rng(3)
    for name in ("nord", "sued", "west"):
        far = np.repeat([0.0, 8.0], 30)
        rows = [20 + far + rng.normal(size=60), 900 + 40 * far + rng.normal(size=60), rng.integers(0, 90, 60)]
        texts = [f"{a:.2f};{b:.1f};{1 + int(d) % 28:02d}.0{1 + int(d) % 9}.2021" for a, b, d in zip(*rows, strict=True)]
        lines = [f"P{name[0]}{k:03d};{text}" for k, text in enumerate(texts)]
        text = "\r\n".join(["Patient;Größe;CRP;Aufnahme", *lines]) + "\r\n"
        path = tmp_path / f"{name}.csv"
        body = "\r\n".join(
            line.rsplit(";", 1)[0].replace(".", ",") + ";" + line.rsplit(";", 1)[1]
            for line in text.strip().split("\r\n")
        )
        if name == "nord":
            path.write_bytes((body + "\r\n").encode("cp1252"))
        elif name == "sued":
            path.write_bytes(("\ufeff" + body.replace("Patient", "pid") + "\r\n").encode())
        else:
            path.write_bytes(text.replace(";", "\t").encode("utf-16"))
    return tmp_path


FILES = ("nord.csv", "sued.csv", "west.csv")


def test_exports_of_three_countries_fit_as_check_says(folder):
    done = inside("check", *FILES, "--id", "Patient", "--id", "sued=pid", where=folder)
    told = done.stdout.replace("\n", " ")
    assert "nord is read as Windows-1252; separated by semicolons; decimal comma in 'Größe', 'CRP'." in told
    assert "sued is read as separated by semicolons; decimal comma" in told
    assert "west is read as UTF-16; separated by tabs." in told
    assert "Columns of dates become days with --dates Aufnahme=2000-01-01, or are excluded with -x: Aufnahme" in told
    assert "Yes, without the columns that cannot be used ('Aufnahme')" in told
    ids = ("--id", "Patient", "--id", "sued=pid", "--dates", "Aufnahme=2021-01-01")
    assert "Yes: all participants have the same columns" in inside("check", *FILES, *ids, where=folder).stdout
    done = run("fit", *FILES, *ids, "-k", 2, "-o", "study", where=folder)
    assert "nord is read as Windows-1252" in done.stderr.replace("\n", " ")
    for name in ("nord", "sued", "west"):
        labels = pl.read_csv(folder / "study/labels" / f"{name}.csv")
        assert labels["id"].to_list() == [f"P{name[0]}{k:03d}" for k in range(60)]
        assert len(set(labels["cluster"][:30])) == len(set(labels["cluster"][30:])) == 1
    options = ("--id", "Patient", "--dates", "Aufnahme=2021-01-01")
    inside("predict", "study", "nord.csv", *options, "-o", "again.csv", where=folder)
    assert pl.read_csv(folder / "again.csv").equals(pl.read_csv(folder / "study/labels/nord.csv"))
    refused = inside("fit", *FILES, "--id", "Patient", "-k", 2, "-o", "no", where=folder, rc=1).stderr.replace(
        "\n", " "
    )
    assert "'Aufnahme' of 'nord' (dates)" in refused
    assert "--dates" in refused
    assert "coerce" not in refused


def test_what_is_open_is_a_no_with_the_option_to_give_in_check_and_in_fit(folder):
    (folder / "a.csv").write_text("x;y\n" + "".join(f"{k % 9 + 1},{k * 7 % 900 + 100};{k}\n" for k in range(40)))
    (folder / "b.csv").write_text("x,y\n" + "".join(f"{k / 7},{k * k}\n" for k in range(1, 40)))
    told = inside("check", "a.csv", "b.csv", where=folder, rc=3).stdout.replace("\n", " ")
    assert "1,234 may be 1.234 or 1234, and the cells do not decide: x (a:" in told
    assert "--decimal 'a=,' (1.234) or --decimal 'a=.' (1234)" in " ".join(told.split())
    assert "No, not yet: 'a' would lose numbers, those of 'x'." in " ".join(told.split())
    refused = inside("fit", "a.csv", "b.csv", "-k", 2, where=folder, rc=1).stderr
    assert "--decimal 'a=,' (1.234) or --decimal 'a=.' (1234)" in " ".join(refused.split())
    for sign, most in ((",", 10.0), (".", 9999.0)):
        done = inside("check", "a.csv", "b.csv", "--decimal", f"a={sign}", "--json", where=folder)
        assert json.loads(done.stdout)["possible"]
        inside("fit", "a.csv", "b.csv", "--decimal", f"a={sign}", "-k", 2, "-o", "s", "--force", "-q", where=folder)
        means = pl.read_csv(folder / "s/centroids.csv").filter(pl.col("feature") == "x")["mean"]
        assert (means.max() > 100) == (most > 100)


def test_options_name_participants_and_columns_that_exist(folder):
    for arguments, text in {
        ("--decimal", "ost=,"): "there is no participant 'ost'",
        ("--decimal", ";"): "decimal must be ',' or '.'",
        ("--decimal", ",", "--decimal", "."): "given twice for all participants",
        ("--encoding", "nord=klingon"): "encoding 'klingon' is unknown",
        ("--dates", "Aufnahme"): "a column and a day",
        ("--dates", "Aufnahme=gestern"): "counted from a day",
        ("--dates", "Entlassung=2021-01-01"): "in no table: 'Entlassung'",
        ("--id", "Nummer"): "no table has column 'Nummer'",
        ("--id", "ost=Nummer"): "there is no participant 'ost' (there are 'nord', 'sued",
        ("--id", "Patient", "--id", "pid"): "given twice for all participants. Hint: --id nord=pid",
        ("--id", "nord=Nummer"): "has no column 'Nummer'",
    }.items():
        for command in ("check", "fit"):
            done = inside(command, *FILES, *arguments, where=folder, rc=1)
            assert text in " ".join(done.stderr.split()), arguments


def test_a_config_renames_columns_of_each_participant_for_check_and_fit(folder):
    (folder / "fit.toml").write_text(
        '[participants]\nnord = "nord.csv"\nsued = "sued.csv"\n[columns.nord]\n"Größe" = "height"\n'
        '[columns.sued]\n"Größe" = "height"\npid = "Patient"\n[settings]\nn_clusters = 2\n'
    )
    told = json.loads(inside("check", "--config", "fit.toml", "--id", "Patient", "--json", where=folder).stdout)
    assert set(told["participants"]["nord"]["columns"]) == {"height", "CRP"}
    inside("fit", "--config", "fit.toml", "--id", "Patient", "-x", "Aufnahme", "-o", "s", where=folder)
    assert set(pl.read_csv(folder / "s/centroids.csv")["feature"]) == {"height", "CRP"}
    inside("predict", "s", "nord.csv", "--rename", "Größe=height", "--id", "Patient", "-o", "l.csv", where=folder)
    assert pl.read_csv(folder / "l.csv").equals(pl.read_csv(folder / "s/labels/nord.csv"))
    with_config = ("predict", "s", "nord=nord.csv", "--config", "fit.toml", "--id", "Patient", "-o", "l.csv")
    assert "--force" in inside(*with_config, where=folder, rc=1).stderr
    (folder / "l.csv").write_text("")
    inside(*with_config, "--force", where=folder)
    assert pl.read_csv(folder / "l.csv").equals(pl.read_csv(folder / "s/labels/nord.csv"))
    unnamed = inside("predict", "s", "new=nord.csv", "--config", "fit.toml", where=folder, rc=1).stderr
    assert "names no participant 'new', but 'nord', 'sued'" in " ".join(unnamed.split())
    for path in ("nord.csv", folder / "nord.csv"):
        own = inside("predict", "s", "nord.csv", "-o", path, "--force", where=folder, rc=1).stderr
        assert "is the file of new rows" in " ".join(own.split())
    for text, said in {
        '[columns.ost]\na = "b"\n': "no table: 'ost'",
        '[columns.nord]\nGewicht = "weight"\n': "has no column 'Gewicht', which should be renamed",
        '[columns.nord]\n"Größe" = "CRP"\n': "two columns 'CRP'",
        '[columns]\nnord = "b"\n': "a table for each participant",
    }.items():
        (folder / "bad.toml").write_text('[participants]\nnord = "nord.csv"\n' + text)
        assert said in " ".join(inside("fit", "--config", "bad.toml", where=folder, rc=1).stderr.split())


def test_new_names_of_several_columns_are_given_one_by_one(folder):
    given = ("--table", "nord.csv", "--rename", "Größe=height,CRP=crp")
    done = inside("participant", "preview", *given, where=folder, rc=1)
    assert "--rename takes one column" in done.stderr
    assert "repeat --rename" in done.stderr


def test_preview_reads_the_table_as_its_owner_says_and_the_words_stand_in_the_terms(folder):
    from intarsia.federation.preview import preview
    from intarsia.federation.site_settings import LocalSettings, read_settings, write_settings
    from intarsia.federation.study_file import Study

    given = ("--table", "nord.csv", "--id", "Patient", "--dates", "Aufnahme=2021-01-01", "--rename", "Größe=height")
    done = inside("participant", "preview", *given, "--decimal", ",", where=folder)
    assert "nord.csv is read as Windows-1252; separated by semicolons; decimal comma" in " ".join(done.stderr.split())
    assert "height" in done.stdout
    settings = LocalSettings(
        str(folder / "nord.csv"),
        id_column="Patient",
        decimal=",",
        dates={"Aufnahme": "2021-01-01"},
        rename={"Größe": "height"},
    )
    write_settings(folder, settings)
    assert read_settings(folder) == settings
    seen = preview(settings, Study("s", ("a", "b"), "federated", 2), "a")
    assert seen.terms["columns"] == ["height", "CRP", "Aufnahme"]
    assert "days since 2021-01-01 in 'Aufnahme'" in seen.terms["reading"]


def test_a_large_csv_file_is_read_in_batches_and_gives_the_result_of_the_same_rows_as_parquet(tmp_path, monkeypatch):
    from tests.cli import test_commands

    rng = np.random.default_rng(5)
    rows = rng.normal(size=(4000, 3)).round(3) + 9.0 * rng.integers(3, size=4000)[:, None]
    table = pl.DataFrame(rows, schema=["x", "y", "z"]).with_columns(
        id=pl.Series([f"{k:05d}" for k in range(4000)]), ward=pl.Series(["a", "b"] * 2000)
    )
    table.write_parquet(tmp_path / "p.parquet")
    texts = table.with_columns(pl.col("x", "y", "z").cast(pl.String).str.replace(".", ",", literal=True))
    texts.write_csv(tmp_path / "c.csv", separator=";")
    monkeypatch.setitem(test_commands.ENVIRONMENT, "INTARSIA_MEMORY_LIMIT", "1000")
    for name in ("p.parquet", "c.csv"):
        done = inside("fit", f"clinic={name}", "-k", 3, "--id", "id", "-o", name[0], where=tmp_path)
        assert "is read in batches: 4,000 rows." in done.stderr
    parquet, text = (tmp_path / name / "labels/clinic.csv" for name in "pc")
    assert parquet.read_text() == text.read_text()
    assert parquet.read_text().splitlines()[8].startswith("00007,")
    assert (tmp_path / "p/centroids.csv").read_text() == (tmp_path / "c/centroids.csv").read_text()


def test_hints_on_the_command_line_name_its_options_and_what_the_column_needs(folder):
    rows = "".join(f"{k}.5;{k},5;{k % 3}\n" if k % 2 else f"{k}.5;{k}.5;{k % 3}\n" for k in range(40))
    (folder / "mixed.csv").write_text("x;y;z\n" + rows)
    said = inside("fit", "mixed.csv", "-k", 2, where=folder, rc=1).stderr
    assert "write all numbers of the column with the same decimal sign" in said
    (folder / "unit.csv").write_text("x;y\n" + "".join(f"{k}.5;{k}.5 mg\n" for k in range(40)))
    said += inside("fit", "unit.csv", "-k", 2, where=folder, rc=1).stderr
    assert "write a number, or leave the cell blank" in said
    assert not any(word in said for word in ("pandas", "scan_csv", "drop ids"))
    (folder / "wide.csv").write_text("x,y,z\n" + "".join(f"{k},{k % 7},{k * k * 900}\n" for k in range(40)))
    said = inside("fit", "wide.csv", "-k", 2, "--scale", "none", where=folder).stderr
    assert "Hint: --scale standard if units differ." in said
    said = inside("participant", "preview", "--table", "mixed.csv", where=folder, rc=1).stderr
    assert "column(s) of 'mixed'" in said
