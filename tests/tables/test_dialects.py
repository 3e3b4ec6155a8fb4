"""CSV files as programs in different countries write them: each is read as the same table, or what is open is said."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.exceptions import IntarsiaError, SettingError
from intarsia.tables.csv import CsvFile, scan_csv
from intarsia.tables.csv_text import open_text
from intarsia.tables.feasibility import check_feasibility
from intarsia.tables.open import open_table
from intarsia.tables.reading import Reading

AGE, CRP, CELLS = [61.5, 70.25, 48.125, 55.0], [1234.5, 0.7, 12345.25, 3.0], [7800.0, 10200.0, 9100.0, 1234567.0]
PLACE = ["Köln", "Zürich", "Besançon", "Forlì"]


class Dialect(NamedTuple):
    """How a program writes a table; the options are those that a user must give."""

    separator: str
    decimal: str = "."
    group: str = ""
    encoding: str = "utf-8"
    line: str = "\r\n"
    start: bytes = b""
    head: str = ""
    quoted: bool = False
    options: dict = {}  # noqa: RUF012
    group_all: bool = True  # also the column of numbers without decimals

    def number(self, value, group=None):
        text = f"{value:,.6f}".rstrip("0").rstrip(".")
        whole, point, fraction = text.partition(".")
        return whole.replace(",", self.group if group is None else group) + (self.decimal + fraction if point else "")

    def text(self, names, columns):
        out = io.StringIO()
        how = csv.QUOTE_ALL if self.quoted else csv.QUOTE_MINIMAL
        writer = csv.writer(out, delimiter=self.separator, lineterminator=self.line, quoting=how)
        writer.writerow(names)
        for row in zip(*columns, strict=True):
            writer.writerow(
                ["" if cell is None else self.number(cell) if isinstance(cell, float) else cell for cell in row]
            )
        return self.head + out.getvalue()

    def write(self, path, names, columns):
        path.write_bytes(self.start + self.text(names, columns).encode(self.encoding))
        return path


DIALECTS = {
    "RFC 4180": Dialect(","),
    "Excel, English, CSV UTF-8": Dialect(",", start=codecs.BOM_UTF8),
    "Excel, English, thousands shown": Dialect(",", group=",", encoding="cp1252"),
    "Excel, German, CSV (semicolon)": Dialect(";", ",", encoding="cp1252"),
    "Excel, German, thousands shown": Dialect(";", ",", ".", encoding="cp1252"),
    "Excel, German, CSV UTF-8": Dialect(";", ",", start=codecs.BOM_UTF8),
    "Excel, German, Unicode text": Dialect("\t", ",", encoding="utf-16-le", start=codecs.BOM_UTF16_LE),
    "Excel, Italian, CSV (semicolon)": Dialect(";", ",", ".", encoding="cp1252"),
    "Excel, Italian, Unicode text": Dialect("\t", ",", ".", encoding="utf-16-le", start=codecs.BOM_UTF16_LE),
    "Excel, French, CSV (semicolon)": Dialect(";", ",", "\u00a0", encoding="cp1252"),
    "Excel, French, CSV UTF-8": Dialect(";", ",", "\u202f", start=codecs.BOM_UTF8),
    "Excel, French, Unicode text": Dialect("\t", ",", "\u202f", encoding="utf-16-le", start=codecs.BOM_UTF16_LE),
    "Excel, German Swiss": Dialect(";", ".", "'", encoding="cp1252"),
    "Excel, Swiss, typographic": Dialect(";", ".", "’", encoding="cp1252"),
    "Excel, French, MS-DOS": Dialect(";", ",", " ", encoding="cp850", options={"encoding": "cp850", "decimal": ","}),
    "Excel, Macintosh": Dialect(";", ",", encoding="mac-roman", line="\r", options={"encoding": "mac-roman"}),
    "Excel with sep=": Dialect(";", ",", ".", encoding="cp1252", head="sep=;\r\n"),
    "R, write.csv2": Dialect(";", ",", encoding="latin-1", line="\n", quoted=True),
    "pandas, to_csv": Dialect(",", line="\n"),
    "pandas, to_csv(decimal=',')": Dialect(",", ",", line="\n"),
    "SPSS, tabs, UTF-16 without a mark": Dialect("\t", ",", encoding="utf-16-be"),
    "LibreOffice, German, UTF-8": Dialect(",", ",", ".", line="\n"),
    "Unix, bars": Dialect("|", ".", line="\n"),
    "Czech, Windows-1250": Dialect(";", ",", "\u00a0", encoding="cp1250", options={"encoding": "cp1250"}),
}


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("memory_limit", [0, 1 << 28])
def test_the_same_table_in_any_dialect_is_read_the_same(tmp_path, name, memory_limit):
    dialect = DIALECTS[name]
    place = [text if dialect.encoding != "cp1250" else text.replace("ì", "í") for text in PLACE]
    path = dialect.write(tmp_path / "a.csv", ["Ålter" if "ISO" in name else "Größe", "CRP", "Zellen", "Ort"],
                         [AGE, CRP, CELLS, place])  # fmt: skip
    opened = open_table(path, "a", how=Reading(**dialect.options), memory_limit=memory_limit)
    assert opened.kinds() == {"Größe": "numbers", "CRP": "numbers", "Zellen": "numbers", "Ort": "text"} | {
        "Ort": opened.kinds()["Ort"]
    }
    columns = list(opened.batches())
    for column, expected in zip(("Größe", "CRP", "Zellen"), (AGE, CRP, CELLS), strict=True):
        assert np.concatenate([np.asarray(each[column], dtype=float) for each in columns]).tolist() == expected
    assert [cell for each in columns for cell in each["Ort"].to_list()] == place
    assert opened.is_streamed == (memory_limit == 0)
    plain = dialect.encoding.startswith("utf-8") and dialect.decimal == "." and not dialect.group
    assert (opened.remark is None) == plain


OPEN = {  # files whose cells decide nothing about a column, and what they hold if the sign is a comma, and a point
    "a;b\n1,234;1\n2,345;2\n": ([1.234, 2.345], [1234.0, 2345.0]),
    'a,b\n"1,234",1\n"12,345",2\n': ([1.234, 12.345], [1234.0, 12345.0]),
    "a;b\n7.800;1,5\n9.100;2,5\n": ([7800.0, 9100.0], [7.8, 9.1]),
    "a;b\n7.800;1\n9.100;2\n": ([7800.0, 9100.0], [7.8, 9.1]),
    "a\tb\n1,234\t1.234\n2,345\t2.345\n": ([1.234, 2.345], [1234.0, 2345.0]),
    "a;b\n1,234;1.234\n2.345;2\n": ([1.234, 2345.0], [1234.0, 2.345]),
}


def test_a_unicode_text_of_excel_whose_cells_do_not_decide_is_asked_for_too(tmp_path):
    (tmp_path / "a.txt").write_bytes("a\tb\r\n7.800\t1\r\n9.100\t2\r\n".encode("utf-16"))
    assert "--decimal 'a=.' (1.234) or --decimal 'a=,' (1234)" in CsvFile(tmp_path / "a.txt").kinds["a"]
    assert CsvFile(tmp_path / "a.txt", decimal=",").read()["a"].tolist() == [7800.0, 9100.0]
    (tmp_path / "b.txt").write_text("a\tb\n7.800\t1\n9.100\t2\n")  # as it has always been
    assert CsvFile(tmp_path / "b.txt").read()["a"].tolist() == [7.8, 9.1]


@pytest.mark.parametrize("text", OPEN)
def test_what_cells_do_not_decide_is_asked_for_and_read_as_it_is_said(tmp_path, text):
    path = tmp_path / "nord.csv"
    path.write_text(text)
    for limit in (0, 1 << 28):
        opened = open_table(path, "nord", memory_limit=limit)
        assert {"--decimal 'nord=,'", "--decimal 'nord=.'"} <= set(re.findall(r"--decimal '.*?'", opened.kinds()["a"]))
        with pytest.raises(IntarsiaError, match=r"--decimal 'nord=[,.]' \(1.234\) or .*scan_csv") as error:
            opened.hold()
        assert not any(cell in str(error.value) for cell in ("2,345", "7.8", "2.345", "9.1", "12,345"))
        for sign, expected in zip(",.", OPEN[text], strict=True):
            said = open_table(path, "nord", how=Reading(decimal=sign), memory_limit=limit)
            assert said.hold().names[0] == "a"
            assert np.concatenate([np.asarray(b["a"], dtype=float) for b in said.batches()]).tolist() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b\n1,234;1,5\n2,345;2\n", [1.234, 2.345]),  # a comma is a decimal sign elsewhere
        ("a;b\n1.234;1.234,5\n2.345;2\n", [1234.0, 2345.0]),  # a point separates thousands elsewhere
        ("a;b\n1,234;1,234.5\n2,345;2\n", [1234.0, 2345.0]),
        ("a;b\n1.234;12.5\n2.345;2\n", [1.234, 2.345]),
        ("a,b\n1.234,1\n2.345,2\n", [1.234, 2.345]),  # without any comma in a number, as it has always been
        ('a,b\n"1,234",1.5\n"2,345",2\n', [1234.0, 2345.0]),  # commas separate cells, and points are decimal signs
        ("a;b\n12,5;1\n1.234;1\n", [12.5, 1234.0]),  # a cell of the column itself
        ("a;b\n1.234.567;1\n1.234;1\n", [1234567.0, 1234.0]),
        ("a;b\n0,123;1\n1,234;1\n", [0.123, 1.234]),  # no number of thousands begins with 0
        ("a;b\n+1,5e3;1\n-2,5;1\n", [1500.0, -2.5]),
        ("a;b\n1 234,5;1\n2 345 678;1\n", [1234.5, 2345678.0]),
        ("a;b\n ,5;1\n 5, ;1\n", [0.5, 5.0]),
    ],
)
def test_other_cells_decide_and_each_column_by_its_own_cells_first(tmp_path, text, expected):
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert CsvFile(path, piece=12).read()["a"].tolist() == expected
    assert np.concatenate([b["a"].to_numpy() for b in CsvFile(path, piece=12).batches()]).tolist() == expected


def test_columns_decide_for_themselves_against_an_option_and_a_mixed_column_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b;c\n12.5;12,5;1,5\n7.800;2,25;2.5\n")
    found = CsvFile(path, decimal=",")
    assert found.read()["a"].tolist() == [12.5, 7.8]
    assert found.doubtful == {"c": "numbers with decimal commas and numbers with decimal points"}
    (tmp_path / "b.csv").write_text("a,b\n1.234,1\n2.345,2\n")  # commas separate its cells: they are no decimal signs
    assert CsvFile(tmp_path / "b.csv", decimal=",").read()["a"].tolist() == [1.234, 2.345]


@pytest.mark.parametrize("cells", [["001 002", "003 004"], ["1.2.3", "4.5.6"], ["192.168.1.1", "10.0.0.1"], ["1,2,3", "4"],
                                   ["0.123,5", "1"], ["12.34.567", "1"], ["1 2345", "2"], ["030/123", "2"]])  # fmt: skip
def test_codes_stay_texts(tmp_path, cells):
    path = tmp_path / "a.csv"
    path.write_text("a;b\n" + "\n".join(f"{cell};1" for cell in cells) + "\n")
    assert CsvFile(path).read()["a"].to_list() == cells


BESIDE = {  # the third column, in a table of 120 rows: what stands beside its numbers
    "unit": lambda i: f"{temperature(i)} °C", "percent": lambda i: f"{88 + i % 12} %",
    "currency": lambda i: f"€ {temperature(i)}", "minus at the end": lambda i: f"{temperature(i)}-",
    "plain space": lambda i: f"{1 + i % 9} {i % 3}00", "without a value": lambda i: temperature(i) if i % 2 else "k. A.",
    "limit": lambda i: f"<0,{i % 4}" if i % 5 < 3 else f"{i},5", "star": lambda i: f"{i},5" + "*" * (i % 2),
    "flag": lambda i: f"{i},5" + " H" * (i % 2), "mg/l": lambda i: f"{i},5 mg/l",
    "above": lambda i: ">100" if i % 2 else f"{i},5", "mixed signs": lambda i: f"{i},5" if i % 2 else f"{i}.5",
    "Arabic digits": lambda i: f"{i},5".translate(str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")),
}  # fmt: skip


def temperature(i):
    return f"{36 + i % 20 / 10:.1f}".replace(".", ",")


@pytest.mark.parametrize("limit", [0, 1 << 28])
@pytest.mark.parametrize("name", BESIDE)
def test_check_says_no_where_numbers_would_become_categories_or_be_lost(tmp_path, name, limit):
    path = tmp_path / "nord.csv"
    path.write_text("x;y;z\n" + "".join(f"{i}.5;{i % 7}.25;{BESIDE[name](i)}\n" for i in range(120)), encoding="utf-8")
    opened = open_table(path, "nord", memory_limit=limit)
    assert "number" in opened.kinds()["z"]
    report = check_feasibility({"nord": opened})
    assert not report.possible
    assert report.verdict().startswith("No, not yet: 'nord' would lose numbers, those of 'z'")
    with pytest.raises(IntarsiaError) as error:
        opened.hold()
    assert "drop ids" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b\n−36,5;1\n36,5;2\n-2;3\n", [-36.5, 36.5, -2.0]),
        ("a;b\n−3;1\n4;2\n", [-3.0, 4.0]),
        ("a,b\n−36.5,1\n4,2\n", [-36.5, 4.0]),
        ("a;b\n−1.234,5;1\n1,5e−3;2\n", [-1234.5, 0.0015]),
    ],
)
def test_a_typographic_minus_is_a_minus_and_is_said(tmp_path, text, expected):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    file = CsvFile(tmp_path / "a.csv", piece=16)
    assert file.read()["a"].tolist() == expected
    assert np.concatenate([batch["a"].to_numpy() for batch in file.batches()]).tolist() == expected
    assert "minus signs (−) in 'a'" in file.remark


def test_columns_at_the_end_without_name_and_value_are_no_columns(tmp_path):
    path = tmp_path / "a.csv"
    for end, rows in {";": "1,5;2;\n2,5;3;\n", ";;;": "1,5;2;;;\n2,5;3;;;\n"}.items():
        path.write_text(f"a;b{end}\n{rows}")
        for limit in (0, 1 << 28):
            opened = open_table(path, "a", memory_limit=limit)
            assert opened.kinds() == {"a": "numbers", "b": "numbers"}
            opened.hold()
        assert CsvFile(path, piece=8).as_text().columns == ("a", "b")
    path.write_text("a;b;\n1,5;2;\n2,5;3;7\n")
    with pytest.raises(IntarsiaError, match=r"1 of 3 columns of 'a' have no name"):
        open_table(path, "a").hold()


def test_row_ids_stay_as_they_are(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id;x\n1.234;1,5\n2.345;2,5\n")
    assert list(open_table(path, "a", id_column="id").ids) == list(
        open_table(path, "a", id_column="id", memory_limit=0).ids
    )
    assert list(open_table(path, "a", id_column="id", memory_limit=0).ids) == ["1.234", "2.345"]
    for cells, expected in {("007", "7"): ["007", "7"], ("7", "-8"): [7, -8], ("9" * 30, "1"): ["9" * 30, "1"]}.items():
        path.write_text("id,x\n" + "".join(f"{cell},{k}\n" for k, cell in enumerate(cells)))
        assert list(open_table(path, "a", id_column="id").ids) == expected


def test_encodings_that_make_no_words_are_asked_for_by_name(tmp_path):
    path = tmp_path / "a.csv"
    for text, encoding in {
        "имя;Größe\n1;2\n": "cp1251",
        "Größe;x\n1;2\n": "cp850",
        "Männer;x\n1;2\n": "mac-roman",
    }.items():
        try:
            path.write_bytes(text.encode(encoding))
        except UnicodeEncodeError:
            path.write_bytes("возраст;x\n1;2\n".encode(encoding))
        with pytest.raises(IntarsiaError, match="--encoding windows-1252, or"):
            CsvFile(path)
        assert CsvFile(path, encoding=encoding).columns[-1] in {"x", "Größe"}
    path.write_bytes("Größe;x\n1;2\n".encode() + "ü;3\n".encode("cp1252"))  # UTF-8 with one fault is no other encoding
    with pytest.raises(IntarsiaError, match="--encoding"):
        CsvFile(path)
    for name in ("klingon", "unicode_escape", "base64", "rot13", "idna"):
        with pytest.raises(SettingError, match="encoding .* is unknown"):
            scan_csv(path, encoding=name)
    path.write_bytes("größe\n1\n".encode()[:3])
    with pytest.raises(IntarsiaError, match="ends in the middle of a letter"):
        CsvFile(path)


def test_a_private_study_reads_what_is_declared_and_infers_nothing(tmp_path):
    from intarsia import DifferentialPrivacy
    from intarsia.tables.open import check_commas

    privacy = DifferentialPrivacy(1.0, bounds={"x": (0.0, 2000.0)}, levels={"ort": ("Köln",)})
    path = tmp_path / "a.csv"
    path.write_bytes("ort;x\nKöln;1.234,5\nBonn;zwölf\nKöln;3\n".encode("cp1252"))
    with pytest.raises(IntarsiaError, match="--encoding"):
        open_table(path, "a", declared=privacy)
    path.write_text("ort;x\nKöln;1.234,5\nBonn;zwölf\nKöln;3\n")
    held = open_table(path, "a", declared=privacy, how=Reading(decimal=",")).hold(declared=privacy)
    np.testing.assert_array_equal(held.values[:, 0], [1234.5, math.nan, 3.0])
    path.write_text("ort;x\nKöln;1,5\nKöln;3\n")
    with pytest.raises(IntarsiaError, match="--decimal a=,"):
        check_commas(path, "a", Reading())
    check_commas(path, "a", Reading(decimal=","))


NUMBER = st.one_of(st.integers(-(10**9), 10**9).map(float), st.floats(-1e6, 1e6).map(lambda x: round(x, 4) + 0.0))
WORD = st.text("abcdefghijklmnopqrstuvwxyzäöüßéèàç '-;,\"\n", min_size=2, max_size=8).filter(
    lambda text: text.strip() == text and any(c.isalpha() for c in text)
).map(lambda text: "w" + text)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(DIALECTS)),
    rows=st.lists(st.tuples(NUMBER, NUMBER, WORD), min_size=1, max_size=12),
    piece=st.sampled_from([7, 64, 1 << 20]),
)
def test_any_table_written_in_any_dialect_is_read_back_equal_or_what_is_open_is_said(
    tmp_path_factory, name, rows, piece
):
    dialect = DIALECTS[name]
    if dialect.line == "\r":
        rows = [(x, y, word.replace("\n", " ")) for x, y, word in rows]
    if dialect.encoding == "cp1250":
        rows = [(x, y, word.translate(str.maketrans("èàì", "éáí"))) for x, y, word in rows]
    path = dialect.write(tmp_path_factory.mktemp("d") / "a.csv", ["x", "y", "ä"], list(zip(*rows, strict=True)))
    try:
        file = CsvFile(path, piece=piece, **dialect.options)
    except IntarsiaError:  # one word alone may look like one of another encoding
        assert dialect.encoding == "cp1252"
        return
    found = file.read()
    if dialect.encoding != "cp1252" or "ä" in found:
        assert [cell.replace("\r\n", "\n") for cell in found["ä"].to_list()] == [row[2] for row in rows]
    for k, column in enumerate("xy"):
        if column in file.doubtful:
            assert any("--decimal" in reason for reason in file.doubtful.values())
            continue
        expected = [row[k] for row in rows]
        assert np.asarray(found[column], dtype=float).tolist() == expected
        assert np.concatenate([b[column].to_numpy() for b in file.batches()]).tolist() == expected


@settings(max_examples=300, deadline=None)
@given(
    content=st.one_of(
        st.binary(max_size=300),
        st.text("a1,;.\"'\n\r\t \u00a0é", max_size=200).flatmap(
            lambda text: st.sampled_from(["utf-8", "utf-16", "cp1252", "utf-16-be"]).map(
                lambda codec: text.encode(codec, "ignore")
            )
        ),
    ),
    decimal=st.sampled_from([None, ",", "."]),
)
def test_random_bytes_give_a_table_or_one_of_our_errors(tmp_path_factory, content, decimal):
    path = tmp_path_factory.mktemp("f") / "a.csv"
    path.write_bytes(content)
    try:
        opened = open_table(path, "a", how=Reading(decimal=decimal))
        opened.hold()
    except IntarsiaError:
        pass
    try:
        open_table(path, "a", how=Reading(decimal=decimal), memory_limit=0).hold()
    except IntarsiaError:
        pass
    try:
        open_text(path, "cp1250")
    except IntarsiaError:
        pass
