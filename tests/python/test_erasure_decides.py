"""Test which records hold a person, which hold another, and which remain undecided."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headwaters.platform.errors import UserError
from headwaters.tables.erasure import (
    Form,
    SubjectMatch,
    fragment,
    keyed_hash,
    log_holds,
    mentions,
    verdict,
)
from headwaters.tables.erasure_run import Erasure, read_value

ZOE = "Zoë/17-9"
JSON, CSV = Form("json"), Form("csv", columns=("id", "customer", "quantity"))
PRESENT, ABSENT, UNDECIDED = SubjectMatch.PRESENT, SubjectMatch.ABSENT, SubjectMatch.UNDECIDED


@pytest.mark.parametrize(
    ("record", "form", "wanted"),
    [
        ('{"c": "Zoë/17-9"}', JSON, PRESENT),
        (r'{"c": "Zo\u00eb/17-9"}', JSON, PRESENT),
        (r'{"c": "Zo\u00EB\/17-9"}', JSON, PRESENT),
        (r'{"c": "Zo\u00eb\u002f17\u002D9"}', JSON, PRESENT),
        (r'{"\u005ao\u00eb/17-9": 1}', JSON, PRESENT),
        ('{"a": [{"b": ["Zoë/17-9"]}]}', JSON, PRESENT),
        ('{"c": "x", "c": "Zoë/17-9"}', JSON, PRESENT),
        ('{"c": "Zoë/17-9", "c": "x"}', JSON, PRESENT),
        (r'{"payload": "{\"c\": \"Zo\\u00eb\\/17-9\"}"}', JSON, PRESENT),
        ('\ufeff{"c": "Zoë/17-9"}', JSON, PRESENT),
        ('{"c": "x"}\n{"c": "Zoë/17-9"}', JSON, PRESENT),
        ("Zoë/17-9", JSON, PRESENT),
        # others, whose names have the same beginning, end or middle
        ('{"c": "Zoë/17-9-1"}', JSON, ABSENT),
        ('{"c": "Zoë/17-90", "d": "1 Zoë/17-9", "e": "zoë/17-9"}', JSON, ABSENT),
        ('{"c": "see Zoë/17-9"}', JSON, ABSENT),
        ("", JSON, ABSENT),
        # an unreadable record is undecided if it has the value
        ('{"c": "Zoë/17-9"', JSON, UNDECIDED),
        (r'{"c": "Zo\u00eb\/17-9", }', JSON, UNDECIDED),
        (r'{"p": "{\"c\": \"Zo\\u00eb\\/17-9\"', JSON, UNDECIDED),
        ('{"c": "Zoë/17-9-1"', JSON, UNDECIDED),
        ('{"c": "Zo', JSON, ABSENT),
        ('{"c": "x"}\n{"c": "Zoë/17-9"', JSON, UNDECIDED),
        ("1,Zoë/17-9,3", CSV, PRESENT),
        ('1,"Zoë/17-9",3', CSV, PRESENT),
        ("1, Zoë/17-9 ,3", CSV, PRESENT),
        ('1,"{""c"": ""Zo\\u00eb/17-9""}",3', CSV, PRESENT),
        ("1,Zoë/17-9-1,3", CSV, ABSENT),
        ("1,to Zoë/17-9 and back,3", CSV, ABSENT),
        ('1,"Zoë/17-9', CSV, UNDECIDED),
        ("landing/orders/Zoë/17-9.jsonl", Form("path"), ABSENT),
    ],
)
def test_whole_values_are_compared_as_they_are_when_decoded(
    record: str, form: Form, wanted: SubjectMatch
) -> None:
    assert verdict(record.encode(), ZOE, form) == wanted


def test_other_encodings_are_seen() -> None:
    record = '{"c": "Zoë/17-9"}'
    assert verdict(record.encode("utf-16"), ZOE) == PRESENT
    assert verdict(record.encode("utf-16-le"), ZOE) == PRESENT
    # not UTF-8: its encoding is unknown
    assert verdict(record.encode("latin-1"), ZOE) == UNDECIDED
    assert verdict(b"\x00\x10Obj" + ZOE.encode() + b"\xff", ZOE) == UNDECIDED
    assert verdict(None, ZOE) == ABSENT
    assert verdict(b"landing/orders/A17.jsonl", "A17", Form("path")) == PRESENT
    assert verdict(b"landing/account=A17/x.jsonl", "A17", Form("path")) == PRESENT
    assert verdict(b"landing/A17-1/x.jsonl", "A17", Form("path")) == ABSENT


def test_a_key_of_kafka_is_a_value_or_some_values() -> None:
    key = Form("key")
    for text in (ZOE, f"{ZOE}|2026", f"eu:{ZOE}", '{"c":"Zo\\u00eb\\/17-9"}'):
        assert verdict(text.encode(), ZOE, key) == PRESENT, text
    for text in (f"{ZOE}-1", f"eu-{ZOE}", f'{{"c":"{ZOE}-1"}}', "x"):
        assert verdict(text.encode(), ZOE, key) == ABSENT, text
    avro = b"\x00\x00\x00\x00\x01" + ZOE.encode()
    for raw in (avro, b"\xff" + ZOE.encode(), f'{{"c":"{ZOE}'.encode()):
        assert verdict(raw, ZOE, key) == UNDECIDED, raw


def test_a_number_is_not_a_person_where_a_field_means_something_else() -> None:
    form = Form("json", others=frozenset({"quantity"}))
    assert verdict(b'{"customer": 7, "quantity": 1}', "7", form) == PRESENT
    assert verdict(b'{"customer": 7.0}', "7", form) == PRESENT
    assert verdict(b'{"customer": "8", "quantity": 7}', "7", form) == ABSENT
    assert verdict(b'{"customer": 7}', "007", form) == ABSENT
    assert verdict(b'{"customer": 8}', "7", form) == ABSENT
    assert verdict(b'{"who": {"quantity": 7}}', "7", form) == PRESENT
    # a text means the same in any place
    assert verdict(b'{"quantity": "A17"}', "A17", form) == PRESENT
    csv_ = Form("csv", frozenset({"quantity"}), CSV.columns)
    assert verdict(b"1,8,7", "7", csv_) == ABSENT
    assert verdict(b"1,8,7,9", "7", csv_) == PRESENT
    assert verdict(b"1,7,8", "7", csv_) == PRESENT


values = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(
    lambda text: text == text.strip()
)


@given(values, st.booleans(), st.integers(0, 3))
def test_whatever_wrote_json_the_value_is_found(value: str, ascii_: bool, depth: int) -> None:
    record: object = value
    for level in range(depth):
        record = [{"x": record}, {value + "!": 1}] if level % 2 else json.dumps({"y": record})
    text = json.dumps({"c": record}, ensure_ascii=ascii_).replace("/", r"\/")
    assert verdict(text.encode(), value, JSON) == PRESENT
    every = "".join(f"\\u{ord(c):04X}" for c in value if ord(c) < 0x10000)
    if all(ord(c) < 0x10000 for c in value):
        assert verdict(f'{{"c": "{every}"}}'.encode(), value, JSON) == PRESENT


@given(values, values)
def test_others_are_left(value: str, other: str) -> None:
    assume(value not in (other, "c") and not other.startswith(("[", "{", '"')))
    assume(not value.lstrip("-").replace(".", "").isdecimal())
    assert verdict(json.dumps({"c": other}).encode(), value, JSON) == ABSENT


texts = st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\n\x85\u2028"))


@given(values, texts)
def test_a_csv_field_is_found_whatever_is_beside_it(value: str, beside: str) -> None:
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow([beside, value, "z"])
    assert verdict(written.getvalue().encode(), value, CSV) == PRESENT


def test_a_csv_field_ends_where_the_csv_ends_it() -> None:
    """Search a row of several lines, with a character that ends a line elsewhere."""
    row = '1,"two\nlines",Zo\u2028e'
    assert verdict(row.encode(), "Zo\u2028e", CSV) == PRESENT
    assert verdict(row.encode(), "Zo", CSV) == ABSENT


@given(values)
def test_what_sql_leaves_out_cannot_hold_the_value(value: str) -> None:
    part = fragment(value)
    for ascii_ in (True, False):
        written = json.dumps(value, ensure_ascii=ascii_).replace("/", r"\/")
        assert part in written or r"\u" in written


NAME = "Zoë/17-9"


@pytest.mark.parametrize(
    "line",
    [
        f"erase {NAME}.",
        json.dumps({"args": {"value": NAME}}),
        json.dumps({"args": NAME}, ensure_ascii=False).replace("/", r"\/"),
        json.dumps({"msg": json.dumps({"value": NAME}).replace("/", r"\/")}),
        ascii({"value": NAME}),
    ],
)
def test_a_log_mentions_a_value_however_it_is_escaped(line: str) -> None:
    assert mentions([line.encode()], NAME)
    assert not mentions([line.replace("17-9", "17-99").encode()], NAME)


COMMIT = {"commitInfo": {"operationParameters": {"predicate": "[\"(customer#12 = 'ann')\"]"}}}
STATS = json.dumps({"minValues": {"id": 7, "customer": "ann"}, "maxValues": {"customer": "bob"}})


@pytest.mark.parametrize(
    ("action", "value", "holds"),
    [
        (COMMIT, "ann", True),
        (COMMIT, "an", False),
        (
            {"commitInfo": {"operationParameters": {"predicate": '["(customer#1 = ann)"]'}}},
            "ann",
            1,
        ),
        ({"commitInfo": {"operationMetrics": {"numFiles": "7"}}}, "7", False),
        ({"commitInfo": {"operationParameters": {"predicate": '["(id = 7)"]'}}}, "7", False),
        ({"commitInfo": {"operationParameters": {"predicate": '["(customer = 7)"]'}}}, "7", True),
        ({"commitInfo": {"userMetadata": '{"reason": "ann asked"}'}}, "ann", True),
        ({"metaData": {"configuration": {"headwaters.sql": "where customer <> 'ann'"}}}, "ann", 1),
        ({"add": {"path": "x", "stats": STATS}}, "ann", True),
        ({"add": {"path": "x", "stats": STATS}}, "bob", True),
        ({"add": {"path": "x", "stats": STATS}}, "7", False),
        ({"add": {"path": "x", "stats": STATS}}, "anna", False),
        ({"add": {"partitionValues": {"customer": "ann"}}}, "ann", True),
        ({"remove": {"partitionValues": {"customer": "ann", "day": "x"}}}, "ann", True),
        ({"remove": {"partitionValues": {"day": "ann"}}}, "ann", False),
        ({"add": {"partitionValues": [{"key": "customer", "value": "ann"}]}}, "ann", True),
        ({"add": {"stats_parsed": {"minValues": {"customer": "ann"}}}}, "ann", True),
        ({"add": {"stats": '{"minValues":{"customer":"' + "a" * 32 + '"}}'}}, "a" * 40, True),
        ({"add": {"stats": '{"maxValues":{"customer":"' + "a" * 32 + '\ufffd"}}'}}, "a" * 40, True),
    ],
)
def test_a_log_is_read_as_delta_writes_it(action: object, value: str, holds: bool) -> None:
    assert log_holds(json.dumps(action), value, ["customer"]) == bool(holds)


def test_the_statistics_of_a_record_hold_its_beginning() -> None:
    begins = json.dumps({"minValues": {"record": '{"customer":"ann","na'}})
    other = json.dumps({"minValues": {"record": '{"customer":"bob","na'}})
    for stats, holds in ((begins, True), (other, False)):
        line = json.dumps({"add": {"stats": stats}})
        assert log_holds(line, "ann", [], {"record": JSON}) == holds
        assert not log_holds(line, "ann", ["customer"])


@pytest.mark.parametrize(
    "told",
    ["ann", 7, None, {}, {"value": "ann"}, {"env": "SUBJECT", "file": "x"}, {"env": "NOT_SET"}],
)
def test_the_value_is_in_no_command_which_dbt_would_write_down(
    told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBJECT", "ann")
    (tmp_path / "subject").write_text("ann\n")
    assert read_value({"env": "SUBJECT"}, "customer", tmp_path) == "ann"
    assert read_value({"file": "subject"}, "customer", tmp_path) == "ann"
    with pytest.raises(UserError, match="HW_SUBJECT"):
        read_value(told, "customer", tmp_path)


def test_a_ledger_without_its_key_tells_nobody() -> None:
    assert keyed_hash(b"k", "account", "A17") != keyed_hash(b"l", "account", "A17")
    assert keyed_hash(b"k", "account", "A17") == keyed_hash(b"k", "account", "A17")
    assert len(keyed_hash(b"k", "account", "A17")) == 64


def test_the_copies_of_reviews_and_reports_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    for folder in ("review_me__base_gold.db/daily", "reviewed.db/daily", "gold.db/daily"):
        (lake / "warehouse" / folder).mkdir(parents=True)
    (tmp_path / "review").mkdir()
    (tmp_path / "review" / "review.md").write_text("| Moreau | 2 |")
    (tmp_path / "report.html").write_text("<p>12 rows</p>")
    monkeypatch.chdir(tmp_path)
    erasure = Erasure(MagicMock(), "customer", "Moreau", ["customer"], [], lake)
    result = erasure.beside({})
    assert result.found == [
        "review_me__base_gold: a review copied rows into it: "
        "`headwaters sql --write 'drop schema `review_me__base_gold` cascade'`",
        "review/review.md: mentions it",
    ]
    assert result.searched == 2
