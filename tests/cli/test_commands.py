"""The command line as a user runs it: real files, and a real process wherever one could make a difference.

Loading takes longer than most commands do, so that those which differ by their arguments alone are run in this process.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest

import intarsia

INTARSIA = [sys.executable, "-m", "intarsia.cli"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1"}


def run(*arguments, where, rc=0):
    done = subprocess.run(
        [*INTARSIA, *(a if isinstance(a, bytes) else str(a) for a in arguments)],
        cwd=where,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == rc, done.stderr
    assert "Traceback" not in done.stderr
    return done


def inside(*arguments, where, rc=0, columns=100):
    """The same as :func:`run`, without a process."""
    from intarsia.cli import console, main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    done = SimpleNamespace(returncode=None)
    environment = {**ENVIRONMENT, "COLUMNS": str(columns)}
    with (
        chdir(where),
        redirect_stdout(out),
        redirect_stderr(err),
        patch.dict(os.environ, environment, clear=True),
        patch.object(console.out, "_width", columns),
        patch.object(console.err, "_width", columns),
        warnings.catch_warnings(),
    ):
        warnings.resetwarnings()
        try:
            main([str(a) for a in arguments])
        except SystemExit as ended:
            done.returncode = ended.code or 0
    for stream in (out, err):
        stream.flush()
    done.stdout, done.stderr = out.buffer.getvalue().decode(), err.buffer.getvalue().decode()
    assert done.returncode == rc, done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    for name, columns in {"a": "xyz", "b": "yzw", "c": "zwv"}.items():
        truth = np.arange(60) % 2
        table = pl.DataFrame({column: 6.0 * truth + rng.normal(size=60) for column in columns})
        table = table.with_columns(
            pl.Series("patient", [f"{name}-{k}" for k in range(60)]), pl.Series("sex", np.where(truth > 0, "f", "m"))
        )
        {"a": table.write_csv, "b": table.write_parquet, "c": table.write_excel}[name](
            where / {"a": "a.csv", "b": "b.parquet", "c": "c.xlsx"}[name]
        )
    (where / "apart.tsv").write_text("Q\tP\n1\t2\n3\t4\n")
    return where


FILES = ("a.csv", "b.parquet", "clinic c=c.xlsx")


def test_check_says_yes_and_no(folder):
    yes = inside("check", *FILES, "-x", "patient", where=folder)
    assert "Who sees what" in yes.stdout
    assert "clinic c" in yes.stdout
    assert "Yes" in yes.stdout
    no = run("check", *FILES, "apart.tsv", "-x", "patient", "--json", where=folder, rc=3)
    found = json.loads(no.stdout)
    assert found["possible"] is False
    assert found["parts"] == [["a", "b", "clinic c"], ["apart"]]
    assert found["participants"]["a"]["columns"]["sex"] == "categories"
    ids = json.loads(inside("check", *FILES, "--json", where=folder).stdout)
    assert "60 different" in ids["participants"]["a"]["unusable"]["patient"]


def test_fit_shows_and_keeps_the_stability_of_clusters(folder, tmp_path):
    done = inside(
        "fit", "a.csv", "b.parquet", "-x", "patient", "-k", 2, "--stability", "-o", tmp_path / "s", where=folder
    )
    assert "stability 1.00, smallest " in done.stdout or "stability 0.9" in done.stdout
    assert "cluster  rows  stability  jaccard  dissolved" in done.stdout
    assert json.loads((tmp_path / "s" / "run.json").read_text())["stability"]["cluster"] == [0, 1]
    assert intarsia.load(tmp_path / "s" / "model.intarsia").outcome.stability.smallest > 0.75
    assert "Clusters come back when rows are resampled" in (tmp_path / "s" / "report.html").read_text()


def test_slips_of_the_pen_are_named(folder, tmp_path):
    typo = inside("fit", *FILES, "-k", 2, "-x", "pateint", "--id", "patient", "-o", tmp_path / "s", where=folder, rc=1)
    assert "'pateint'" in typo.stderr
    inside("check", *FILES, "-x", "pateint", where=folder, rc=1)
    both = inside("fit", *FILES, "-k", 2, "-o", tmp_path / "s", where=folder, rc=1)  # ids take part nowhere
    assert all(name in both.stderr for name in ("'a'", "'b'", "'clinic c'"))
    assert "-x" in both.stderr
    assert not (tmp_path / "s").exists()


def test_columns_that_look_like_numbers_of_rows_are_pointed_out(tmp_path):
    rng = np.random.default_rng(0)
    for name in "ab":
        rows = 6.0 * (np.arange(40) % 2) + rng.normal(size=40)
        pl.DataFrame({"number": range(100, 140), "x": rows, "y": rows}).write_csv(tmp_path / f"{name}.csv")
    assert (
        "look like row IDs; exclude them (-x): number (a; b)."
        in inside("check", "a.csv", "b.csv", where=tmp_path).stdout
    )
    done = inside("fit", "a.csv", "b.csv", "-k", 2, "-o", "s", where=tmp_path)
    assert "look like row IDs and will be clustered on: number (a; b)." in done.stderr.replace("\n", " ")
    assert "number" not in inside("fit", "a.csv", "b.csv", "-k", 2, "--id", "number", "-o", "t", where=tmp_path).stderr


def test_encodings_are_told_apart_and_double_headers_are_refused_by_name(tmp_path):
    cells = "größe;x\n1;2\n3;4\n"
    (tmp_path / "latin.csv").write_bytes(cells.encode("latin-1"))
    (tmp_path / "wide.csv").write_bytes(cells.encode("utf-16"))
    (tmp_path / "late.csv").write_bytes(("x,y\n" + "1,2\n" * 50_000).encode() + "ü,3\n".encode("latin-1"))
    (tmp_path / "twice.csv").write_text("x,y,x\n1,2,3\n")
    (tmp_path / "fine.csv").write_bytes(b"\xef\xbb\xbf" + "größe;a,b\n1;2\n3;4\n".encode())
    (tmp_path / "dos.csv").write_bytes(cells.encode("cp850"))
    for name, words in {"latin": "Windows-1252", "wide": "UTF-16", "late": "Windows-1252"}.items():
        lost = 3 if name == "late" else 0  # a text among numbers
        told = json.loads(inside("check", f"{name}.csv", "--json", where=tmp_path, rc=lost).stdout)
        assert words in told["read_as"][name]
    assert "--encoding" in inside("check", "dos.csv", where=tmp_path, rc=1).stderr
    told = json.loads(inside("check", "dos.csv", "--encoding", "cp850", "--json", where=tmp_path).stdout)
    assert set(told["participants"]["dos"]["columns"]) == {"größe", "x"}
    assert "'x (columns 1 and 3)'" in inside("check", "twice.csv", where=tmp_path, rc=1).stderr
    told = json.loads(inside("check", "fine.csv", "--json", where=tmp_path).stdout)
    assert set(told["participants"]["fine"]["columns"]) == {"größe", "a,b"}


def test_fit_writes_a_study_that_explain_and_predict_read(folder, tmp_path):
    study = tmp_path / "study"
    done = run("fit", *FILES, "-k", 2, "--id", "patient", "-o", study, where=folder)
    assert "2 clusters of 180 rows" in done.stdout
    assert "round 1" in done.stderr
    assert sorted(path.name for path in study.iterdir()) == [
        "centroids.csv",
        "labels",
        "model.intarsia",
        "public.intarsia",
        "report.html",
        "report.json",
        "run.json",
    ]
    labels = pl.read_csv(study / "labels" / "clinic c.csv")
    assert labels.columns == ["id", "cluster"]
    assert labels["id"].to_list() == [f"c-{k}" for k in range(60)]
    assert len(set(labels["cluster"].to_list()[::2])) == 1
    record = json.loads((study / "run.json").read_text())
    assert record["settings"]["random_state"] == 0
    assert {exchange["phase"] for exchange in record["exchanges"]} == {"describe", "summarize", "refine", "label"}
    tables = {
        "a": pl.read_csv(folder / "a.csv"),
        "b": pl.read_parquet(folder / "b.parquet"),
        "clinic c": pl.read_excel(folder / "c.xlsx"),
    }
    expected = intarsia.cluster({k: t.drop("patient") for k, t in tables.items()}, 2, random_state=0)
    assert labels["cluster"].to_list() == expected.labels["clinic c"].tolist()
    assert "measured by" in inside("explain", study, where=folder).stdout
    public = intarsia.load(study / "public.intarsia")
    assert isinstance(public, intarsia.PublicModel)
    assert public.predict(tables["clinic c"].drop("patient")).tolist() == labels["cluster"].to_list()
    explained = json.loads(inside("explain", study, "--json", where=folder).stdout)
    assert {"cluster", "feature", "difference", "participants"} <= set(explained[0])
    again = run("predict", study, "c.xlsx", "--id", "patient", where=folder)
    assert again.stdout.splitlines()[0] == "id,cluster"
    assert [int(line.split(",")[1]) for line in again.stdout.splitlines()[1:]] == labels["cluster"].to_list()
    inside("predict", study, "c.xlsx", "--margin", "-o", tmp_path / "new.csv", where=folder)
    assert pl.read_csv(tmp_path / "new.csv").columns == ["row", "cluster", "margin"]
    none = run("predict", study, "c.xlsx", "--none-beyond", "0.5", "--margins", where=folder)
    of_none = [line for line in none.stdout.splitlines() if line.split(",")[1] == "-1"]
    assert 0 < len(of_none) < 60
    assert all(line.endswith(",-1,") for line in of_none)
    assert f"{len(of_none)} of 60 rows have no cluster (-1)." in none.stderr
    none = inside("predict", study, "c.xlsx", "--none-beyond", "0.5", "--margins", "--json", where=folder)
    assert json.loads(none.stdout)["margin"].count(None) == len(of_none)
    assert "cluster 0: mild" in inside("rename", study, "0=mild", where=folder).stderr
    named = inside("predict", study, "c.xlsx", where=folder).stdout.splitlines()
    assert named[0] == "row,cluster,name"
    assert {tuple(line.split(",")[1:]) for line in named[1:]} == {("0", "mild"), ("1", '""')}
    for part in (study / "labels").iterdir():
        own = pl.read_csv(part)
        assert own.columns == ["id", "cluster", "name"]
        assert set(zip(own["cluster"], own["name"], strict=True)) == {(0, "mild"), (1, "")}
    assert "cluster 0 (mild)" in inside("explain", study, where=folder).stdout
    assert json.loads((study / "report.json").read_text())["clusters"][0]["name"] == "mild"
    assert "Cluster 0 (<bdi>mild</bdi>)" in (study / "report.html").read_text()
    assert "mild" in pl.read_csv(study / "centroids.csv")["name"].to_list()
    assert intarsia.load(study / "public.intarsia").cluster_names == {0: "mild"}
    inside("fit", *FILES, "-k", 2, "--id", "patient", "--margins", "-o", tmp_path / "clear", where=folder)
    clear = pl.read_csv(tmp_path / "clear" / "labels" / "clinic c.csv")
    assert clear.columns == ["id", "cluster", "margin"]
    assert clear["cluster"].to_list() == labels["cluster"].to_list()
    assert clear["margin"].to_list() == expected.predict_margin(tables["clinic c"].drop("patient")).tolist()
    inside("rename", study, "0=", where=folder)
    assert {tuple(pl.read_csv(part).columns) for part in (study / "labels").iterdir()} == {("id", "cluster")}
    assert "no cluster '7'" in inside("rename", study, "7=odd", where=folder, rc=1).stderr
    assert "0=mild" in inside("rename", study, "mild", where=folder, rc=1).stderr


def test_fit_merges_robustly_if_told_so(folder, tmp_path):
    inside("fit", *FILES, "-k", 2, "-x", "patient", "--merge", "robust", "-o", tmp_path / "study", where=folder)
    assert json.loads((tmp_path / "study" / "run.json").read_text())["settings"]["merge"] == "robust"
    assert "'robust'" in inside("fit", *FILES, "--merge", "odd", "-o", tmp_path / "other", where=folder, rc=1).stderr


def test_every_kind_of_file_is_read_alike(tmp_path):
    table = pl.DataFrame({"x": [1.5, None, 9.0, 8.5], "y": [1.0, 2.0, 9.0, 9.5], "sex": ["f", "m", "f", None]})
    table.write_csv(tmp_path / "comma.csv")
    table.write_csv(tmp_path / "semicolon.csv", separator=";", null_value="?")
    table.write_csv(tmp_path / "tab.tsv", separator="\t", null_value="NA")
    table.write_parquet(tmp_path / "parquet.parquet")
    table.write_ipc(tmp_path / "feather.feather")
    table.write_ipc(tmp_path / "arrow.arrow")
    table.write_excel(tmp_path / "excel.xlsx")
    names = sorted(path.name for path in tmp_path.iterdir())
    found = json.loads(inside("check", *names, "--json", where=tmp_path).stdout)["participants"]
    assert len(found) == 7
    for entry in found.values():
        assert (entry["rows"], entry["unusable"], entry["like_row_ids"]) == (4, {}, [])
        assert entry["columns"] == {"x": "numbers", "y": "numbers", "sex": "categories"}
    inside("fit", *names, "-k", 2, "-o", tmp_path / "s", where=tmp_path)
    assert len({path.read_text() for path in (tmp_path / "s" / "labels").iterdir()}) == 1


def test_k_is_chosen_without_k_and_a_config_replaces_a_long_line(folder, tmp_path):
    config = folder / "study.toml"
    config.write_text(
        '[participants]\na = "a.csv"\nb = "b.parquet"\n\n[settings]\nmethod = "one_shot"\ndensity = "gaussian_diagonal"\n'
    )
    done = inside("fit", "--config", config, "-x", "patient", "-o", tmp_path / "s", "--json", where=folder)
    record = json.loads(done.stdout)
    assert (record["n_clusters"], record["asked_for"], record["method"]) == (2, "auto", "one_shot")
    assert record["settings"]["density"] == "gaussian_diagonal"
    config.write_text('[settings]\nscale = "none"\nrandom_state = 5\nn_clusters = 3\n')
    said = ("fit", "a.csv", "--config", config, "-x", "patient", "--json", "-o")
    settings = json.loads(inside(*said, tmp_path / "t", where=folder).stdout)
    assert (settings["settings"]["scale"], settings["settings"]["random_state"], settings["n_clusters"]) == (None, 5, 3)
    louder = json.loads(inside(*said, tmp_path / "u", "--scale", "minmax", "--seed", 7, "-k", 2, where=folder).stdout)
    assert (louder["units"], louder["settings"]["random_state"], louder["n_clusters"]) == ("minmax", 7, 2)


def test_a_preset_of_the_line_or_of_a_config_replaces_defaults_and_explicit_settings_win(folder, tmp_path):
    config = folder / "preset.toml"
    config.write_text('[settings]\npreset = "paper"\nstep_size = 0.5\n')
    said = ("fit", *FILES[:2], "-x", "patient", "-x", "sex", "-k", 2, "--json", "-o")
    by_line = json.loads(inside(*said, tmp_path / "s", "--preset", "paper", where=folder).stdout)["settings"]
    by_config = json.loads(inside(*said, tmp_path / "t", "--config", config, where=folder).stdout)["settings"]
    assert (by_line["max_rounds"], by_line["scale"], by_line["step_size"]) == (3, None, 0.8)
    assert by_config == by_line | {"step_size": 0.5}
    wrong = run(*said, tmp_path / "u", "--preset", "papr", where=folder, rc=1)
    assert "preset must be 'paper' or None" in " ".join(wrong.stderr.split())


def test_without_the_extra_it_says_what_to_install(tmp_path):
    without = "import sys; sys.modules['typer'] = None; from intarsia.cli import main; main(['version'])"
    done = subprocess.run([sys.executable, "-c", without], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install '.[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_are_one_message_and_leave_no_trace(folder, tmp_path):
    (folder / "broken.parquet").write_bytes(b"PAR1 not really")
    (folder / "settings.toml").write_text("")
    (folder / "secret.csv").write_text("x,y\n1,Mrs Secret\n2,Mr X\n3,Ms Y\n")
    study = tmp_path / "study"
    cases = {
        ("fit", "nowhere.csv"): "not found",
        ("fit", "broken.parquet"): "cannot be read as parquet",
        ("fit", "a.csv", "a=a.csv"): "more than once",
        ("fit", "settings.toml"): "unsupported file type",
        ("fit", "secret.csv", "-k", "2"): "3 different texts",
        ("fit", "a.csv", "-x", "patient", "-k", "500"): "n_clusters=500",
        ("fit", "a.csv", "--id", "name"): "no table has column 'name'",
        ("fit", "a.csv", "-x", "patient", "--scale", "big"): "scale must be one of",
        ("explain", "a.csv"): "is not a saved study",
        ("predict", "nowhere", "a.csv"): "cannot be read",
    }
    for arguments, text in cases.items():
        extra = ("-o", study) if arguments[0] == "fit" else ()
        done = inside(*arguments, *extra, where=folder, rc=1)
        assert text in done.stderr.replace("\n", " "), arguments
        assert "Secret" not in done.stderr
        assert not study.exists()
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".intarsia")]
    run("fit", "nowhere.csv", "-o", study, where=folder, rc=1)
    run("fit", "--no-such-option", where=folder, rc=2)
    debug = subprocess.run(
        [*INTARSIA, "fit", "nowhere.csv", "--debug"],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" in debug.stderr


def test_a_study_that_is_there_is_replaced_only_by_force(folder, tmp_path):
    study = tmp_path / "study"
    inside("fit", "a.csv", "-x", "patient", "-k", 2, "-o", study, "-q", where=folder)
    before = (study / "run.json").read_text()
    assert "already exists" in inside("fit", "a.csv", "-x", "patient", "-k", 3, "-o", study, where=folder, rc=1).stderr
    assert (study / "run.json").read_text() == before
    inside("fit", "a.csv", "-x", "patient", "-k", 3, "-o", study, "--force", "-q", where=folder)
    assert json.loads((study / "run.json").read_text())["n_clusters"] == 3
    assert [path.name for path in tmp_path.iterdir()] == ["study"]


def test_a_folder_of_other_files_is_never_replaced(folder, tmp_path):
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter.txt").write_text("years of work")
    arguments = ("fit", "a.csv", "-x", "patient", "-k", 2, "-q", "--force", "-o")
    assert "not only a study" in inside(*arguments, precious, where=folder, rc=1).stderr.replace("\n", " ")
    inside(*arguments[:-2], "-o", tmp_path / "study", where=folder)
    (tmp_path / "study" / "my notes.txt").write_text("also precious")
    assert "not only a study" in inside(*arguments, tmp_path / "study", where=folder, rc=1).stderr.replace("\n", " ")
    assert (precious / "chapter.txt").exists()
    assert (tmp_path / "study" / "my notes.txt").exists()
    nowhere = tmp_path / "study" / "run.json" / "x"
    assert "cannot be written" in inside(*arguments[:-2], "-o", nowhere, where=folder, rc=1).stderr.replace("\n", " ")
    missing = ("predict", tmp_path / "study", "a.csv", "-o", tmp_path / "nowhere" / "x.csv")
    assert "cannot be written" in inside(*missing, where=folder, rc=1).stderr.replace("\n", " ")


def test_interrupted_it_leaves_nothing(tmp_path):
    rng = np.random.default_rng(0)
    for name in "ab":
        pl.DataFrame(rng.normal(size=(30_000, 20)), schema=[f"f{k}" for k in range(20)]).write_csv(
            tmp_path / f"{name}.csv"
        )
    process = subprocess.Popen(
        [*INTARSIA, "fit", "a.csv", "b.csv", "-o", "study"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:  # in the middle of it
        if "how many clusters" in line:
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 130
    assert "nothing was written" in rest
    assert "Traceback" not in rest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.csv"]


PRESSING = """
import importlib, json, os, signal, sys
from intarsia.cli import interrupts, main
for function, arguments in json.loads(sys.argv[1]):
    where, _, name = function.rpartition(".")
    module = importlib.import_module(f"intarsia.cli.{where}")
    real = getattr(module, name)
    def pressed(*given, real=real, **named):
        os.kill(os.getpid(), signal.SIGINT)
        return real(*given, **named)
    setattr(module, name, pressed)
    try:
        main(arguments)
    except SystemExit as ended:
        print(ended.code)
    setattr(module, name, real)
    sys.stderr.write("\\0")
    interrupts._written.clear()
"""


def press_at(*commands, where):
    """Run commands, one after the other, and press Ctrl-C just as each calls the function named before it."""
    said = [(function, [str(argument) for argument in arguments]) for function, *arguments in commands]
    done = subprocess.run(
        [sys.executable, "-c", PRESSING, json.dumps(said)],
        cwd=where,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.split() == ["130"] * len(commands), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.replace("\n", "").split("\0")[:-1]


def test_interrupted_it_says_what_is_there(folder, tmp_path):
    study = tmp_path / "study"
    fit = ("fit", "a.csv", "-x", "patient", "-q", "-o", study, "-k")
    nothing = "interrupted; nothing was written. Run the same command to start again."
    early = press_at(("fit.tables_of", *fit, 2), ("study_folder._write_labels", *fit, 2), where=folder)
    assert early == [nothing, nothing]
    assert list(tmp_path.iterdir()) == []
    # too late: what has begun to take its place takes it
    late = press_at(
        ("study_folder._replace", *fit, 2), ("study_folder._write_labels", *fit, 3, "--force"), where=folder
    )
    assert late == [f"interrupted, but {study.resolve()} was already written and is complete.", nothing]
    assert json.loads((study / "run.json").read_text())["n_clusters"] == 2
    forced, *others = press_at(
        ("study_folder._replace", *fit, 3, "--force"),
        ("predict._show", "predict", study, "a.csv", "-o", tmp_path / "new.csv"),
        ("check.show", "check", "a.csv"),
        where=folder,
    )
    assert "was already written" in forced
    assert json.loads((study / "run.json").read_text())["n_clusters"] == 3
    assert all(text.endswith(nothing) for text in others)
    assert [path.name for path in tmp_path.iterdir()] == ["study"]


def test_interrupted_while_it_is_loaded_it_says_so_too(tmp_path):
    code = (
        "import sys\nfrom intarsia.cli import main\n"
        "class Press:\n    def find_spec(self, name, *_):\n        if name == 'rich':\n            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Press())\nmain(['version'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        130,
        "interrupted; nothing was written. Run the same command to start again.\n",
    )


COMMANDS = (
    "check",
    "fit",
    "join",
    "predict",
    "explain",
    "rename",
    "share",
    "report",
    "demo",
    "datasets",
    "doctor",
    "schema",
    "version",
    "federation",
    "participant",
)
JOINING = ("join-request", "approve", "join", "invite", "add", "keys", "renew", "certificates", "exclude", "admit")
SEVERAL = {
    "federation": ("init", "start", "run", "status", "result", *JOINING),
    "participant": ("preview", "renew", "serve", "budget", "label", "extract"),
}


def test_every_command_has_help_with_an_example_in_80_columns(tmp_path):
    inner = [f"{command} {part}" for command, parts in SEVERAL.items() for part in parts]
    for command in ("", *COMMANDS, *inner):
        done = inside(*command.split(), "--help", where=tmp_path, columns=80)
        lines = [line.strip() for line in done.stdout.splitlines()]
        assert max(map(len, lines)) <= 80
        assert [line for line in lines if line.startswith(f"Example: intarsia {command}")], command
        assert not re.search(
            r"with  and|\[/", done.stdout
        )  # brackets that were taken for markup, or markup for brackets
    assert json.loads(run("version", "--json", where=tmp_path).stdout)["intarsia"] == intarsia.__version__
    assert "heart_disease" in inside("datasets", where=tmp_path).stdout


def test_help_and_how_to_name_every_command_and_exit_code(tmp_path):
    top = " ".join(run("--help", where=tmp_path).stdout.split())
    page = (Path(__file__).parents[2] / "docs/how-to/command-line.md").read_text()
    assert "[columns] and" in " ".join(inside("fit", "--help", where=tmp_path).stdout.split())
    for text in (top, page.replace("`", "")):
        codes = " ".join(text.partition("Exit codes:")[2].split())
        assert codes.startswith(
            "0 done, 1 an error in the input or the run, 2 an error in the command line, 3 check or doctor says no"
        )
        assert all(command in text for command in COMMANDS)


def completed(*lines, where):
    """What bash would offer for the last word of each line, by the script that ``--show-completion`` prints."""
    script = (
        'eval "$(intarsia --show-completion)"; complete -p intarsia >&2\n'
        'for line in "$@"; do IFS=, read -r -a COMP_WORDS <<< "$line"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n'
        '[ -z "${line##*,}" ] && COMP_CWORD=$((COMP_CWORD + 1)) && COMP_WORDS+=("")\n'
        'COMPREPLY=(); _intarsia_completion intarsia; echo "${COMPREPLY[@]}"; done'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", *lines],
        cwd=where,
        env={**ENVIRONMENT, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    # where nothing is offered, bash completes names of files
    assert done.stderr == "complete -o default -F _intarsia_completion intarsia\n"
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_and_options(folder):
    lines = ("intarsia,", "intarsia,f", "intarsia,participant,", "intarsia,fit,a.csv,--o", "intarsia,fit,-o,st")
    top, f, inner, option, file = completed(*lines, where=folder)
    assert set(top) == set(COMMANDS)
    assert set(f) == {"fit", "federation"}
    assert set(inner) == set(SEVERAL["participant"])
    assert option == ["--one-shot", "--output"]
    assert file == []


def test_help_and_completion_load_no_mathematics():
    code = "import sys, intarsia.cli.app\nprint([name for name in ('sklearn', 'scipy', 'narwhals') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_hostile_names_are_text(tmp_path):
    name = "[red]x[/red] " + "é" * 50
    pl.DataFrame({name: [1.0, 2.0, 9.0, 10.0], "y": [1.0, 2.0, 9.0, 10.0]}).write_csv(tmp_path / "[bold]a.csv")
    assert "[red]x[/red]" in inside("check", "[bold]a.csv", where=tmp_path).stdout.replace("\n", "")
    inside("fit", "[bold]a.csv", "-k", 2, "-o", "s", where=tmp_path)
    assert (tmp_path / "s" / "labels" / "[bold]a.csv").exists()
    assert Path(tmp_path / "s" / "centroids.csv").read_text().count(name) == 2
    hostile = "[red]:smile:\x1b[2J"
    pl.DataFrame({hostile: [1.0, 2.0], "z": [1.0, 2.0]}).write_csv(tmp_path / "h.csv")
    for done in (
        inside("check", f"{hostile}=h.csv", where=tmp_path),
        inside("fit", "h.csv", "--id", "y", where=tmp_path, rc=1),
    ):
        assert "[red]:smile:�[2J" in done.stdout + done.stderr
        assert "\x1b" not in done.stdout + done.stderr
