# ruff: noqa: DTZ001
"""Extracts of a real PostgreSQL: what is read, what is refused, and what is left after a failure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.extract import LIMIT, measure

from intarsia._files import write_atomically
from intarsia.exceptions import InputError, IntarsiaError, OutputError, SettingError
from intarsia.federation.consent import check_form, form_of
from intarsia.federation.extracts import check_agreed
from intarsia.federation.preview import preview
from intarsia.federation.site_settings import LocalSettings
from intarsia.federation.study_file import Study
from intarsia.tables import postgresql
from intarsia.tables.extract import extract_in, write_extract
from intarsia.tables.postgresql import check_address
from tests.databases import SECRET, environment, server

CANARY = "Kanarienvogel"
TABLE = f"""
create type mood as enum ('sad', 'well');
create table patient as select g as id, (g * 1.37)::numeric(10, 2) as crp, (20 + g % 60)::smallint as age,
  g % 2 = 0 as treated, ('x' || g % 3)::char(5) as ward, date '2020-01-01' + g as seen,
  timestamptz '2020-01-01 12:00+02' + g * interval '1 hour' as at, '{CANARY}' || g as name, g / 7.0 as ratio
from generate_series(1, 150000) g;
create table odd (id int, huge numeric, nothing numeric, e mood, u uuid, r real, d date, t timestamp,
  n int);
insert into odd values (1, 1234567890.12345678, 'NaN', 'well', '00000000-0000-0000-0000-00000000000a', 0.5,
  'infinity', '-infinity', null),
  (2, 0.000000000000000001, 2.5, null, null, null, '2020-02-01', '2020-02-01 06:00', 3);
create table broken as select g as id, case when g = 140000 then '{CANARY}' else '1' end as text
from generate_series(1, 150000) g;
create role reader login password '{SECRET}';
grant select on odd to reader;
create table secret (id int, name text); insert into secret values (1, '{CANARY}');
"""
PATIENTS = "select id, crp, age, treated, ward, seen, at, ratio from patient order by id"


@pytest.fixture(scope="module")
def db():
    with server() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", SECRET)
        running.run(TABLE)
        yield running


@pytest.fixture
def extract(db, tmp_path):
    def call(query, name="a.parquet", url=None):
        (tmp_path / "cohort.sql").write_text(query)
        return write_extract(tmp_path / "cohort.sql", db.url() if url is None else url, tmp_path / name)

    return call


def nothing_is_left(folder):
    return sorted(path.name for path in folder.iterdir()) == ["cohort.sql"]


def test_rows_types_metadata_and_permissions(extract, tmp_path):
    written = extract(PATIENTS + "; -- the cohort")
    path = tmp_path / "a.parquet"
    assert path.stat().st_mode & 0o777 == 0o600
    table = pl.read_parquet(path)
    assert table["id"].to_list() == list(range(1, 150_001))
    assert table["crp"][:3].to_list() == [1.37, 2.74, 4.11]
    np.testing.assert_allclose(table["ratio"], np.arange(1, 150_001) / 7.0, rtol=1e-15)
    assert (table["ward"][0], table["treated"][1], table["age"][0]) == ("x1", True, 21)
    assert table["seen"][0] == date(2020, 1, 2)
    assert table["at"][0].replace(tzinfo=None) == datetime(2020, 1, 1, 11)
    found = extract_in(path)
    assert found == written.extract
    assert (found.n_rows, found.query) == (150_000, PATIENTS + "; -- the cohort")
    assert datetime.fromisoformat(found.extracted).tzinfo is not None
    assert written.numeric == ("crp", "ratio")
    assert set(written.rounded) == {"ratio"}
    again = extract(PATIENTS + "; -- the cohort", "b.parquet")
    assert again.extract.rows_sha256 == found.rows_sha256
    assert extract(PATIENTS + " desc", "c.parquet").extract.rows_sha256 != found.rows_sha256
    group = pq.read_metadata(path)
    assert [group.row_group(k).num_rows for k in range(group.num_row_groups)] == [16384] * 9 + [150_000 % 16384]


def test_what_a_number_or_a_date_cannot_hold_is_counted(extract, tmp_path):
    written = extract("select * from odd order by id")
    table = pl.read_parquet(tmp_path / "a.parquet")
    assert table["huge"].to_list() == [float(Decimal("1234567890.12345678")), 1e-18]
    assert table["nothing"].to_list() == [None, 2.5]
    assert table["e"].to_list() == ["well", None]
    assert table["u"].to_list() == ["00000000-0000-0000-0000-00000000000a", None]
    assert table["d"].to_list() == [None, date(2020, 2, 1)]
    assert table["t"].to_list() == [None, datetime(2020, 2, 1, 6)]
    assert (written.rounded, written.infinite) == ({"huge": 1}, {"d": 1, "t": 1})


def test_a_database_in_another_encoding_gives_the_same_texts(db, extract, tmp_path):
    db.run("create database latin encoding 'LATIN1' locale 'C' template template0")
    db.run("create table ort (id int, name text); insert into ort values (1, 'Köln'), (2, 'Forlì');", "latin")
    extract("select * from ort order by id", url=db.url("latin"))
    assert pl.read_parquet(tmp_path / "a.parquet")["name"].to_list() == ["Köln", "Forlì"]


FAILURES = {
    "select * from patient": "no ORDER BY",
    "select * from nix order by 1": "names a table that does not exist",
    "select nix from patient order by 1": "names a column that does not exist",
    "select * frm patient order by 1": "syntax error",
    f"select '{CANARY}'::int as x order by 1": r"a value cannot be converted .*SQLSTATE 22P02",
    "select name::int as x from patient order by id": r"reading rows failed: a value cannot .*SQLSTATE 22P02",
    "select id, text::int as x from broken order by id": r"reading rows failed: a value cannot .*SQLSTATE 22P02",
    "select id, 1 / (140000 - id) as x from broken order by id": r"reading rows failed: .* divides by zero .*SQLSTATE 22012",
    "select 1 / 0 as x order by 1": r"the query failed: the query divides by zero .*SQLSTATE 22012",
    "select id::smallint as x from patient order by id": r"a number is too large for its type .*SQLSTATE 22003",
    "select id from patient where false order by id": "selects no rows",
    "select array[id] as a, '1 day'::interval as i from patient order by id": r"'a \(_int4\)', 'i \(interval\)'",
    "select id, id from patient order by 1": "occur more than once: 'id .columns 1 and 2.'",
    "select pg_terminate_backend(pg_backend_pid()) as x order by 1": "SQLSTATE 57P01|connection was lost|reading rows",
    "select nextval('s') as x from (select 1) t order by 1": "names a table that does not exist",
}


@pytest.mark.parametrize("query", FAILURES)
def test_a_failure_says_what_it_is_about_quotes_no_cell_and_leaves_no_file(extract, tmp_path, query, caplog, capfd):
    with pytest.raises(IntarsiaError, match=FAILURES[query]) as error:
        extract(query)
    assert nothing_is_left(tmp_path)
    shown = "".join(traceback.format_exception(error.value)) + caplog.text + "".join(capfd.readouterr())
    assert CANARY not in shown.replace(query, "")
    assert error.value.__context__ is None or CANARY not in str(error.value.__context__)


def test_nothing_can_be_written_even_by_a_function(db, extract, tmp_path):
    db.run("create function put() returns int language sql as $$ insert into secret values (2, 'x') returning 1 $$")
    with pytest.raises(InputError, match="tries to write, and the transaction only reads"):
        extract("select put() as x order by 1")
    assert db.run("select count(*) from secret") == "1"
    assert nothing_is_left(tmp_path)


def test_all_rows_are_of_one_moment(db, extract, tmp_path, monkeypatch):
    db.run("create table growing as select g as id, 1 as v from generate_series(1, 200000) g")
    rows = postgresql._rows

    def slow(*opened):
        for k, batch in enumerate(rows(*opened)):
            if k == 1:
                db.run("update growing set v = 2; insert into growing values (200001, 2)")
            yield batch

    monkeypatch.setattr(postgresql, "_rows", slow)
    assert extract("select * from growing order by id").extract.n_rows == 200_000
    assert pl.read_parquet(tmp_path / "a.parquet")["v"].unique().to_list() == [1]


def test_a_connection_that_is_ended_in_the_middle(db, extract, tmp_path, monkeypatch):
    rows, ended = postgresql._rows, []

    def cut(*opened):
        for k, batch in enumerate(rows(*opened)):
            if k == 1:
                ended.append(db.run("select pg_terminate_backend(pid) from pg_stat_activity where query like 'COPY%'"))
            yield batch

    monkeypatch.setattr(postgresql, "_rows", cut)
    query = "select g as id, repeat('y', 500) as pad from generate_series(1, 400000) g order by g"
    with pytest.raises(InputError, match="reading rows failed: the (connection was lost|database was shut)") as error:
        extract(query)
    assert ended == ["t"]
    assert nothing_is_left(tmp_path)
    assert "yyy" not in str(error.value)


def test_a_full_disk_leaves_no_file(db, tmp_path):
    """The process may write files of 256 KiB only, which the operating system enforces as it does a full disk."""
    (tmp_path / "cohort.sql").write_text(PATIENTS)
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18)); from intarsia.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "participant", "extract", "--query", "cohort.sql", "--database", db.url()]
    done = subprocess.run(
        [*command, "-o", "a.parquet"], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "a.parquet cannot be written: File too large." in " ".join(done.stderr.split())
    assert nothing_is_left(tmp_path)


def command(db, folder, query):
    (folder / "cohort.sql").write_text(query)
    return [
        sys.executable, "-m", "intarsia.cli", "participant", "extract", "--query", "cohort.sql", "--database", db.url(),
        "-o", "a.parquet",
    ]  # fmt: skip


def test_an_error_in_the_middle_is_all_that_is_printed(db, tmp_path):
    query = "select id, 1 / (140000 - id) as x from broken order by id"
    done = subprocess.run(
        command(db, tmp_path, query), cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: reading rows failed: the query divides by zero (DataError, SQLSTATE 22012). Hint: try the query in psql; "
        "its messages are not shown here, because they quote rows.\n"
    )
    assert nothing_is_left(tmp_path)


MANY = "select g as id, md5(g::text) as text from generate_series(1, 3000000) g order by g"
SLOW = "select g as id, pg_sleep(60) is null as slept from generate_series(1, 3) g order by g"


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals")
@pytest.mark.parametrize(("query", "number"), [(MANY, signal.SIGTERM), (MANY, signal.SIGINT), (SLOW, signal.SIGTERM)])
def test_a_signal_ends_an_extract_without_a_file_and_without_a_traceback(db, tmp_path, query, number):
    process = subprocess.Popen(
        command(db, tmp_path, query), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )  # fmt: skip
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        time.sleep(0.05)
        if query == MANY and any(path.stat().st_size > 1 << 20 for path in tmp_path.glob(".intarsia-*")):
            break
        if query == SLOW and db.run("select count(*) from pg_stat_activity where query like '%pg_sleep(60)%'") > "1":
            break
    process.send_signal(number)
    printed, error = process.communicate(timeout=40)
    assert nothing_is_left(tmp_path)
    assert (printed, process.returncode in {1, 130}, error.count("\n")) == ("", True, 1), error
    assert "interrupted; nothing was written" in error or "the query was cancelled" in error


def test_rows_can_be_read_by_their_owner_under_any_umask(db, tmp_path):
    before = os.umask(0o777)
    try:
        write_atomically(tmp_path / "a", b"x", secret=True)
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_an_extract_of_wide_rows_takes_less_memory_than_is_promised(db):
    """Two million rows take some 5 MB more: ``python -m benchmarks.extract``."""
    assert measure(db, "wide", 300_000).peak < LIMIT


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_device_without_space_is_an_error_about_the_file(db, tmp_path, monkeypatch):
    from intarsia.tables import extract as module

    def full(path, write, *, secret):
        try:
            with Path("/dev/full").open("wb", buffering=0) as file:
                write(file)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}.") from error

    monkeypatch.setattr(module, "write_atomically", full)
    (tmp_path / "cohort.sql").write_text(PATIENTS)
    with pytest.raises(OutputError, match="No space left on device"):
        write_extract(tmp_path / "cohort.sql", db.url(), tmp_path / "a.parquet")


def test_passwords_and_users(db, extract, tmp_path, monkeypatch):
    for url in (
        "postgresql://u:geheim@h/d", "postgresql://h/d?password=geheim", "postgresql://h/d?sslpassword=geheim",
        "host=h password=geheim", "postgresql://h/d#?pass%77ord=geheim", "postgresql://h/d?pass%77ord=geheim",
        "postgresql://h/d?%70assword=geheim", "postgresql://h/d#?user=geheim",
        "mysql://h/d", "mssql://h/d", "postgresql://[h/d", "",
    ):  # fmt: skip
        with pytest.raises(SettingError, match="address of the database") as error:
            check_address(url)
        assert "geheim" not in str(error.value)
    assert extract("select id from odd order by id", url=db.url(user="reader")).extract.n_rows == 2
    with pytest.raises(InputError, match="may not read a table"):
        extract("select * from secret order by id", "b.parquet", url=db.url(user="reader"))
    monkeypatch.setenv("PGPASSWORD", "falsch")
    with pytest.raises(
        InputError, match="cannot be reached: the database refuses this user or password.*PGPASSWORD"
    ) as error:
        extract("select id from odd order by id", "c.parquet")
    assert "falsch" not in str(error.value)
    monkeypatch.delenv("PGPASSWORD")
    (tmp_path / "pass").write_text(f"127.0.0.1:{db.port}:*:*:{SECRET}\n")
    (tmp_path / "pass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pass"))
    assert extract("select id from odd order by id", "d.parquet").extract.n_rows == 2
    with pytest.raises(InputError, match="nothing answers at this host and port"):
        extract("select id from odd order by id", "e.parquet", url="postgresql://owner@127.0.0.1:1/postgres")


def test_labels_by_id_equal_those_of_the_same_rows_as_csv(db, tmp_path):
    from tests.cli.test_commands import inside

    (tmp_path / "cohort.sql").write_text("select id, crp, age, ratio from patient where id <= 3000 order by id")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "PGPASSWORD", SECRET)
        from tests.cli import test_commands

        patch.setitem(test_commands.ENVIRONMENT, "PGPASSWORD", SECRET)
        given = ("participant", "extract", "--query", "cohort.sql", "--database", db.url(), "-o", "a.parquet")
        done = inside(*given, where=tmp_path)
        assert "3,000 rows, 4 columns" in done.stdout
        assert "Exact numbers (numeric) are now numbers of 64 bits: crp, ratio." in done.stdout
        assert "already exists" in inside(*given, where=tmp_path, rc=1).stderr
        assert json.loads(inside(*given, "--force", "--json", where=tmp_path).stdout)["n_rows"] == 3000
    db_rows = db.run(
        "copy (select id, crp, age, ratio from patient where id <= 3000 order by random()) to stdout csv header"
    )
    (tmp_path / "b.csv").write_text(db_rows + "\n")
    for table in ("a.parquet", "b.csv"):
        inside("fit", f"clinic={table}", "-k", 3, "--id", "id", "-o", table[0], "-q", where=tmp_path)
    extracted, exported = (pl.read_csv(tmp_path / name / "labels/clinic.csv") for name in "ab")
    assert extracted["id"].to_list() != exported["id"].to_list()
    assert extracted.sort("id").equals(exported.sort("id"))
    inside("predict", "a", "a.parquet", "--id", "id", "-o", "labels.parquet", where=tmp_path)
    assert pl.read_parquet(tmp_path / "labels.parquet").equals(extracted, null_equal=True)
    assert (tmp_path / "labels.parquet").stat().st_mode & 0o777 == 0o600


def test_a_changed_query_or_changed_rows_need_a_new_consent(db, extract, tmp_path):
    extract("select id, crp, age from patient where id <= 500 order by id")
    settings = LocalSettings(str(tmp_path / "a.parquet"), id_column="id")
    study = Study("s", ("north", "south"), "federated", 2)
    seen = preview(settings, study, "north")
    assert set(seen.terms["extract"]) == {"query", "rows_sha256", "rows"}
    kit = tmp_path / "kit"
    kit.mkdir()
    form = form_of(seen.terms, seen.messages, "Dr. A", "2026-01-01")
    (kit / "consent.toml").write_text(form)
    assert seen.terms["extract"]["query"] in form
    check_form(kit / "consent.toml", preview(settings, study, "north").terms)
    check_agreed(kit, settings.table)
    (tmp_path / "a.parquet").unlink()
    extract("select id, crp, age from patient where id <= 500 order by id")  # again, and the same rows
    check_form(kit / "consent.toml", preview(settings, study, "north").terms)
    check_agreed(kit, settings.table)
    for query, what in {
        "select id, crp, age from patient where id < 501 order by id": "query",
        "select id, crp, age from patient where id <= 500 order by id": "rows",
    }.items():
        if what == "rows":
            db.run("update patient set age = 99 where id = 77")
        extract(query)
        with pytest.raises(
            SettingError, match=rf"consent to other terms: \[extract\] {'query' if what == 'query' else 'rows_sha256'}"
        ):
            check_form(kit / "consent.toml", preview(settings, study, "north").terms)
        with pytest.raises(IntarsiaError, match=f"the {what} of the extract changed after its owner agreed"):
            check_agreed(kit, settings.table)
    pl.DataFrame({"id": [1, 2], "crp": [1.0, 2.0]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(IntarsiaError, match="of the extract changed"):
        check_agreed(kit, settings.table)


def test_a_file_that_was_changed_after_its_extraction_is_refused(extract, tmp_path):
    extract("select id, age from patient where id <= 500 order by id")
    path = tmp_path / "a.parquet"
    table, stored = pq.read_table(path), extract_in(path)._asdict()
    changed = table.set_column(1, "age", pa.array(np.zeros(500)))
    with pq.ParquetWriter(path, changed.schema) as writer:
        writer.write_table(changed)
        writer.add_key_value_metadata({f"intarsia.extract.{name}": str(value) for name, value in stored.items()})
    with pytest.raises(InputError, match="was changed after it was extracted"):
        extract_in(path)


def test_without_the_driver_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(postgresql, "find_spec", lambda name: None)
    (tmp_path / "cohort.sql").write_text("select 1 as x order by 1")
    with pytest.raises(InputError, match=r"need adbc-driver-postgresql.*postgres"):
        write_extract(tmp_path / "cohort.sql", "postgresql://h/d", tmp_path / "a.parquet")
    for content, text in {b"\xff": "not text in UTF-8", None: "cannot be read"}.items():
        path = tmp_path / "q.sql"
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError, match=text):
            write_extract(path, "postgresql://h/d", tmp_path / "a.parquet")


OMOP = """create schema cdm;
create table cdm.person (person_id bigint primary key, gender_concept_id int, year_of_birth int);
create table cdm.measurement (measurement_id bigint primary key, person_id bigint references cdm.person,
  measurement_concept_id int, measurement_date date, value_as_number numeric, unit_concept_id int);
insert into cdm.person values (3, 8507, 1950), (1, 8532, 1980), (2, 8507, 1990);
insert into cdm.measurement values
  (1, 1, 3016723, '2020-01-01', 0.8, 8840), (2, 1, 3016723, '2020-05-01', 0.9, 8840),
  (3, 1, 3016723, '2020-06-01', 80, 8749), (4, 1, 3016723, '2021-06-01', 9.9, 8840),
  (5, 2, 3000963, '2020-03-03', 14.5, 8713), (6, 2, 3000963, '2020-03-03', 14.6, 8713),
  (7, 2, 3016723, '2020-03-03', null, 8840), (8, 3, 9999999, '2020-03-03', 5, 8840);"""


def test_the_template_for_omop_takes_the_last_value_in_the_agreed_unit(db, extract, tmp_path):
    page = (Path(__file__).parents[2] / "docs/how-to/omop.md").read_text()
    template, count = (block.partition("```")[0] for block in page.split("```sql\n")[1:])
    db.run(OMOP)
    extract(template)
    assert pl.read_parquet(tmp_path / "a.parquet").rows() == [
        (1, 40, False, 0.9, None),  # not the one in other units, nor the one after the end
        (2, 30, True, None, 14.6),  # the later of two on a day
        (3, 70, True, None, None),
    ]
    extract(count, "b.parquet")
    assert pl.read_parquet(tmp_path / "b.parquet").rows()[-1] == (3016723, 8840, 4, 2)
