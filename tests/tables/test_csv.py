"""CSV files: read in pieces as polars reads them at once; faults are named with the line."""

from __future__ import annotations

import random
import time

import numpy as np
import polars as pl
import pytest

import intarsia
from intarsia.exceptions import DuplicateColumnError, InputError, UnnamedColumnError
from intarsia.protocol import checks
from intarsia.tables.csv import MISSING, CsvFile
from intarsia.tables.feasibility import check_feasibility
from intarsia.tables.names import MOST_LETTERS

CELLS = {
    "whole": lambda rng: str(rng.randint(-9, 99)),
    "large": lambda rng: str(2**53 + rng.randint(0, 9)),
    "number": lambda rng: repr(rng.gauss(0.0, 1.0)),
    "text": lambda rng: rng.choice(["ab", "é", '"a, b; c"', '"two\nlines"', '"say ""hi"""', "+5"]),
    "truth": lambda rng: rng.choice(["true", "false"]),
    "gap": lambda rng: rng.choice(["", "NA", "?"]),
}


@pytest.mark.parametrize("seed", range(100))
def test_a_csv_file_in_pieces_is_read_as_polars_reads_it_at_once(tmp_path, seed):
    """Columns change what they look like somewhere in the file; cells have line ends, quotes and separators in them."""
    rng = random.Random(seed)
    n, end, separator = rng.randint(0, 40), rng.choice(["\n", "\r\n"]), rng.choice(",;\t")
    names = [rng.choice([f"x{k}", f'"x {k}"', f'"x\n{k}"']) for k in range(rng.randint(1, 5))]
    kinds = [rng.choices(list(CELLS), k=3) for _ in names]
    change = [rng.randint(0, n) for _ in names]
    lines = [
        [CELLS[own[0] if row < until else rng.choice(own)](rng) for own, until in zip(kinds, change, strict=True)]
        for row in range(n)
    ]
    path = tmp_path / "a.csv"
    path.write_bytes(end.join(separator.join(line) for line in [names, *lines]).encode() + rng.choice([b"", b"\n"]))
    whole = pl.read_csv(path, separator=separator, null_values=list(MISSING), infer_schema_length=None)
    found = CsvFile(path, separator=separator, piece=50).read(as_stored=[whole.columns[0]])
    assert list(found) == whole.columns
    for column in whole.get_columns():
        if isinstance(found[column.name], np.ndarray):
            assert column.dtype.is_numeric()
            np.testing.assert_array_equal(found[column.name], column.cast(pl.Float64).to_numpy())
        else:
            assert column.dtype == found[column.name].to_native().dtype
            assert column.to_list() == found[column.name].to_list()
            assert column.name == whole.columns[0] or not column.dtype.is_numeric()


ROWS = 400_000  # about 50 MB


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "clean.csv"
    line = b'"%d","a note, with a separator",' + b",".join(b"%d.125" % k for k in range(14)) + b"\n"
    with path.open("wb") as file:
        file.write(b"n,note," + b",".join(b"x%d" % k for k in range(14)) + b"\n")
        file.writelines(line % k for k in range(ROWS))
    assert path.stat().st_size > 45e6
    start = time.process_time()
    CsvFile(path).read()
    return path, time.process_time() - start


@pytest.mark.parametrize("line", [3, ROWS])
def test_a_stray_quote_is_found_with_its_line_in_about_the_time_that_the_clean_file_takes(clean, tmp_path, line):
    path, taken = clean
    lines = path.read_bytes().split(b"\n")
    lines[line - 1] = lines[line - 1].replace(b"a note", b'a 5" nail')
    faulty = tmp_path / "faulty.csv"
    faulty.write_bytes(b"\n".join(lines))
    start = time.process_time()
    with pytest.raises(
        InputError, match=rf"quotation mark in line {line} that is not closed.*Hint: in that line"
    ) as error:
        CsvFile(faulty).read()
    assert time.process_time() - start < 3 * taken  # to look at each line in Python takes far longer
    assert "nail" not in str(error.value)


@pytest.mark.parametrize("opened", ['5" nail', '"5 nail'])
@pytest.mark.parametrize("rest", ["2,x", '2,"x"'])
def test_a_stray_quote_in_a_small_file_is_found_with_its_line(tmp_path, opened, rest):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["a,b", '0,"two\nlines"', f"1,{opened}", *[rest] * 40]))
    for longest in (1 << 22, 64):
        with pytest.raises(InputError, match="quotation mark in line 4"):
            CsvFile(path, piece=32, longest_record=longest).read()


@pytest.mark.skipif(pl.__version__.startswith("1.0."), reason="polars 1.0 reads a text behind a closed quote")
def test_an_error_of_the_parser_comes_with_a_hint_about_quotes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,"5" nail\n2,x\n')
    with pytest.raises(InputError, match=r"a.csv cannot be read as csv: ComputeError.*quotation marks") as error:
        CsvFile(path).read()
    assert "nail" not in str(error.value)


def test_a_cell_of_many_lines_and_a_long_line_are_no_stray_quotes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,"' + "line\n" * 50 + '"\n2,"' + "x" * 900 + '"\n3,"y"\n')
    columns = CsvFile(path, piece=32, longest_record=300).read()
    assert columns["a"].tolist() == [1, 2, 3]
    assert columns["b"].to_list() == ["line\n" * 50, "x" * 900, "y"]


def test_a_csv_file_is_a_source(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b;c\n1;x;true\n2;y;false\n2.5;;true\n")
    source = CsvFile(path, piece=16)
    assert source.kinds == {"a": "numbers", "b": "text", "c": "categories"}
    assert len(source) == 3
    assert source.columns == ("a", "b", "c")
    assert pl.concat(list(source.batches(["b", "a"]))).to_dict(as_series=False) == {
        "b": ["x", "y", None],
        "a": [1.0, 2.0, 2.5],
    }
    assert list(source.only(["c"]).kinds) == ["c"]


def test_a_path_is_a_table_in_python_too(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(2, size=60) * 10 + rng.normal(size=60)
    path = tmp_path / "a.csv"
    pl.DataFrame({"x": x, "y": -x}).write_csv(path)
    result = intarsia.cluster({"a": path, "b": {"x": x}}, 2, random_state=0)
    np.testing.assert_array_equal(result.labels["a"], result.labels["b"])
    np.testing.assert_array_equal(result.predict(path), result.labels["a"])


def test_files_that_are_not_as_their_name_says_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,a\n1,2,3\n")
    with pytest.raises(DuplicateColumnError, match="1 column.s. of a.csv occur more than once: 'a .columns 1 and 3.'"):
        CsvFile(path)
    path.write_bytes("größe\n1\n".encode("mac-roman"))
    with pytest.raises(InputError, match="a.csv is text in an encoding.*--encoding"):
        CsvFile(path)
    with pytest.raises(InputError, match="gone.csv not found"):
        CsvFile(tmp_path / "gone.csv")


def test_a_column_that_occurs_twice_far_behind_in_the_header_is_refused_with_both_places(tmp_path):
    path = tmp_path / "a.csv"
    names = ["age", *(f"column {k:05d}" for k in range(10_000)), "age"]
    path.write_text(",".join(names) + "\n" + ",".join(["1"] * len(names)) + "\n")
    with pytest.raises(DuplicateColumnError, match=r"occur more than once: 'age \(columns 1 and 10002\)'"):
        CsvFile(path)
    path.write_text('x,"two\nlines",y,"two\nlines"\n1,2,3,4\n')
    with pytest.raises(DuplicateColumnError, match=r"'two.lines \(columns 2 and 4\)'"):
        CsvFile(path)
    path.write_text("\ufeffage,NA,?\n1,2,3\n")
    assert CsvFile(path).columns == ("age", "NA", "?")


def test_a_text_that_is_too_long_for_a_level_is_refused_before_the_run(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,note\n" + "".join(f"{k},{'a' * 1001 if k == 3 else 'b'}\n" for k in range(20)))
    kinds = check_feasibility({"a": path, "b": {"x": [1.0, 2.0]}}).unusable
    assert kinds == {"a": {"note": "texts of more than 1000 letters"}}
    assert MOST_LETTERS == checks.MOST_LETTERS


def test_a_name_that_is_too_long_is_refused_by_its_letters(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x" * 1001 + ",b\n1,2\n")
    with pytest.raises(UnnamedColumnError, match="1 of 2 column names of 'a.csv' have more than 1000 letters. Hint: "):
        CsvFile(path)
    with pytest.raises(UnnamedColumnError, match="1 of 2 column names of 'a' have more than 1000 letters"):
        check_feasibility({"a": {"x" * 1001: [1.0], "b": [2.0]}, "b": {"b": [1.0]}})
    path.write_text("x" * 1000 + ",b\n1,2\n")
    assert CsvFile(path).columns == ("x" * 1000, "b")


def test_a_long_text_does_not_widen_every_row_of_a_polars_series():
    """An array of texts has the longest one's width in every row: 40 GB here."""
    column = pl.Series(["x" * 100_000, *["a", "b"] * 50_000])
    kinds = check_feasibility({"a": {"x": np.arange(100_001.0), "note": column}, "b": {"x": [1.0, 2.0]}}).unusable
    assert kinds == {"a": {"note": "texts of more than 1000 letters"}}
