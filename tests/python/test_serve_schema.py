"""Test the schema of the HTTP endpoint: bronze has each accepted record, with equal values."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from ingestion import Ingester, node
from serving import NOT_NULL, contract_of, inbox, orders

from headwaters.http.schema import (
    DEEPEST,
    MOST_RECORDS,
    NotJson,
    Reading,
    RecordProblem,
    RequestReader,
    TooMany,
    reader_of,
)

COLUMNS = {
    "n": "int",
    "s": "string",
    "t": "tinyint",
    "i": "bigint",
    "f": "float",
    "d": "double",
    "m": "decimal(6, 2)",
    "b": "boolean",
    "day": "date",
    "at": "timestamp",
    "lt": "timestamp_ntz",
    "bin": "binary",
    "arr": "array<int>",
    "mp": "map<string,double>",
    "st": "struct<a:int,b:array<string>,c:decimal(4,1)>",
}
RULES = {
    "n": [NOT_NULL],
    "i": [{"type": "check", "expression": "i <> 13 and not (i in (14, 15))"}],
    "s": [{"type": "check", "expression": "length(s) < 24"}],
    "m": [{"type": "check", "expression": "m between -9999.99 and 9999.98"}],
    "d": [{"type": "check", "expression": "d <> 0.25"}],
}
# values as JSON, by column: accepted, and refused
GOOD: dict[str, list[str]] = {
    "s": ['"x"', '"1.10"', '"{\\"x\\": 1.5}"', '"{x: 1.10}"', '"[1e3]"', '"\\ud83d\\ude00"', '""',
          '"\\\\ud800"', '"\\u00e4"', '"\'m\': 1e5"', '"Infinity"', "null", '"n"', '" a "'],
    "t": ["127", "-128", "0", "-0", "null"],
    "i": ["9223372036854775807", "-9223372036854775808", "null"],
    "f": ["1", "1.10", "3.4028235e38", "1e-400", "-0.0", "1E5", "0.1000000000000000055511151"],
    "d": ["1", "1.7976931348623157e308", "12345678901234567890", "-0.0", "1e-5", "2.5E+3", "null"],
    "m": ["1", "1.05", "9999.98", '"9999.98"', "-0.1", '"-9999.9"', "0", "-0.00", "null"],
    "b": ["true", "false", "null"],
    "day": ['"2026-02-03"', '"2024-02-29"', '"0001-01-01"', '"9999-12-31"', "null"],
    "at": ['"2026-02-03T04:05:06Z"', '"2026-02-03 04:05:06.123456Z"', '"2026-02-03T04:05:06+01:30"',
           '"2026-02-03T04:05:06.5-17:59"', '"0001-01-01T00:00:00Z"',
           '"9999-12-31T23:59:59.999999Z"', "null"],
    "lt": ['"2026-02-03T04:05:06.5"', '"2026-02-03 04:05:06"', '"0025-02-01T09:29:15.000015"',
           '"0001-01-01T00:00:00"', '"9999-12-31T23:59:59.999999"', "null"],
    "bin": ['"aGk="', '""', "null"],
    "arr": ["[]", "[1, null, 2]", "null"],
    "mp": ["{}", '{"a": 1.5, "b": null}', "null"],
    "st": ["{}", '{"a": 1, "b": ["1.5", null], "c": 99.9}', '{"c": "1.5"}', "null"],
}  # fmt: skip
BAD: dict[str, list[str]] = {
    "s": ["1", "1.5", "true", '{"x": 1}', "[]", '"\\ud800"', '"not so long, but too long"'],
    "t": ["128", "-129", "1.0", '"1"', "true"],
    "i": ["9223372036854775808", "1e3", '"1"', "13", "14", "15", "[]"],
    "f": ["3.5e38", '"1.5"', '"NaN"', '"Infinity"', '""', "true", "1e400", "NaN", "0." + "1" * 500],
    "d": ["1e309", '"1,5"', "Infinity", "[]", "1" * 400, "0.25"],
    "m": ["1.005", "9999.99", "10000", "1e3", '"1e3"', '"+1"', '"1."', '".5"', "1e100000000", '"x"',
          "true", '"1_0"', '"01"', '" 1"', "01", '""'],
    "b": ['"true"', "1", "0"],
    "day": ['"2026-02-30"', '"2026"', "1", '"2026-2-3"', '"2026-02-03T00:00:00Z"', '"0000-01-01"',
            '"20260203"', '" 2026-02-03"'],
    "at": ['"2026-02-03T04:05:06"', '"2026-02-03"', "0", '"2026-02-03T04:05Z"', '"12:00"',
           '"2026-02-03t04:05:06z"', '"2026-02-03T04:05:06.1234567Z"', '"2026-02-03T04:05:06+0100"',
           '"2026-02-03T04:05:06 Europe/Berlin"', '"2026-02-03T24:00:00Z"',
           '"2026-02-30T00:00:00Z"', '"9999-12-31T23:59:59-01:00"', '"0001-01-01T00:00:00+01:00"',
           '"2026-02-03T04:05:06+18:00"', '"2026-02-03T04:05:60Z"', '"2026-02-03T04:05:06.Z"'],
    "lt": ['"2026-02-03T04:05:06Z"', '"2026-02-03T25:00:00"', "0", '"2026-02-03"'],
    "bin": ['"a"', '"a*=="', "1", '"aGl="'],
    "arr": ['["1"]', "{}", "[1.5]", "[[1]]", "[2147483648]"],
    "mp": ['{"a": "x"}', "[]", '"x"', '{"a": 1e400}', '{"a": 1, "a": 2}', '{"a": 1e5}'],
    "st": ['{"a": "1"}', '{"b": [1]}', "[]", '{"c": 1000}', '{"c": 9.95}', '{"other": 1}'],
}  # fmt: skip
WHOLE_GOOD = [
    '{"n": %d, "extra": {"deep": [1, {"x": 2}]}, "N": 1, "": true}',
    '{"n": %d, "extra": 1.50, "text": "1.10", "int": 12345678901234567890}',
    ' {"n": %d} ',
    '{"n": %d, "d": 0.1000000000000000055511151}',
    '{"n": %d, "extra": ' + "[" * 150 + "]" * 150 + "}",
]
WHOLE_BAD = [
    '{"n": %d',
    '[{"n": %d}]',
    '{"n": %d} {"n": 1}',
    '{"n": %d}, {"n": 1}',
    "{'n': %d}",
    '{"n": null, "i": %d}',
    '{"n": %d, "n": 1}',
    '{"n": %d, "extra": 1, "extra": 2}',
    '{"n": %d, "extra": {"x": 1, "x": 2}}',
    '{"n": %d, "extra": 12345678901234567.5}',
    '{"n": %d, "extra": 0.30000000000000004}',
    '{"n": %d, "extra": [1e3]}',
    '{"n": %d, "extra": {"m": 1e100000000}}',
    '{"n": %d, "s": "\'m\': 1e100000"}',
    '{"n": %d, "d": 0.1000000000000000055511151, "extra": "0.1"}',
    '{"n": %d, "d": 0.1000000000000000055511151, "s": "[0.1]"}',
    '{"n": %d, "\\u0073": "1.5"}',
    '{"n": %d, "extra": "\\uDC00"}',
    '{"n": %d, "extra": ' + "[" * 300 + "]" * 300 + "}",
    '{"n": %d, "extra": ' + "[" * 10_000 + "]" * 10_000 + "}",
    '{"n": %d, "extra": ' + "1" * 600 + "}",
    '{"n": %d, "' + "x" * 60_000 + '": 1}',
    '{"n": %d, "s": "tab\there"}',
    "%d",
]


# a number, and the text that Spark would write for it, if the column is a text
REWRITTEN = [("1.50", "1.5"), ("-0.10", "-0.1"), ("5.00", "5.0"), ("-0", "0"), ("-0.00", "-0.0"),
             ("0.0001", "1.0E-4"), ("12345678.5", "1.23456785E7")]  # fmt: skip
BESIDE_TEXT_GOOD = [
    '{"n": %d, "d": A, "s": "B", "mp": {"B": A}, "st": {"b": ["B"]}}',
    '{"n": %d, "s": "B", "extra": {"s": A}, "st": {"b": ["B"]}}',
    '{"n": %d, "extra": A, "s": "B", "st": {"b": ["B", "x"]}}',
]
EVENTS_GOOD = [
    '{"op": "c", "after": {"n": %d, "d": A}, "source": {"x": "B"}}',
    '{"op": "c", "after": {"n": %d, "d": A, "s": "B"}, "source": {"x": 7, "y": 2.5}}',
    '{"op": "u", "before": {"n": %d, "s": "B"}, "after": {"n": %d, "d": A}}',
    '{"op": "d", "before": {"n": %d, "s": "B", "d": A}, "source": null}',
    '{"op": "r", "after": {"n": %d, "extra": A, "s": "B"}, "more": "B"}',
    '{"op": "c", "after": {"n": %d, "s": "B"}, "source": {"x": [A], "y": {"z": A}}}',
    '{"schema": {"version": A}, "payload": {"op": "c", "after": {"n": %d, "s": "B"}}}',
    '{"op": "c", "after": {"n": %d, "m": "1.50"}, "source": {"x": 1.5, "y": -0.0, "z": -820.001}}',
]
EVENTS_BAD = [
    '{"op": "c", "after": {"n": %d}, "source": {"x": A}}',
    '{"op": "c" , "after": {"n": %d, "d" : A}, "source" : {"x" : B}}',
    '{"op": "d", "before": {"n": %d}, "source": {"y": 1.5, "x": A}}',
    '{"op": "u", "before": {"n": %d, "d": A}, "after": {"n": %d}, "source": {"x": B}}',
    '{"schema": {"version": A}, "payload": {"op": "c", "after": {"n": %d}, "source": {"x": B}}}',
    '{"op": "c", "after": {"n": %d, "d" : 0.0, "b" : true, "lt" : "0025-02-01T09:29:15.000015", '
    '"bin":"aGk="}, "ts_ms": 5, "source": {"lsn": 1.5, "x": -821.3444955390}}',
    '{"schema": {"x": 0.10000000000000000555}, '
    '"payload": {"op": "c", "after": {"n": %d, "d": 0.1}}}',
]


def rewritten(forms: list[str]) -> list[str]:
    """Return records of these forms with each number of JSON, and its text."""
    return [
        *dict.fromkeys(
            form.replace("A", sent).replace("B", kept) for form in forms for sent, kept in REWRITTEN
        )
    ]


def reading_of(reader: RequestReader, record: str) -> Reading:
    """Read one record as the endpoint does."""
    return reader.read(record.encode("utf-8", "surrogatepass"), "lines", keep_rows=True)


def accepts(reader: RequestReader, record: str) -> bool:
    reading = reading_of(reader, record)
    assert len(reading.texts) + reading.refused == 1
    return not reading.refused


READER = RequestReader(contract_of(node(COLUMNS, rules=RULES)))
CHANGES = {"changes": {"key": ["n"], "envelope": "debezium"}}
SCALARS = {name: kind for name, kind in COLUMNS.items() if name not in ("arr", "mp", "st")}


@pytest.mark.parametrize("column", GOOD)
def test_a_value_is_accepted_or_refused_by_its_type(column: str) -> None:
    found = {value: accepts(READER, f'{{"n": 1, "{column}": {value}}}') for value in GOOD[column]}
    assert found == dict.fromkeys(GOOD[column], True)
    found = {value: accepts(READER, f'{{"n": 1, "{column}": {value}}}') for value in BAD[column]}
    assert found == dict.fromkeys(BAD[column], False)


def test_a_record_is_accepted_or_refused_as_a_whole() -> None:
    assert READER.unchecked == []
    assert [text for text in WHOLE_GOOD if not accepts(READER, text.replace("%d", "1"))] == []
    assert [text for text in WHOLE_BAD if accepts(READER, text.replace("%d", "1"))] == []


def test_a_number_near_a_text_is_refused_if_it_would_be_another_text() -> None:
    events = reader_of(contract_of(node(SCALARS, CHANGES, "events", RULES)))
    for reader, good in ((READER, BESIDE_TEXT_GOOD), (events, EVENTS_GOOD)):
        texts = [text.replace("%d", "1") for text in rewritten(good)]
        assert [text for text in texts if not accepts(reader, text)] == []
    bad = [text.replace("%d", "1") for text in rewritten(EVENTS_BAD)]
    assert [text for text in bad if accepts(events, text)] == []
    (problem,) = reading_of(events, bad[0]).problems
    assert problem == RecordProblem(
        0, "type", "source", "has the number 1.50, which would change as text: send a string"
    )


# -- compared with ingestion -----------------------------------------------------------------------

PIECES = [value for values in (GOOD, BAD) for column in values for value in values[column]]
TEXTS = st.text(max_size=6).map(json.dumps) | st.text(max_size=6).map(
    lambda text: json.dumps(text, ensure_ascii=False)
)
WHOLE = st.integers(-(2**64), 2**64).map(str) | st.integers(-200, 200).map(str)
POINTS = st.decimals(allow_nan=False, allow_infinity=False).map(str) | st.floats().map(repr)
MOMENTS = st.datetimes().map(datetime.isoformat)
ZONED = st.builds("{}{}".format, MOMENTS, st.sampled_from(["Z", "+01:00", "-17:30"]))
FITTING: dict[str, st.SearchStrategy[str]] = {
    "string": TEXTS,
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr) | WHOLE,
    "double": st.floats(allow_nan=False, allow_infinity=False).map(repr) | WHOLE,
    "decimal": st.decimals(-9999, 9999, places=2).map(str),
    "boolean": st.sampled_from(["true", "false"]),
    "date": st.dates().map(lambda day: f'"{day}"'),
    "timestamp": ZONED.map('"{}"'.format),
    "timestamp_ntz": MOMENTS.map('"{}"'.format),
    "binary": st.binary(max_size=4).map(lambda value: f'"{b64encode(value).decode()}"'),
}
ANY = st.recursive(
    TEXTS | WHOLE | POINTS | st.sampled_from(PIECES),
    lambda inner: st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
    max_leaves=4,
)


@st.composite
def fields(draw: st.DrawFn, columns: dict[str, str]) -> str:
    """Draw the fields of a record without `n`, each after a comma: good, or almost good."""
    parts = []
    for name, kind in columns.items():
        # the draws of `integers` are small more often than not
        kind_of_value = draw(st.sampled_from(range(30)))
        if name == "n" or kind_of_value % 3 == 0:
            continue
        fitting = FITTING.get(kind.split("(")[0], st.integers(-128, 127).map(str))
        if kind_of_value == 1:
            fitting = ANY
        elif kind_of_value < 12 or name in ("arr", "mp", "st"):
            fitting = st.sampled_from(GOOD[name])
        sign = draw(st.sampled_from([":", ": ", " : "]))
        parts.append(f'"{name}"{sign}{draw(fitting)}')
    if draw(st.sampled_from(range(5))) == 0:
        name = draw(st.sampled_from(["extra", "N", "ä", "", "\\u0073", "s"]))
        parts.append(f'"{name}": {draw(ANY)}')
    return "".join(f", {part}" for part in draw(st.permutations(parts)))


def drawn(strategy: st.SearchStrategy[str], number: int) -> list[str]:
    """Return examples of a strategy, the same in each run."""
    found: list[str] = []

    @settings(
        max_examples=number,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(strategy)
    def collect(example: str) -> None:
        found.append(example)

    collect()
    return found


def stored(ingester: Ingester, table: str) -> list[dict[str, Any]]:
    path = ingester.lake / "warehouse" / "bronze.db" / table
    rows: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
    return rows


def single(number: float | None) -> float | None:
    """Return the nearest number of 32 bits."""
    return None if number is None else float(struct.unpack("f", struct.pack("f", number))[0])


def as_rescued(record: str) -> dict[str, Any] | None:
    """Return the undeclared fields of a record that have a value."""
    undeclared = {k: v for k, v in _exact(record).items() if k not in COLUMNS and v is not None}
    return undeclared or None


def _exact(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def same(sent: Any, kept: str) -> bool:
    """Compare the text of a rescued field with the value that was sent."""
    return sent == kept if isinstance(sent, str) else sent == _exact(kept)


def test_all_that_the_endpoint_accepts_is_in_bronze_with_the_same_value(
    ingester: Ingester,
) -> None:
    closed = node(SCALARS, {"schema": "fail"}, "closed", RULES)
    events = node(SCALARS, CHANGES, "events", RULES)
    declared = node(COLUMNS, rules=RULES)
    whole = [*WHOLE_GOOD, *WHOLE_BAD, *rewritten(BESIDE_TEXT_GOOD)]
    named = rewritten([*EVENTS_GOOD, *EVENTS_BAD])
    values = [f'{{"n": %d, "{c}": {v}}}' for t in (GOOD, BAD) for c in t for v in t[c]]
    records = [f'{{"n": %d{one}}}' for one in drawn(fields(COLUMNS), 700)]
    few = [f'{{"n": %d{one}}}' for one in drawn(fields(SCALARS), 300)]
    wrapped = [
        f'{{"op": "{op}", "{image}": {record}, "ts_ms": 5, "source": {{"lsn": 1.5, "x": {value}}}}}'
        for record, value, op, image in zip(
            [*values, *few],
            [f'"{number}"' if number % 4 else one for number, one in enumerate(drawn(ANY, 600))],
            ["c", "u", "d", "r"] * 150,
            ["after", "after", "before", "after"] * 150,
            strict=False,
        )
    ]
    expected: dict[str, dict[int, tuple[str, dict[str, Any]]]] = {}
    for stream, texts in (
        (declared, [*whole, *values, *records]),
        (closed, [*values, *few]),
        (events, [*wrapped, *named]),
    ):
        name, reader = stream["name"], reader_of(contract_of(stream))
        taken = expected[name] = {}
        for number, text in enumerate(texts):
            record = text.replace("%d", str(number))
            reading = reading_of(reader, record)
            if reading.texts:
                ((taken[number]),) = [(record, row) for row in reading.rows]
        ingester.land("a.jsonl", *(record for record, _ in taken.values()), stream=name)
    print({name: len(taken) for name, taken in expected.items()})
    assert [len(taken) > 100 for taken in expected.values()] == [True] * 3
    ingester.run(declared, closed, events)
    for name, taken in expected.items():
        assert ingester.quarantine(name) == []
        rows = {row["n"]: row for row in stored(ingester, name)}
        assert sorted(rows) == sorted(taken)
        for number, (record, row) in taken.items():
            kept = {column: rows[number][column] for column in row}
            assert kept == row | {"f": single(row["f"])}, record
            if name == "orders":
                rescued = rows[number]["_rescued"]
                undeclared = as_rescued(record)
                assert (rescued is None) == (undeclared is None), record
                texts_kept = json.loads(rescued) if rescued else {}
                assert undeclared is None or all(
                    same(value, texts_kept[field]) for field, value in undeclared.items()
                ), (record, rescued)


# -- requests --------------------------------------------------------------------------------------


def test_every_problem_of_each_record_is_listed_with_its_place_type_and_field() -> None:
    reader = RequestReader(contract_of(orders("b:1", "t")))
    body = b'{"id": "a"}\n\n{"id": 7, "amount": "x"}\r\n{"amount": -1}\nnonsense\n  \n'
    body += b'{"id": "c", "amount": -1}'
    reading = reader.read(body, "lines")
    assert reading.problems == [
        RecordProblem(1, "type", "id", "'7' is not a string"),
        RecordProblem(1, "type", "amount", "'x' is not a decimal(8, 2)"),
        RecordProblem(2, "not_null", "id", "is null"),
        RecordProblem(2, "check", "amount", "violates amount > 0"),
        RecordProblem(
            3, "malformed", None, "is not JSON: Expecting value (character 1 of the record)"
        ),
        RecordProblem(4, "check", "amount", "violates amount > 0"),
    ]
    assert (reading.refused, reading.texts) == (4, [])
    good = reader.read(b'[ {"id": "a", "amount": 1.50} ,{"id":"\xc3\xa4"}]\n', "array")
    assert good.refused == 0
    assert [bytes(text) for text in good.texts] == [
        b'{"id": "a", "amount": 1.50}',
        b'{"id":"\xc3\xa4"}',
    ]
    assert reader.read(b"[]", "array").texts == reader.read(b"\n \r\n", "lines").texts == []


@pytest.mark.parametrize(
    "body",
    [b"", b'{"id": 1}', b'[{"id": "a"}', b'[{"id": "a"},]', b'[{"id": "a"}] x', b"[" * 100_000],
)
def test_a_body_that_is_no_array_is_refused(body: bytes) -> None:
    with pytest.raises(NotJson, match="the body is no array of JSON"):
        RequestReader(contract_of(orders("b:1", "t"))).read(body, "array")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b'{"id": "\xff"}', "has bytes that are not UTF-8"),
        (b"1", "is not a JSON object"),
        (b'{"id": }', "is not JSON: Expecting value (character 8 of the record)"),
        (b'{"id": "a", "x": NaN}', "is not JSON: JSON is malformed"),
        (b'{"id": "\\ud800"}', "has half of a surrogate pair"),
        (b'{"id": ' + b"1" * 5000 + b"}", "is not JSON: a number of too many digits"),
        (b'{"id": ' + b"[" * 100_000, f"is nested more than {DEEPEST} levels deep"),
        (b'{"id": "a", "id": "b"}', "id is there more than once"),
    ],
)
def test_a_record_that_is_no_object_is_refused(record: bytes, message: str) -> None:
    (problem,) = RequestReader(contract_of(orders("b:1", "t"))).read(record, "lines").problems
    assert (problem.index, problem.type, problem.field) == (0, "malformed", None)
    assert problem.message.startswith(message)


def test_a_request_has_bounded_numbers_of_records_and_of_problems() -> None:
    reader = RequestReader(contract_of(orders("b:1", "t")))
    reading = reader.read(b"{}\n" * MOST_RECORDS, "lines")
    assert (reading.refused, len(reading.problems), reading.texts) == (MOST_RECORDS, 100, [])
    with pytest.raises(TooMany):
        reader.read(b"[" + b"{}," * MOST_RECORDS + b"{}]", "array")


@pytest.mark.parametrize("known", [True, False])
def test_keys_are_the_texts_of_a_field(known: bool) -> None:
    reader = RequestReader(contract_of(node({"s": "string", "i": "bigint", "m": "decimal(8, 4)"})))
    records: list[dict[str, Any]] = [{"s": "ä", "i": 7, "m": "0.0001"}, {"s": None, "m": 1.5}]
    records += [] if known else [{"s": "x", "extra": 1}]
    for key, keys in (
        ("s", ["ä", None, "x"]),
        ("i", ["7", None, None]),
        ("m", ["0.0001", "1.5", None]),
    ):
        reading = reader.read(json.dumps(records).encode(), "array", key)
        assert reading.keys == keys[: len(records)]


def test_values_for_delta_have_the_types_of_the_contract() -> None:
    reader = RequestReader(contract_of(inbox(COLUMNS, schema="fail")), no_others=True)
    record = {
        "n": 1, "s": "20", "t": None, "i": 2, "f": 1.5, "d": 1, "m": "1.05", "b": True,
        "day": "2026-02-03", "at": "2026-02-03T04:05:06.123456+01:00", "lt": "2026-02-03 04:05:00",
        "bin": "aGk=", "arr": [1, None], "mp": {"a": 1}, "st": {"b": ["x"], "c": "9.5"},
    }  # fmt: skip
    (row,) = reader.read(json.dumps([record]).encode(), "array", keep_rows=True).rows
    assert row == {
        "n": 1, "s": "20", "t": None, "i": 2, "f": 1.5, "d": 1.0, "m": Decimal("1.05"),
        "b": True, "day": date(2026, 2, 3), "at": datetime(2026, 2, 3, 3, 5, 6, 123456, UTC),
        "lt": datetime(2026, 2, 3, 4, 5), "bin": b"hi", "arr": [1, None], "mp": [("a", 1.0)],
        "st": {"a": None, "b": ["x"], "c": Decimal("9.5")},
    }  # fmt: skip


@given(st.lists(fields(SCALARS), max_size=3), st.sampled_from([None, "s", "i"]))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_records_are_read_alike_together_and_one_by_one(parts: list[str], key: str | None) -> None:
    texts = [f'{{"n": 1{one}}}'.encode() for one in parts]
    together = READER.read(b"\n".join(texts), "lines", key, keep_rows=True)
    alone = [READER.examine(text) for text in texts]
    assert together.refused == sum(bool(one.reasons) for one in alone)
    if not together.refused:
        assert [*map(bytes, together.texts)] == texts
        assert together.rows == [one.row for one in alone]


# -- conditions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "holds", "breaks"),
    [
        ("m > 1", {"m": "1.01"}, {"m": 1.0}),
        ("1 < m", None, None),
        ("d >= -1.5", {"d": -1.5}, {"d": -1.6}),
        ("s in ('a', 'ä')", {"s": "ä"}, {"s": "b"}),
        ("S not in ('a', 'b')", {"s": "c"}, {"s": "a"}),
        ("length(s) between 2 and 3", {"s": "äöü"}, {"s": "a"}),
        ("t <> -1 and (i < 5)", {"t": 2}, {"i": 5}),
        ("not (t = -1)", {"t": 2}, {"t": -1}),
        *((other, None, None) for other in (
            "s in ('a', null)", "s is not null", "b", "b or t > 1", "s like 'a%'", "i = '1'",
            "day > '2026-01-01'", "upper(s) = 'A'", "nope > 1", "m + 1 > 0", "s = 'a\\\\b'",
            "length(bin) > 1", "i in (select 1)", "at > day", "m >", "m > 1e3", "i = t",
            "m < 1234567890123456", "st.a > 1", "not (t = -1 and i = 1)",
        )),
    ],
)  # fmt: skip
def test_a_limit_of_a_value_is_checked_and_another_condition_left_to_ingestion(
    expression: str, holds: dict[str, Any] | None, breaks: dict[str, Any] | None
) -> None:
    rules = {"n": [{"type": "check", "expression": expression}]}
    reader = RequestReader(contract_of(node(COLUMNS, rules=rules)))
    if holds is None or breaks is None:
        assert reader.unchecked == [f"n: {expression}"]
        return
    assert reader.unchecked == []
    assert [accepts(reader, json.dumps(one)) for one in ({}, holds, breaks)] == [True, True, False]
    (problem,) = reading_of(reader, json.dumps(breaks)).problems
    assert problem == RecordProblem(0, "check", "n", f"violates {expression}")


def test_conditions_of_computed_columns_are_left_to_ingestion() -> None:
    rules = {"id": [NOT_NULL], "at": [NOT_NULL, {"type": "check", "expression": "id > 1"}]}
    declared = node({"id": "bigint", "at": "bigint"}, None, "orders", rules, {"at": "id + 1"})
    assert RequestReader(contract_of(declared)).unchecked == ["at: at is not null"]


def test_a_contract_with_a_format_of_dates_is_refused() -> None:
    declared = node({"at": "date"}, {"options": {"dateFormat": "dd.MM.yyyy"}})
    with pytest.raises(ValueError, match="takes ISO 8601 alone: remove dateFormat"):
        reader_of(contract_of(declared))


# -- change events ---------------------------------------------------------------------------------

EVENT = {
    "before": None,
    "after": {"id": "7", "amount": "1.50"},
    "op": "c",
    "ts_ms": 5,
    "source": {},
}
OLD = {"id": "7", "amount": "1.00"}


def changes_of(**stream: Any) -> Any:
    """Return a stream of changes in Debezium's envelope."""
    declared = {"changes": {"key": ["id"], "envelope": "debezium"}, **stream}
    return reader_of(contract_of(orders("b:1", "t", **declared)))


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (EVENT, None),
        ({"schema": {}, "payload": EVENT}, None),
        (EVENT | {"op": "u", "before": OLD}, None),
        # with PostgreSQL's default identity, an event has only the key of the earlier row
        (EVENT | {"op": "u", "before": {"id": "7", "amount": None}}, None),
        (EVENT | {"op": "d", "before": {"id": "7"}, "after": None}, None),
        (EVENT["after"], ("malformed", None, "has no op, and is no change event")),
        (EVENT | {"op": "t"}, ("check", "op", "'t' is not c, r, u or d")),
        (EVENT | {"after": None}, ("malformed", None, "has no after")),
        (EVENT | {"op": "d"}, ("malformed", None, "has no before")),
        (EVENT | {"after": {"amount": 1}}, ("not_null", "id", "is null")),
        (EVENT | {"op": "d", "before": {"amount": 1}}, ("not_null", "id", "is null")),
        (
            EVENT | {"after": {"id": "7", "amount": "x"}},
            ("type", "amount", "'x' is not a decimal(8, 2)"),
        ),
        (
            EVENT | {"after": {"id": "7", "amount": ""}},
            ("type", "amount", "has no value, but needs a decimal(8, 2)"),
        ),
        (
            EVENT | {"op": "u", "before": {"id": "8"}},
            ("check", "id", "is changed by an update: send a deletion and an insertion"),
        ),
        (
            EVENT | {"ts_ms": "yesterday"},
            ("type", None, "ts_ms is no whole number, or source no object"),
        ),
        ([EVENT], ("malformed", None, "is not a JSON object")),
    ],
)
def test_a_change_event_is_checked_inside_of_its_envelope(event: Any, problem: Any) -> None:
    reading = changes_of().read(json.dumps(event).encode() + b"\n", "lines")
    told = [(one.type, one.field, one.message) for one in reading.problems]
    assert told == ([] if problem is None else [problem])
    assert reading.texts == ([json.dumps(event).encode()] if problem is None else [])


def test_a_field_of_a_row_that_is_not_declared_is_refused_where_the_contract_says_so() -> None:
    event = EVENT | {"after": {"id": "7", "city": "Bonn"}}
    (told,) = changes_of(schema="fail").read(json.dumps(event).encode(), "lines").problems
    assert (told.type, told.field) == ("schema", "city")
