"""Workbooks that openpyxl makes, exported to CSV by openpyxl, by pandas and as Excel exports them.

openpyxl returns the values of cells: a date is a `datetime`, and number formats do not matter.
Excel writes the displayed texts: number formats and the language of the machine decide.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
from field_programs import Write, file
from openpyxl import Workbook, load_workbook
from openpyxl.cell import Cell
from openpyxl.utils.datetime import CALENDAR_MAC_1904
from openpyxl.worksheet.worksheet import Worksheet

HEADER = ["id", "code", "amount", "ratio", "number", "day", "at", "ok", "note"]
COLUMNS = {
    "id": "int",
    "code": "string",
    "amount": "decimal(12, 2)",
    "ratio": "double",
    "number": "bigint",
    "day": "date",
    "at": "timestamp",
    "ok": "boolean",
    "note": "string",
}
DAY, AT = date(2026, 2, 3), datetime(2026, 2, 3, 4, 5, 6)
TEXT = 'Zoë, "Z"\nnext line; \\n'
EAN = 4006381333931  # 13 digits: Excel displays 4.00638E+12 if the column has no number format
RECORD = [1, "00123", 1234.5, 1e20, EAN, DAY, AT, True, TEXT]
ROW = [1, "00123", "1234.50", 1e20, EAN, "2026-02-03", str(AT), True, TEXT]
NOTHING: list[Any] = [None] * 9
FORMATS = {"amount": "0.00", "number": "0", "day": "yyyy-mm-dd", "at": "yyyy-mm-dd hh:mm:ss"}


def sheet(
    path: Path,
    rows: Sequence[Sequence[Any]],
    change: Callable[[Worksheet], object] = lambda _: None,
    *,
    header: Sequence[str] = HEADER,
    formats: dict[str, str] | None = None,
    computed: bool = False,
    epoch: datetime | None = None,
) -> Worksheet:
    """Return the sheet of a workbook that was saved and opened again."""
    made = Workbook()
    if epoch:
        made.epoch = epoch
    active = made.active
    active.append(header)
    for row in rows:
        active.append(row)
    for name, number_format in (FORMATS if formats is None else formats).items():
        for (cell,) in active.iter_rows(
            min_row=2, min_col=list(header).index(name) + 1, max_col=list(header).index(name) + 1
        ):
            cell.number_format = number_format
    change(active)
    workbook = path.with_name(f".{path.name}.xlsx")
    made.save(workbook)
    opened = load_workbook(workbook, data_only=computed).active
    workbook.unlink()
    return opened


def by_openpyxl(*rows: Sequence[Any], **how: Any) -> Write:
    """Write the values of the cells, as most recipes for openpyxl and `csv` do."""

    def write(path: Path) -> None:
        opened = sheet(path, rows, **how)
        with path.open("w", newline="", encoding="utf-8") as target:
            csv.writer(target).writerows(opened.iter_rows(values_only=True))

    return write


def by_pandas(*rows: Sequence[Any], read: dict[str, Any] | None = None) -> Write:
    def write(path: Path) -> None:
        workbook = path.with_name(f".{path.name}.xlsx")
        made = Workbook()
        for row in (HEADER, *rows):
            made.active.append(row)
        made.save(workbook)
        pd.read_excel(workbook, **(read or {})).to_csv(path, index=False)
        workbook.unlink()

    return write


def by_excel(
    *rows: Sequence[Any], encoding: str, sep: str = ",", first: str = "", **how: Any
) -> Write:
    """Write the displayed texts, as Excel does: in German if the separator is a semicolon."""

    def write(path: Path) -> None:
        opened = sheet(path, rows, **how)
        with path.open("w", newline="", encoding=encoding) as target:
            target.write(first)
            written = csv.writer(target, delimiter=sep)
            for cells in opened.iter_rows():
                written.writerow([displayed(cell, german=sep == ";") for cell in cells])

    return write


MOMENTS = {
    "yyyy-mm-dd": "%Y-%m-%d",
    "yyyy-mm-dd hh:mm:ss": "%Y-%m-%d %H:%M:%S",
    "dd.mm.yyyy": "%d.%m.%Y",
    "dd.mm.yyyy hh:mm": "%d.%m.%Y %H:%M",
    "mm/dd/yy": "%m/%d/%y",
}


def displayed(cell: Cell, german: bool) -> str:
    """Return the text of a cell as Excel displays it in a column that is wide enough."""
    value, form = cell.value, cell.number_format
    if value is None:
        return ""
    if isinstance(value, bool):
        return ("WAHR" if value else "FALSCH") if german else str(value).upper()
    if isinstance(value, datetime):
        return value.strftime(MOMENTS[form])
    if not isinstance(value, int | float):
        return str(value)
    if form == "General":
        text = f"{value:.9g}" if abs(value) < 1e11 else _short(f"{value:.5E}")
    elif set(form) == {"0"}:
        text = f"{value:0{len(form)}.0f}"
    elif form == "0%":
        text = f"{value:.0%}"
    else:
        text = f"{value:,.2f}" if "," in form else f"{value:.2f}"
    return text.translate(str.maketrans(".,", ",.")) if german else text


def _short(text: str) -> str:
    digits, exponent = text.split("E")
    return f"{digits.rstrip('0').rstrip('.')}E{exponent}"


def in_column(name: str, value: Any, identity: int = 1) -> list[Any]:
    """Return a row whose only other value is in one column."""
    return [identity, *(value if other == name else None for other in HEADER[1:])]


def append_formats(opened: Worksheet) -> None:
    """Format a row below the data, as a person does who formats more rows than there are."""
    for column in range(1, 10):
        opened.cell(opened.max_row + (column == 1), column).number_format = "0.00"


def merge_notes(opened: Worksheet) -> None:
    opened.merge_cells("I2:I3")


GERMAN_HEADER = ["id", "name", "Betrag (€)", "Tag", "Zeitpunkt", "Geprüft"]
GERMAN_FORMATS = {"Betrag (€)": "#,##0.00", "Tag": "dd.mm.yyyy", "Zeitpunkt": "dd.mm.yyyy hh:mm"}
GERMAN_ROWS = [
    [1, "Müller; „M“", "2026-02-03", "2026-02-03 04:05:00", "1234.50", True],
    [2, "Größe €", None, None, "-0.50", False],
]
GERMAN_REFUSED = (
    "breaks amount is not null or amount_text is null",
    "breaks ok is not null or ok_text is null",
    "'2026-02-03' is not a date",
)


def german(encoding: str) -> Write:
    return by_excel(
        [1, "Müller; „M“", 1234.5, DAY, AT, True],
        [2, "Größe €", -0.5, None, None, False],
        [3, "a", "n. a."],
        [4, "b", None, None, None, "ja"],
        [5, "c", None, "2026-02-03"],
        encoding=encoding,
        sep=";",
        header=GERMAN_HEADER,
        formats=GERMAN_FORMATS,
    )


WORKBOOKS: list[dict[str, Any]] = [
    {
        "stream": "csv_of_workbooks",
        "columns": COLUMNS,
        "declared": {"format": "csv"},
        "files": {
            # str(datetime) of a day has a time: 2026-02-03 00:00:00
            "openpyxl": file(by_openpyxl(RECORD, [2], formats={}), [ROW, [2, *NOTHING[1:]]]),
            "openpyxl, false, zero and texts without letters": file(
                by_openpyxl([1, "", 0, -0.0, 0, None, None, False, " "]),
                [[1, None, "0.00", 0.0, 0, None, None, False, " "]],
            ),
            "openpyxl, numbers, days and truth as texts": file(
                by_openpyxl(
                    ["1", "1", "1234.50", "1e+20", str(EAN), "2026-02-03", str(AT), "TRUE", "TRUE"],
                    formats={},
                ),
                [[1, "1", *ROW[2:8], "TRUE"]],
            ),
            "openpyxl, whole numbers in floats": file(
                by_openpyxl([1.0, 7.0, 7.0, 7.0, 7e12, None, None, None, 0.5]),
                [[1, "7", "7.00", 7.0, 7 * 10**12, None, None, None, "0.5"]],
            ),
            "openpyxl, a number of 16 digits and more": file(
                by_openpyxl(in_column("number", 1e20), in_column("amount", 1e20, 2)),
                [],
                "'1e+20' is not a bigint",
                "'1e+20' is not a decimal(12, 2)",
            ),
            # the value is 123: the zeros are only displayed
            "openpyxl, zeros of a number format": file(
                by_openpyxl(in_column("code", 123), formats={"code": "00000"}),
                [in_column("code", "123")],
            ),
            "openpyxl, line breaks of Windows in a cell": file(
                by_openpyxl(in_column("note", "a\r\nb"), in_column("note", "c\nd", 2)),
                # a program that reads XML gets \n for \r\n, says its specification in 2.11
                [in_column("note", "a\nb"), in_column("note", "c\nd", 2)],
            ),
            "openpyxl, formulas": file(
                by_openpyxl(in_column("amount", "=1+1"), in_column("note", "=1+1", 2)),
                [in_column("note", "=1+1", 2)],
                "'=1+1' is not a decimal(12, 2)",
            ),
            # only a program that computes formulas stores their values
            "openpyxl, the values of formulas that nobody computed": file(
                by_openpyxl(in_column("amount", "=1+1"), computed=True), [in_column("amount", None)]
            ),
            "openpyxl, cells with errors": file(
                by_openpyxl(
                    in_column("amount", "#DIV/0!"),
                    in_column("day", "#N/A", 2),
                    in_column("note", "#REF!", 3),
                ),
                [in_column("note", "#REF!", 3)],
                "'#DIV/0!' is not a decimal(12, 2)",
                "'#N/A' is not a date",
            ),
            "openpyxl, times of day and durations": file(
                by_openpyxl(
                    in_column("note", time(4, 5)),
                    in_column("note", timedelta(days=1, hours=2), 2),
                    in_column("at", time(4, 5), 3),
                    in_column("at", timedelta(days=1, hours=2), 4),
                    formats={},
                ),
                [in_column("note", "04:05:00"), in_column("note", "1 day, 2:00:00", 2)],
                "'04:05:00' is not a timestamp",
                "'1 day, 2:00:00' is not a timestamp",
            ),
            # a moment is a number of days in a double; openpyxl rounds it to milliseconds
            "openpyxl, milliseconds": file(
                by_openpyxl(in_column("at", AT.replace(microsecond=123_000))),
                [in_column("at", "2026-02-03 04:05:06.123000")],
            ),
            "openpyxl, days as numbers without a format": file(
                by_openpyxl(in_column("day", 46056), in_column("at", 46056.25, 2), formats={}),
                [],
                "'46056' is not a date",
                "'46056.25' is not a timestamp",
            ),
            "openpyxl, the calendar of 1904": file(
                by_openpyxl(RECORD, epoch=CALENDAR_MAC_1904), [ROW]
            ),
            "openpyxl, a formatted row below the data": file(
                by_openpyxl(in_column("code", "a"), change=append_formats),
                [in_column("code", "a"), NOTHING],
            ),
            "openpyxl, merged cells": file(
                by_openpyxl(in_column("note", "a"), in_column("note", "b", 2), change=merge_notes),
                [in_column("note", "a"), in_column("note", None, 2)],
            ),
            # pandas makes numbers of texts that are digits
            "pandas, read_excel": file(
                by_pandas(RECORD, RECORD), [[1, "123", *ROW[2:]], [1, "123", *ROW[2:]]]
            ),
            # an empty cell makes the column one of floats, and a text NA is an empty cell
            "pandas, read_excel of columns with empty cells": file(
                by_pandas(RECORD, in_column("note", "NA", 2)),
                [in_column("note", None, 2)],
                "'4006381333931.0' is not a bigint",
            ),
            "pandas, read_excel with types": file(
                by_pandas(
                    RECORD,
                    in_column("note", "NA", 2),
                    read={
                        "dtype": {"code": str, "number": "Int64", "ok": object},
                        "keep_default_na": False,
                        "na_values": "",
                    },
                ),
                [ROW, in_column("note", "NA", 2)],
            ),
            "Excel, CSV UTF-8": file(
                by_excel(RECORD, [2], encoding="utf-8-sig"), [ROW, [2, *NOTHING[1:]]]
            ),
            "Excel, zeros of a number format": file(
                by_excel(in_column("code", 123), encoding="utf-8-sig", formats={"code": "00000"}),
                [in_column("code", "00123")],
            ),
            # six digits are displayed, and the others are lost
            "Excel, numbers without a format": file(
                by_excel(
                    in_column("number", EAN),
                    in_column("amount", 123456789012, 2),
                    in_column("code", EAN, 3),
                    in_column("ratio", 1e20, 4),
                    encoding="utf-8-sig",
                    formats={},
                ),
                [in_column("code", "4.00638E+12", 3), in_column("ratio", 1e20, 4)],
                "'4.00638E+12' is not a bigint",
                "'1.23457E+11' is not a decimal(12, 2)",
            ),
            "Excel, thousands, per cent and days of America": file(
                by_excel(
                    in_column("amount", 1234.5),
                    in_column("ratio", 0.05, 2),
                    in_column("day", DAY, 3),
                    encoding="utf-8-sig",
                    formats={"amount": "#,##0.00", "ratio": "0%", "day": "mm/dd/yy"},
                ),
                [],
                "'1,234.50' is not a decimal(12, 2)",
                "'5%' is not a double",
                "'02/03/26' is not a date",
            ),
            "Excel, CSV of windows-1252": file(
                by_excel(in_column("note", "Größe"), in_column("note", "a", 2), encoding="cp1252"),
                [in_column("note", "a", 2)],
                "has bytes that are not UTF-8",
            ),
        },
    },
    *(
        {
            "stream": f"german_workbooks_{name}",
            "columns": {
                "id": "int",
                "name": "string",
                "amount_text": {"data_type": "string", "from": "Betrag (€)"},
                "day": {"data_type": "date", "from": "Tag"},
                "at": {"data_type": "timestamp", "from": "Zeitpunkt"},
                "ok_text": {"data_type": "string", "from": "Geprüft"},
                "amount": {
                    "data_type": "decimal(12, 2)",
                    "check": "amount is not null or amount_text is null",
                },
                "ok": {"data_type": "boolean", "check": "ok is not null or ok_text is null"},
            },
            "computed": {
                "amount": "try_cast(replace(replace(amount_text, '.', ''), ',', '.') "
                "as decimal(12, 2))",
                "ok": "case ok_text when 'WAHR' then true when 'FALSCH' then false end",
            },
            "declared": {
                "format": "csv",
                "options": {
                    "sep": ";",
                    "dateFormat": "dd.MM.yyyy",
                    "timestampFormat": "dd.MM.yyyy HH:mm",
                    **options,
                },
            },
            "select": "id, name, day, at, amount, ok",
            "files": files,
        }
        for name, options, files in (
            (
                "windows",
                {"encoding": "windows-1252"},
                {
                    "Excel, CSV": file(german("cp1252"), GERMAN_ROWS, *GERMAN_REFUSED),
                    "Excel, CSV UTF-8": file(
                        german("utf-8-sig"),
                        [],
                        "is UTF-8: declare options: {encoding: utf-8}; land",
                    ),
                },
            ),
            (
                "utf_8",
                {},
                {
                    "Excel, CSV UTF-8": file(german("utf-8-sig"), GERMAN_ROWS, *GERMAN_REFUSED),
                },
            ),
        )
    ),
    {
        "stream": "unicode_text_of_workbooks",
        "columns": COLUMNS,
        "declared": {"format": "csv", "options": {"encoding": "utf-16le", "sep": "\t"}},
        "files": {
            "Excel, Unicode Text": file(
                by_excel(RECORD, in_column("note", 'a\t"b"', 2), encoding="utf-16", sep="\t"),
                [ROW, in_column("note", 'a\t"b"', 2)],
            ),
        },
    },
    *(
        {
            "stream": f"header_of_workbooks_{number}",
            "columns": COLUMNS,
            "declared": {"format": "csv"},
            "stops": f"CSV header {reason}",
            "files": {title: file(write, [])},
        }
        for number, (title, write, reason) in enumerate(
            (
                (
                    "openpyxl, a title above the header",
                    by_openpyxl(HEADER, RECORD, header=["Report"], formats={}),
                    "does not conform to the schema. Header: Report, ",
                ),
                (
                    "openpyxl, a column without a name",
                    by_openpyxl([*RECORD, "x"]),
                    "is not equal to number of fields in the schema: Header length: 10",
                ),
                (
                    "Excel, a first line that names the separator",
                    by_excel(RECORD, encoding="utf-8", first="sep=,\r\n"),
                    "is not equal to number of fields in the schema: Header length: 2",
                ),
                (
                    "Excel, semicolons",
                    by_excel(RECORD, encoding="utf-8-sig", sep=";"),
                    "is not equal to number of fields in the schema: Header length: 1",
                ),
            )
        )
    ),
]
