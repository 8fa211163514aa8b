"""What the front door accepts: in milliseconds, and once compared with what ingestion does."""

from __future__ import annotations

import asyncio
import gzip
import hmac
import json
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ingestion import Ingester, node
from serving import NOT_NULL, contract_of, inbox, orders

from headwaters.errors import UserError
from headwaters.serve.bodies import Body, Budget, Refusal, form_of
from headwaters.serve.checks import Check
from headwaters.serve.events import reader_of
from headwaters.serve.keys import Keys, keys_from
from headwaters.serve.moments import timestamp
from headwaters.serve.records import DEEPEST, MOST_RECORDS, Problem, Reader, TooMany
from headwaters.serve.values import fits, read, type_of

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
    "i": [
        {"type": "check", "expression": "i between -9223372036854775808 and 9223372036854775807"},
        {"type": "check", "expression": "i <> 13 and (i is null or not i in (14, 15))"},
    ],
    "s": [{"type": "check", "expression": "length(s) < 24 or s like 'long%'"}],
    "m": [{"type": "check", "expression": "m <> 0.01"}],
}
# values as JSON, by column: what is a value of its type, and what is none
GOOD: dict[str, list[str]] = {
    "s": ['"x"', "1", "-0", "12345678901234567890", "true", "1.5", "0.001", "0.0", "1234567.5",
          '"1.10"', '{"x": 1.5, "y": [1, null]}', "[1e3]", '"\\ud83d\\ude00"', '""', '"\\\\ud800"'],
    "t": ["127", "-128", "0", "null"],
    "i": ["9223372036854775807", "-9223372036854775808", "null"],
    "f": ["1", "1.10", "3.4028235e38", "1e-400", '"NaN"', '"Infinity"', '"-INF"', '"+Infinity"'],
    "d": ["1", "1.7976931348623157e308", "12345678901234567890", "-0.0", '"+INF"'],
    "m": ["1", "1.005", "9999.994", '"9999.99"', "1e3", '"1e3"', '"+1"', '"1."', '".5"', "-0.004",
          "1e-9999", "9999"],
    "b": ["true", "false"],
    "day": ['"2026-02-03"', '"2026-2-3"', '"2024-02-29"', '"2026-02-03T00:00:00Z"',
            '" 2026-02-03"'],
    "at": ['"2026-02-03T04:05:06Z"', '"2026-02-03 04:05:06.123456789"', '"2026-02-03"', "0",
          "253402300799", "-62135596800",
          '"2026-2-3 4:5:6+01:00"', '"2026-02-03T04:05"', '"2026-02-03T04"',
          '"2026-02-03T04:05:06+0130"', '"2026-02-03T04:05:06 UTC"', '"2026-02-03T04:05:06-18:00"',
          '"2026-02-03T04:05:06 Europe/Berlin"', '"2026-02-03T04:05:06."',
           '"2026-02-03T04:05:06+1:30"'],
    "lt": ['"2026-02-03T04:05:06.5"', '"2026-02-03"', '"2026-2-3 4:5"'],
    "bin": ['"aGk="', '""'],
    "arr": ["[]", "[1, null, 2]"],
    "mp": ["{}", '{"a": 1.5, "b": null}'],
    "st": ["{}", '{"a": 1, "b": ["1.5", 2, 2.5], "c": 99.94, "other": [1]}'],
}  # fmt: skip
BAD: dict[str, list[str]] = {
    "s": ["1.10", "123456789.5", "1e3", '{"x": 12345678901234567890.1}', "[1e400]",
          '"\\ud800"', '"not so long, but too long"', "0.0001"],
    "t": ["128", "-129", "1.0", '"1"', "true"],
    "i": ["9223372036854775808", "1e3", '"1"', "13", "14", "15", "[]"],
    "f": ["3.5e38", '"1.5"', '"inf"', '""', "true", "1e400"],
    "d": ["1e309", '"1,5"', '"1d"', "[]"],
    "m": ["9999.995", "10000", '"1,5"', '" 1"', '""', '"1e10000"', "1e100000000", "0.005", '"x"',
          "1e9999", "true", '"1_0"'],
    "b": ['"true"', "1", "0"],
    "day": ['"2026-02-30"', '"2026"', "1", '"2026-02-03T01:00:00Z"', '"2026-02-03x"',
            '"26-02-03"', '"0000-01-01"'],
    "at": ['"9999-12-31T23:59:59-01:00"', '"0001-01-01T00:00:00+01:00"', "-62135596801",
          '"2026-02-30T00:00:00Z"', '"12:00"', "253402300800", "1.5", '"2026-02-03T24:00:00Z"',
          '"2026-02-03T04:05:06+19:00"', '"2026-02-03T04:05:06 Nowhere/City"',
          '"2026-02-03T04:05Z"',
          '"2026-02-03T04:60:06Z"', '"2026-02-03T"', '"2026-02-03T04:05:06+130"'],
    "lt": ['"2026-02-03T04:05:06Z"', '"2026-02-03T25:00:00"', "0"],
    "bin": ['"a"', '"a*=="', "1"],
    "arr": ['["1"]', "{}", "[1.5]", "[[1]]", "[2147483648]"],
    "mp": ['{"a": "x"}', "[]", '"x"'],
    "st": ['{"a": "1"}', '{"b": [1.10, 0.1000000000000000055511151]}', "[]", '{"c": 999.95}'],
}  # fmt: skip
WHOLE_GOOD = [
    '{"n": %d, "extra": {"deep": [1, {"x": 2}]}, "N": 1, "": true}',
    '{"n": %d, "extra": 1.50, "more": 0.30000000000000004, "text": "1.10"}',
    ' {"n": %d} ',
    '{"\\u006e": %d, "s": "x"}',
    '{"n": %d, "extra": ' + "[" * 150 + "]" * 150 + "}",
]
WHOLE_BAD = [
    '{"n": %d, "d": NaN}',
    '{"n": %d, "mp": {"a": 1e400}}',
    '{"n": %d',
    '[{"n": %d}]',
    '{"n": %d} {"n": 1}',
    '{"n": %d}, {"n": 1}',
    '{"n": null, "i": %d}',
    '{"n": %d, "n": 1}',
    '{"n": %d, "extra": 1, "extra": 2}',
    '{"n": %d, "extra": 12345678901234567.5}',
    '{"n": %d, "extra": [1e400]}',
    '{"n": %d, "extra": {"m": 1e100000000}}',
    '{"n": %d, "d": 0.1000000000000000055511151, "extra": "0.1"}',
    '{"n": %d, "\\u0073": "1.5"}',
    '{"n": %d, "extra": "\\uDC00"}',
    '{"n": %d, "extra": ' + "[" * 10_000 + "]" * 10_000 + "}",
    '{"n": %d, "extra": ' + "1" * 1_200 + "}",
    '{"n": %d, "' + "x" * 60_000 + '": 1}',
    '{"n": %d, "s": "tab\there"}',
    "%d",
]
# what ingestion takes, and the door refuses: no JSON by its standard, or changed without a word
STRICTER = [
    "{'n': %d}",
    '{"n": %d, "s": 1.0E10}',
    '{"n": %d, "extra": {"x": 1, "x": 2}}',
    '{"n": %d, "extra": 1e21}',
    '{"n": %d, "extra": ' + "[" * 300 + "]" * 300 + "}",
    '{"n": %d, "extra": ' + "1" * 600 + "}",
]


def cases() -> dict[str, str]:
    """Each record, and who is expected to take it."""
    found = [(f'{{"n": %d, "{name}": {v}}}', "both") for name in GOOD for v in GOOD[name]]
    found += [(f'{{"n": %d, "{name}": {v}}}', "none") for name in BAD for v in BAD[name]]
    found += [(text, "both") for text in WHOLE_GOOD] + [(text, "none") for text in WHOLE_BAD]
    found += [(text, "ingestion") for text in STRICTER]
    return {text.replace("%d", str(number)): who for number, (text, who) in enumerate(found)}


def accepted(reader: Reader, record: str) -> bool:
    """Whether the door takes a record."""
    reading = reader.read(record.encode(), "lines")
    assert len(reading.texts) + reading.refused == 1
    return not reading.refused


def test_what_the_door_accepts_ingestion_puts_into_bronze_and_refuses_what_it_refuses(
    ingester: Ingester,
) -> None:
    expected = cases()
    declared = node(COLUMNS, rules=RULES)
    reader = Reader(contract_of(declared))
    assert reader.unchecked == ["s: length(s) < 24 or s like 'long%'"]
    closed = node({"n": "int"}, {"schema": "fail"}, "closed")
    ingester.land("a.jsonl", *expected)
    ingester.land("a.jsonl", '{"n": 1}', stream="closed")
    ingester.run(declared, closed)
    in_bronze = {row[0] for row in ingester.rows("orders", "n")}
    found = {}
    for number, record in enumerate(expected):
        door, ingestion = accepted(reader, record), number in in_bronze
        found[record] = {
            (True, True): "both",
            (False, False): "none",
            (False, True): "ingestion",
        }.get((door, ingestion), "door alone")
    too_long = '"not so long, but too long"'  # a check that is left to ingestion
    expected |= {record: "door alone" for record in expected if too_long in record}
    assert {r: (w, expected[r]) for r, w in found.items() if w != expected[r]} == {}
    assert ingester.rows("closed", "n") == [[1]]
    refusing = Reader(contract_of(closed))
    closed_records = ['{"n": 1}', '{"n": 2, "N": 1}', '{"n": 3, "": null}']
    assert [accepted(refusing, record) for record in closed_records] == [True, False, False]


def test_each_bad_record_is_named_with_its_place_type_and_field() -> None:
    reader = Reader(contract_of(orders("b:1", "t")))
    body = b'{"id": "a"}\n\n{"id": "b", "amount": "x"}\r\n{"amount": 1}\nnonsense\n  \n'
    body += b'{"id": "c", "amount": -1}'
    reading = reader.read(body, "lines")
    assert reading.problems == [
        Problem(1, "type", "amount", "'x' is not a decimal(8, 2)"),
        Problem(2, "not_null", "id", "is null"),
        Problem(3, "malformed", None, "is not a JSON object"),
        Problem(4, "check", "amount", "violates amount > 0"),
    ]
    good = reader.read(b'[ {"id": "a", "amount": 1.50} ,{"id":"\xc3\xa4"}]\n', "array")
    assert good.refused == 0
    assert [bytes(text) for text in good.texts] == [
        b'{"id": "a", "amount": 1.50}',
        b'{"id":"\xc3\xa4"}',
    ]
    assert reader.read(b"[]", "array").texts == reader.read(b"\n \r\n", "lines").texts == []


@pytest.mark.parametrize(
    ("body", "index", "message"),
    [
        (b"", 0, "the request is not a JSON array: send [...], or a record a line as NDJSON"),
        (b'{"id": 1}', 0, "the request is not a JSON array"),
        (b'[{"id": "a"}', 1, "is not JSON: the array is not continued by a comma"),
        (b'[{"id": "a"},]', 1, "is not a JSON object"),
        (b'[{"id": "a"}] x', 1, "is not JSON: text follows the array"),
        (
            b'[{"id": "a"}, {"id": }]',
            1,
            "is not JSON: a value is missing (character 8 of the record)",
        ),
        (b'[{"id": "\xff"}]', 0, "has bytes that are not UTF-8"),
        (b'[1, {"id": "a"}]', 0, "is not a JSON object"),
        (b'[{"id": "a", "x": NaN}]', 0, "is not JSON: NaN is not JSON: write it as a string"),
        (b'[{"id": ' + b"1" * 5000 + b"}]", 0, "is not JSON: a number of too many digits"),
        (b'[{"id": ' + b"[" * 100_000, 0, f"is nested more than {DEEPEST} levels deep"),
    ],
)
def test_a_body_that_is_no_array_of_records_is_refused(
    body: bytes, index: int, message: str
) -> None:
    (problem,) = Reader(contract_of(orders("b:1", "t"))).read(body, "array").problems
    assert (problem.index, problem.type, problem.field) == (index, "malformed", None)
    assert problem.message.startswith(message)


def test_a_request_has_bounded_numbers_of_records_and_of_problems() -> None:
    reader = Reader(contract_of(orders("b:1", "t")))
    reading = reader.read(b"{}\n" * MOST_RECORDS, "lines")
    assert (reading.refused, len(reading.problems), reading.texts) == (MOST_RECORDS, 100, [])
    with pytest.raises(TooMany):
        reader.read(b"[" + b"{}," * MOST_RECORDS + b"{}]", "array")


def test_values_for_delta_have_the_types_of_the_contract() -> None:
    reader = Reader(contract_of(inbox(COLUMNS, schema="fail")), no_others=True)
    record = {
        "n": 1, "s": 20, "t": None, "i": 2, "f": "Infinity", "d": 1, "m": "1.005", "b": True,
        "day": "2026-2-3", "at": "2026-02-03T04:05:06.1234567+01:00", "lt": "2026-02-03 04:05",
        "bin": "aGk=", "arr": [1, None], "mp": {"a": 1}, "st": {"b": ["x"], "c": "9.95"},
    }  # fmt: skip
    (value,) = reader.read(json.dumps([record]).encode(), "array", keep_values=True).values
    assert reader.typed(value) == {
        "n": 1, "s": "20", "t": None, "i": 2, "f": float("inf"), "d": 1.0, "m": Decimal("1.01"),
        "b": True, "day": date(2026, 2, 3), "at": datetime(2026, 2, 3, 3, 5, 6, 123456, UTC),
        "lt": datetime(2026, 2, 3, 4, 5), "bin": b"hi", "arr": [1, None], "mp": [("a", 1.0)],
        "st": {"a": None, "b": ["x"], "c": Decimal("10.0")},
    }  # fmt: skip


@given(st.decimals(allow_nan=False, allow_infinity=False, places=None))
def test_a_decimal_fits_where_rounding_half_up_leaves_its_digits(number: Decimal) -> None:
    kind = type_of("decimal(9, 3)")
    if abs(number.adjusted()) > 9_000:
        return
    fit = fits(kind)(str(number).replace("E", "e"))
    rounded = abs(number) + Decimal("0.0005")
    assert fit == (rounded < 1_000_000)
    if fit:
        assert abs(read(kind)(str(number)) - number) <= Decimal("0.0005")


@given(st.datetimes(min_value=datetime(1000, 1, 1)))
def test_moments_as_python_writes_them_are_read_as_they_are(moment: datetime) -> None:
    for text in (moment.isoformat(), str(moment), f"{moment.isoformat()}Z"):
        assert timestamp(text) == moment.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "holds", "breaks"),
    [
        ("m > 1", {"m": Decimal("1.01")}, {"m": Decimal("1.00")}),
        ("1.5 <= d", {"d": 1.5}, {"d": 1.4}),
        ("s in ('a', 'ä')", {"s": "ä"}, {"s": "b"}),
        ("S not in ('a', 'b')", {"s": "c"}, {"s": "a"}),
        ("s in ('a', null)", {"s": "b"}, None),
        ("length(s) between 2 and 3", {"s": "äöü"}, {"s": "a"}),
        ("s is not null and b", {"s": "", "b": True}, {"b": True}),
        ("not (t = -1 or t is null)", {"t": 2}, {}),
        ("b or t > 1", {"b": None, "t": 0}, {"b": False, "t": 1}),
    ],
)
def test_a_simple_check_is_evaluated_as_sql_has_it(
    expression: str, holds: dict[str, Any], breaks: dict[str, Any] | None
) -> None:
    check = Check(contract_of(node(COLUMNS)), expression)
    assert check.holds(holds) is not False
    assert breaks is None or check.holds(breaks) is False


@pytest.mark.parametrize(
    "expression",
    [
        "s like 'a%'",
        "day > '2026-01-01'",
        "i = '1'",
        "upper(s) = 'A'",
        "f > 1",
        "nope > 1",
        "m + 1 > 0",
        "s = 'a\\\\b'",
        "length(bin) > 1",
        "i in (select 1)",
        "s in ('it''s')",
        "at > day",
        "m >",
    ],
)
def test_another_check_is_left_to_ingestion(expression: str) -> None:
    with pytest.raises(ValueError, match="evaluated by ingestion"):
        Check(contract_of(node(COLUMNS)), expression)


# -- bodies and keys -----------------------------------------------------------------------------


def body(*chunks: bytes, zipped: bool = False, limit: int = 1000, budget: int = 10_000) -> bytes:
    async def sent() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return asyncio.run(Body(Budget(budget), limit).read(sent(), zipped))


def test_a_body_is_read_as_it_comes_and_unpacked() -> None:
    packed = gzip.compress(b"a" * 900) + gzip.compress(b"b" * 100)
    assert body(b"ab", b"", b"c") == b"abc"
    assert body(*(packed[i : i + 1] for i in range(len(packed))), zipped=True) == (
        b"a" * 900 + b"b" * 100
    )


@pytest.mark.parametrize(
    ("chunks", "zipped", "code"),
    [
        ([b"a" * 600, b"a" * 600], False, 413),
        ([gzip.compress(b"a" * 10_000_000)], True, 413),
        ([gzip.compress(b"")] * 500, True, 413),
        ([gzip.compress(b"a" * 100)[:-1]], True, 400),
        ([b"no gzip"], True, 400),
        ([gzip.compress(b"a"), b"\0" * 8], True, 400),
        ([], True, 400),
    ],
)
def test_a_body_beyond_its_limits_is_refused(chunks: list[bytes], zipped: bool, code: int) -> None:
    with pytest.raises(Refusal) as refusal:
        body(*chunks, zipped=zipped)
    assert refusal.value.code == code


def test_all_bodies_in_flight_share_a_budget() -> None:
    budget = Budget(100, taken=90)
    one = Body(budget, 1000)

    async def sent() -> AsyncIterator[bytes]:
        yield b"a" * 10
        yield b"a"

    with pytest.raises(Refusal) as refusal:
        asyncio.run(one.read(sent(), False))
    assert (refusal.value.code, budget.taken) == (429, 100)
    one.give_back()
    assert budget.taken == 90


def test_a_content_type_says_what_a_body_is() -> None:
    assert form_of("application/json") == form_of("application/json; charset=UTF-8") == "array"
    assert form_of("application/x-ndjson") == "lines"
    for other in (None, "", "text/plain", "application/json; charset=latin-1"):
        with pytest.raises(Refusal):
            form_of(other)


def test_keys_come_from_the_environment_and_each_of_them_admits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = "a" * 32, "b" * 32
    monkeypatch.setenv("SOME_KEYS", f" {one}\n,{other} ")
    keys = keys_from("SOME_KEYS", "0.0.0.0")
    admitted = [f"Bearer {one}", f"bearer  {other}"]
    refused = [None, "", one, f"Basic {one}", f"Bearer {one}{other}", "Bearer ", "Bearer \udcff"]
    assert [keys.admit(header) for header in admitted] == [True, True]
    assert [keys.admit(header) for header in refused] == [False] * 7
    assert one not in repr(vars(keys))
    assert Keys(()).admit(None)


def test_every_key_is_compared_in_constant_time_whatever_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def recorded(given: bytes, known: bytes) -> bool:
        compared.append((len(given), len(known)))
        return compare(given, known)

    monkeypatch.setattr(hmac, "compare_digest", recorded)
    keys = Keys(["a" * 32, "b" * 32])
    for header in (None, "", f"Bearer {'a' * 32}", f"Bearer {'b' * 32}", f"Bearer {'c' * 50_000}"):
        keys.admit(header)
    assert compared == [(32, 32)] * 2 * 5


@pytest.mark.parametrize(
    ("value", "variable", "host"),
    [("", "SOME_KEYS", "127.0.0.1"), ("short", "SOME_KEYS", "127.0.0.1"), ("", None, "0.0.0.0")],
)
def test_a_door_without_keys_is_for_this_machine_alone(
    value: str, variable: str | None, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEYS", value)
    with pytest.raises(UserError, match="HW_SERVE_KEYS") as error:
        keys_from(variable, host)
    assert not value or value not in str(error.value).replace("--keys-from", "")
    assert not keys_from(None, "127.0.0.1")


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
    """A stream of changes in Debezium's envelope."""
    declared = {"changes": {"key": ["id"], "envelope": "debezium"}, **stream}
    return reader_of(contract_of(orders("b:1", "t", **declared)))


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (EVENT, None),
        ({"schema": {}, "payload": EVENT}, None),
        (EVENT | {"op": "u", "before": OLD}, None),
        # with PostgreSQL's default identity, no more than the key is known of what was
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
