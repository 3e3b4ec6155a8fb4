"""Spreadsheets: archives that unpack to too much, cells too far apart, and names that occur twice are refused."""

from __future__ import annotations

import struct
import zipfile

import polars as pl
import pytest

from intarsia.exceptions import DuplicateColumnError, InputError
from intarsia.tables.excel import read_excel


def in_sheet(path, change):
    """Rewrite the first sheet of a file."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = change(parts[sheet])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def path(tmp_path):
    pl.DataFrame({"age": [30, 40, 50], "chol": [180, 190, 200]}).write_excel(tmp_path / "a.xlsx")
    return tmp_path / "a.xlsx"


def test_a_sheet_within_the_limits_is_read(path):
    assert read_excel(path).to_dict(as_series=False) == {"age": [30, 40, 50], "chol": [180, 190, 200]}


def test_an_archive_that_unpacks_to_too_much_is_refused(path):
    in_sheet(path, lambda sheet: sheet.replace(b"</sheetData>", b"</sheetData>" + b" " * (4 << 20)))
    assert path.stat().st_size < 50_000
    with pytest.raises(InputError, match=r"a\.xlsx \(\d+ KiB\) unpacks to more than 2 MiB.*save the sheet as CSV"):
        read_excel(path, most_unpacked=2 << 20)
    assert read_excel(path).height == 3


def test_the_size_in_the_directory_of_an_archive_is_not_believed(path):
    in_sheet(path, lambda sheet: sheet.replace(b"</sheetData>", b"</sheetData>" + b" " * (4 << 20)))
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("xl/worksheets/sheet1.xml").file_size
    raw = path.read_bytes()
    assert raw.count(struct.pack("<I", size)) == 2
    path.write_bytes(raw.replace(struct.pack("<I", size), struct.pack("<I", 1000)))
    with zipfile.ZipFile(path) as archive:
        assert sum(entry.file_size for entry in archive.infolist()) < 2 << 20
    with pytest.raises(InputError, match="unpacks to more than 2 MiB"):
        read_excel(path, most_unpacked=2 << 20)


@pytest.mark.parametrize("mark", ['"', "'"])
def test_cells_too_far_apart_are_refused(path, mark):
    far = f"<row r={mark}1048576{mark}><c r={mark}XFD1048576{mark}><v>5</v></c></row></sheetData>"
    in_sheet(path, lambda sheet: sheet.replace(b"</sheetData>", far.encode()))
    with pytest.raises(InputError, match=r"spans 1,048,576 rows and 16,384 columns.*at most 33,554,432 cells"):
        read_excel(path)


def test_a_name_that_occurs_twice_is_refused_with_both_places(path):
    pl.DataFrame([[1], [2], [3]], schema=["age", "chol", "x"]).write_excel(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content.replace(b"<t>x</t>", b"<t>age</t>"))
    with pytest.raises(DuplicateColumnError, match=r"of a\.xlsx occur more than once: 'age \(columns 1 and 3\)'"):
        read_excel(path)


def test_names_that_only_look_renamed_are_read(path):
    pl.DataFrame([[1], [2], [3]], schema=["age", "age_1", "age_2"]).write_excel(path)
    assert read_excel(path).columns == ["age", "age_1", "age_2"]
