"""Rows of CSV files with too many or too few cells, and blank rows at the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.exceptions import IntarsiaError
from intarsia.tables.csv import CsvFile
from intarsia.tables.csv_shape import shape_of
from intarsia.tables.csv_text import open_text
from intarsia.tables.feasibility import check_feasibility
from intarsia.tables.open import open_table

PIECES = [8, 20, 1 << 20]


def a_file(folder, text):
    path = folder / "nord.csv"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize(
    ("text", "words", "values"),
    [
        ("a;b\r\n1,5;2,5;\r\n2,5;3,5;\r\n3,5;4,5;\r\n", "without blank cells beyond the header in 3 rows", [1.5, 2.5, 3.5]),
        ("a;b\n1,5;2,5\n2,5;3,5;; \n", "without blank cells beyond the header in 1 row", [1.5, 2.5]),
        ("a;b\n1,5;2\n2,5\n3,5\n", "with missing values in 2 rows with fewer cells than the header", [1.5, 2.5, 3.5]),
        ("a;b\n1,5\n2,5;1;\n", "without blank cells beyond the header in 1 row; with missing values in 1 row", [1.5, 2.5]),
        ("a;b\r\n1,5;2\r\n;;\r\n;\r\n \r\n\r\n", "without 4 blank rows at the end", [1.5]),
        ('a;b\n1,5;"x\n;;\n"\n;\n;', "without 2 blank rows at the end", [1.5]),
    ],
)  # fmt: skip
def test_blank_cells_too_many_and_too_few_are_read_and_said(tmp_path, text, words, values, piece):
    file = CsvFile(a_file(tmp_path, text), piece=piece)
    assert file.read()["a"].tolist() == values
    assert [cell for batch in file.batches() for cell in batch["a"].to_list()] == values
    assert len(file) == len(values)
    assert words in file.remark


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize(
    ("text", "line", "cells"),
    [
        ("a;b\n1;2\n3;4;geheim\n5;6\n", 3, 3),
        ('sep=;\na;b\n"x\ny";2\n3;4;;geheim\n', 5, 4),
        ("a;b\n1\n3;4;geheim\n", 3, 3),  # as many cells as there should be, in sum
        ("Auswertung\na;b\n1;2\n", 2, 2),
    ],
)
def test_the_first_row_with_too_many_cells_is_named_by_its_line(tmp_path, text, line, cells, piece):
    path = a_file(tmp_path, text)
    for read in (
        lambda: CsvFile(path, piece=piece).read(),
        lambda: list(CsvFile(path, piece=piece).as_text().batches()),
    ):
        with pytest.raises(IntarsiaError, match=f"^line {line} of nord.csv has {cells} cells") as error:
            read()
        assert "geheim" not in str(error.value)


def test_blank_rows_within_stay_and_in_a_private_study_all_rows_do(tmp_path):
    path = a_file(tmp_path, "a;b\n1,5;2\n;\n3;4\n;;\n;\n")
    assert len(CsvFile(path)) == 3
    assert len(CsvFile(path).as_text()) == 5
    with pytest.raises(IntarsiaError, match=r"1 of 3 rows of 'nord' have no observed value"):
        open_table(path, "nord").hold()
    assert len(CsvFile(a_file(tmp_path, "a\n1\n\n"))) == 2  # in one column, a blank line is a missing value


@pytest.mark.parametrize("limit", [0, 1 << 28])
@pytest.mark.parametrize("piece", [1, 40, 1 << 20])
def test_the_first_line_with_a_text_among_numbers_is_named(tmp_path, piece, limit):
    rows = "".join(f'{k}.5;"x\n{k % 2}"\n' for k in range(30)) + "geheim;x\n" + "\n7.5;x"
    file = CsvFile(a_file(tmp_path, f"a;b\n{rows}"), piece=piece)
    assert file.line_of_text("a") == 62
    opened = open_table(file, "nord", memory_limit=limit, leave_out=["b"])
    assert opened.kinds()["a"].endswith("with 1 other text(s) among them, first in line 62")
    with pytest.raises(IntarsiaError, match=r"first in line 62") as error:
        opened.hold()
    assert "geheim" not in str(error.value)
    assert CsvFile(a_file(tmp_path, "a;b\n1;2\n")).line_of_text("a") is None


def test_a_table_without_rows_is_no_yes(tmp_path):
    for text in ("a;b\n", "a;b\n;\n;;\n"):
        report = check_feasibility({"nord": a_file(tmp_path, text)})
        assert not report.possible
        assert report.verdict().startswith("No: the table of 'nord' has no rows")


def test_a_title_above_the_header_is_asked_for_and_no_name_is_invented(tmp_path):
    path = a_file(tmp_path, "Auswertung;;\na;b;c\n1;2;3\n")
    with pytest.raises(IntarsiaError, match=r"2 of 3 columns .*title stand above the header") as error:
        open_table(path, "nord")
    assert "duplicated" not in str(error.value)


@given(
    rows=st.lists(st.lists(st.sampled_from(["1", "", "x", '"q;\n"', " "]), min_size=1, max_size=4), max_size=12),
    piece=st.sampled_from([1, 5, 1 << 20]),
)
def test_a_look_at_each_row_tells_the_same_as_a_quick_one_in_any_pieces(tmp_path_factory, rows, piece):
    path = tmp_path_factory.mktemp("f") / "a.csv"
    path.write_text("a;b\n" + "".join(";".join(row) + "\n" for row in rows))
    text = open_text(path)
    filled = [any(cell.strip() for cell in row) for row in rows]
    n_blank = filled[::-1].index(True) if any(filled) else len(rows)
    is_wrong = any(cell.strip() for row in rows for cell in row[2:])
    if is_wrong:
        with pytest.raises(IntarsiaError):
            shape_of(text, ";", piece, 1 << 22, each_row=True)
        return
    shape = shape_of(text, ";", piece, 1 << 22, each_row=True)
    assert shape.n_blank == n_blank
    assert shape.n_short == sum(len(row) < 2 for row, is_filled in zip(rows, filled, strict=True) if is_filled)
    assert shape.n_surplus == sum(len(row) > 2 for row, is_filled in zip(rows, filled, strict=True) if is_filled)
    assert shape_of(text, ";", piece, 1 << 22).n_blank == n_blank
