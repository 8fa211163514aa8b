"""The schema of a stream's records, made from its contract: stricter than ingestion, without Spark.

msgspec decodes the records of a request into a type that is made from the contract. If that fails
or leaves a doubt, each record is examined separately, which also finds the reasons for a refusal.
Ingestion writes accepted records into bronze with the same values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import GenericAlias
from typing import Any, Literal

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

from headwaters.http.conditions import Limit, limits_of
from headwaters.http.types import kind_of, record_of
from headwaters.platform.text import with_article
from headwaters.streams.contract import Contract
from headwaters.streams.formats import texts as spark

Form = Literal["array", "lines"]
Reason = tuple[str, str | None, str]  # type, field, message

SHOWN = 100  # refused records that are listed for one request
MOST_RECORDS = 50_000  # records of one request
DEEPEST = 200  # levels of objects and arrays; Spark's parser stops at 1,000
LONGEST_NAME = 10_000  # characters; Spark's parser stops at 50,000
_LARGEST_INTEGER = 10**38
_PLAIN = re.compile(r"-?(?=[0-9.]{3,16}$)[0-9]+\.[0-9]+", re.ASCII).fullmatch
# numbers that Spark writes as text with the same digits
_KEPT = re.compile(
    r"-?(?=[0-9.]{3,16}$)(?:0\.(?:0|0{0,2}[1-9](?:[0-9]*[1-9])?)|[1-9][0-9]{0,6}\.(?:0|[0-9]*[1-9]))",
    re.ASCII,
).fullmatch
_CHANGEABLE = re.compile(spark.CHANGEABLE, re.ASCII).findall
_EMPTIED = partial(re.compile(spark.TEXT, re.DOTALL).sub, '""')
_HALF = re.compile(spark.HALF_A_SURROGATE).search
_ABSENT: Any = Raw(b"")
_INVALID = (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)
_ENVELOPE = {"before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction"}

_elements = msgspec.json.Decoder(list[Raw]).decode
_fields = msgspec.json.Decoder(dict[str, Raw]).decode


@dataclass(frozen=True)
class RecordProblem:
    """A reason for a refusal: the index of the record, and the reason as in quarantine."""

    index: int
    type: str
    field: str | None
    message: str


@dataclass
class Reading:
    """The unchanged records of a request, or the problems of the refused ones."""

    texts: Sequence[bytes] = ()
    keys: list[str | None] | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    problems: list[RecordProblem] = field(default_factory=list)
    refused: int = 0


class TooMany(Exception):
    """A request with too many records."""


class NotJson(Exception):
    """A body that is not a JSON array."""


class Number(str):
    """The text of a JSON number with a point or an exponent."""

    __slots__ = ()


class RequestColumn:
    """A column that is read, with the rules for its values."""

    def __init__(self, name: str, data_type: str, required: bool) -> None:
        """Make the column's decoder. Raises ValueError for an unknown type."""
        self.name, self.data_type, self.required = name, data_type, required
        self.kind = kind_of(data_type)
        self.quoted = msgspec.json.encode(name)
        self.named = re.compile(re.escape(self.quoted) + rb"\s*:").search
        self.decode = msgspec.json.Decoder(self.kind.nullable).decode
        self.limits: list[Limit] = []

    def read(self, sent: Any) -> Any:
        """Convert a decoded value to the column's value. Raises an exception of `_INVALID`."""
        return sent if self.kind.read is None else self.kind.read(sent)

    def reasons(self, value: Any) -> list[Reason]:
        """Return the reasons to refuse a value of the column's type."""
        if value is None:
            return [("not_null", self.name, "is null")] if self.required else []
        return [
            ("check", limit.owner, f"violates {limit.expression}")
            for limit in self.limits
            if not limit.holds(value)
        ]

    def accept(self, values: Sequence[Any]) -> bool:
        """Return true if all of these values of the column's type are acceptable."""
        if self.required and None in values:
            return False
        if not self.limits:
            return True
        present = {*values} - {None}
        return all(all(map(limit.holds, present)) for limit in self.limits)


@dataclass
class Record:
    """An examined record: its decoded columns, their values, and reasons for a refusal."""

    sent: dict[str, Any] = field(default_factory=dict)
    row: dict[str, Any] = field(default_factory=dict)
    reasons: list[Reason] = field(default_factory=list)


def reader_of(contract: Contract) -> RequestReader:
    """Return the reader of a stream's requests. Raises ValueError as Reader does."""
    changes = contract.stream.changes
    enveloped = changes is not None and changes.envelope == "debezium"
    return EventReader(contract) if enveloped else RequestReader(contract)


class RequestReader:
    """A reader of one stream's requests.

    `unchecked` are the conditions of the contract that only ingestion evaluates. With `no_others`,
    an undeclared field is refused even if the contract keeps it, because a table has no column for
    it.
    """

    def __init__(self, contract: Contract, no_others: bool = False) -> None:
        """Make the schema. Raises ValueError for a contract that the endpoint cannot check."""
        for option in ("dateFormat", "timestampFormat"):
            if contract.form == "json" and option in contract.stream.options:
                raise ValueError(f"the HTTP endpoint takes ISO 8601 alone: remove {option}")
        if other := next((c for c in contract.read_columns if c.read_from is not None), None):
            raise ValueError(f"column {other.name}: from: the HTTP endpoint takes columns by name")
        self.contract = contract
        self.closed = no_others or contract.stream.schema_policy == "fail"
        self.columns = [
            RequestColumn(
                column.name,
                column.data_type,
                any(rule.type == "not_null" for rule in column.constraints),
            )
            for column in contract.read_columns
        ]
        self.unchecked = self._limit()
        self.names = [column.name for column in self.columns]
        self._wild = [
            re.compile(pattern.encode()).search
            for pattern in spark.wild_numbers((c.name, c.data_type) for c in self.columns)
        ]
        types = {
            column.name: (column.kind.decoded if column.required else column.kind.nullable)
            for column in self.columns
        }
        required = {column.name for column in self.columns if column.required}
        record = record_of({name: (types[name], name in required) for name in types}, _ABSENT)
        self._decode = msgspec.json.Decoder(record).decode
        self._decode_array = msgspec.json.Decoder(GenericAlias(list, (record,))).decode

    def _limit(self) -> list[str]:
        """Assign its limits to each column; return the conditions left to ingestion."""
        columns = {column.name: column for column in self.columns}
        kinds = {name: column.kind for name, column in columns.items()}
        unchecked = []
        for column in self.contract.columns:
            for rule in column.constraints:
                if rule.type == "not_null" and column.name in columns:
                    continue
                expression = rule.expression or f"{column.name} is not null"
                try:
                    for limit in limits_of(kinds, column.name, expression):
                        columns[limit.column].limits.append(limit)
                except ValueError:
                    unchecked.append(f"{column.name}: {expression}")
        return unchecked

    def read(
        self, body: bytes, form: Form, key: str | None = None, keep_rows: bool = False
    ) -> Reading:
        """Return the records of a body, and with `keep_rows` their rows.

        Raises TooMany, and NotJson if the body should be an array but is not.
        """
        texts = _split(body, form)
        if len(texts) > MOST_RECORDS:
            raise TooMany
        reading = Reading(texts, None if key is None else [])
        try:
            self._decode_all(body, form, reading, key, keep_rows)
        except _INVALID:
            reading.rows.clear()
            self._examine_all(reading, key, keep_rows)
        return reading

    def _decode_all(
        self, body: bytes, form: Form, reading: Reading, key: str | None, keep: bool
    ) -> None:
        """Decode all records. Raises an exception of `_INVALID` if one is invalid or in doubt."""
        # each line must be one record
        decoded = self._decode_array(body) if form == "array" else map(self._decode, reading.texts)
        records = [*map(astuple, decoded)]
        # a name may be escaped, and ingestion may parse an object in a text
        if b"\\" in body or b'"{' in body or b'"[' in body or any(w(body) for w in self._wild):
            raise ValueError("a record is in doubt")
        columns: list[Sequence[Any]] = []
        for column, values in zip(self.columns, zip(*records, strict=True), strict=False):
            absent = values.count(_ABSENT)
            # a count above the number of records with the field means that one has it twice
            if body.count(column.quoted) != len(records) - absent:
                raise ValueError("a record is in doubt")
            sent = [None if one is _ABSENT else one for one in values] if absent else values
            if column.kind.has_text_inside and any(one is not None for one in sent):
                raise ValueError("a record is in doubt")
            if column.name == key:
                reading.keys = [*map(_key, sent)]
            read = [*map(column.kind.read, sent)] if column.kind.read else sent
            if not column.accept(read):
                raise ValueError("a value is refused")
            columns.append(read)
        if keep:
            rows = zip(*columns, strict=True)
            reading.rows = [dict(zip(self.names, row, strict=True)) for row in rows]

    def _examine_all(self, reading: Reading, key: str | None, keep: bool) -> None:
        """Examine each record separately."""
        keys: list[str | None] = []
        for index, text in enumerate(reading.texts):
            record = self.examine(bytes(text))
            if record.reasons:
                reading.refused += 1
                if reading.refused <= SHOWN:
                    reading.problems += [RecordProblem(index, *reason) for reason in record.reasons]
            elif key is not None:
                keys.append(_key(record.sent.get(key)))
            if keep and not reading.refused:
                reading.rows.append(record.row)
        if key is not None:
            reading.keys = keys
        if reading.refused:
            reading.texts, reading.rows = [], []

    def examine(self, text: bytes) -> Record:
        """Return a record with all of its problems."""
        try:
            fields = _object(text)
        except ValueError as error:
            return Record(reasons=[("malformed", None, str(error))])
        return self.examine_row(fields, text)

    def examine_row(self, fields: dict[str, Any], text: bytes, strict: bool = False) -> Record:
        """Return a record of these fields; `strict` if Spark may write any number as text."""
        record, raws = Record(), _fields(text)
        if any(search(text) for search in self._wild):
            reason = "has a number with an exponent of five digits"
            record.reasons.append(("malformed", None, reason))
        for column in self.columns:
            name = column.name
            if b"\\" in text and name in fields and not column.named(text):
                reason = "write the name of this field without escapes"
                record.reasons.append(("malformed", name, reason))
            try:
                sent = column.decode(raws[name]) if name in raws else None
                record.sent[name], record.row[name] = sent, column.read(sent)
            except _INVALID:
                shown = str(fields[name]) if isinstance(fields[name], str) else _shown(raws[name])
                wanted = with_article(column.data_type)
                reason = (
                    f"'{shown[:100]}' is not {wanted}"
                    if shown.strip()
                    else f"has no value, but needs {wanted}"
                )
                record.reasons.append(("type", name, reason))
            else:
                record.reasons += column.reasons(record.row[name])
                strict |= sent is not None and (column.kind.has_text_inside or _is_nested(sent))
        others = [name for name in fields if name not in self.names]
        if self.closed:
            record.reasons += [("schema", name, "is not declared") for name in others]
        if strict or others:
            record.reasons += _unsafe(fields)
        return record


class EventReader(RequestReader):
    """A reader of change events in Debezium's envelope, as in formats/debezium.py."""

    def __init__(self, contract: Contract) -> None:
        """Make the schemas of a row, and of an image that may have only the key."""
        super().__init__(contract)
        changes = contract.stream.changes
        self.key = changes.key if changes else ()
        columns = tuple(
            column if column.name in self.key else column.model_copy(update={"constraints": ()})
            for column in contract.columns
        )
        self._image = RequestReader(contract.model_copy(update={"columns": columns}))

    def _decode_all(
        self, body: bytes, form: Form, reading: Reading, key: str | None, keep: bool
    ) -> None:
        raise ValueError("each event is examined")

    def examine(self, text: bytes) -> Record:
        """Return the row of an event with all problems of the event."""
        sent = text
        try:
            event = around = _object(text)
            if "payload" in event:
                event, text = _payload(event), bytes(_fields(text)["payload"])
            image, other = _images(event)
        except _RefusedEvent as error:
            return Record(reasons=[error.reason])
        except ValueError as error:
            return Record(reasons=[("malformed", None, str(error))])
        raws = _fields(text)
        reader = self._image if event["op"] == "d" else self
        record = reader.examine_row(event[image], bytes(raws[image]), strict=True)
        if event.get(other) is not None:
            before = self._image.examine_row(event[other], bytes(raws[other]), strict=True)
            record.reasons += before.reasons
            if event["op"] == "u":
                for name in self.key:
                    known = before.row.get(name)
                    if known is not None and known != record.row.get(name):
                        reason = "is changed by an update: send a deletion and an insertion"
                        record.reasons.append(("check", name, reason))
        others = [name for name in event if name not in _ENVELOPE]
        if self.closed:
            record.reasons += [("schema", name, "is not declared") for name in others]
        record.reasons += _unsafe({n: event[n] for n in event if n not in ("before", "after")})
        if around is not event:
            record.reasons += _unsafe({"schema": around.get("schema")})
        if not record.reasons:
            record.reasons += _changed(sent.decode(), event.get("source") or {})
        return record


class _RefusedEvent(Exception):
    """An event that is refused before its row is examined."""

    def __init__(self, *reason: Any) -> None:
        super().__init__(*reason)
        self.reason: Reason = reason


def _payload(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event in an object with its schema. Raises _Wrong."""
    schema, payload = event.get("schema"), event["payload"]
    if type(payload) is not dict:
        raise _RefusedEvent("malformed", None, "is not a JSON object")
    if other := next((name for name in event if name not in ("schema", "payload")), None):
        raise _RefusedEvent("schema", other, "stands beside the payload")
    known = schema is None or type(schema) is dict
    if not known or type((schema or {}).get("type", "")) is not str:
        raise _RefusedEvent("type", "schema", "is not the schema of an event")
    return payload


def _images(event: dict[str, Any]) -> tuple[str, str]:
    """Return the names of the row of an event, and of its other image. Raises _Wrong."""
    op, moment, source = event.get("op"), event.get("ts_ms"), event.get("source")
    if not isinstance(op, str):
        raise _RefusedEvent("malformed", None, "has no op, and is no change event")
    if op not in ("c", "r", "u", "d"):
        raise _RefusedEvent("check", "op", f"'{op[:100]}' is not c, r, u or d")
    whole = moment is None or (type(moment) is int and -(2**63) <= moment < 2**63)
    if not whole or type(source) not in (dict, type(None)):
        raise _RefusedEvent("type", None, "ts_ms is no whole number, or source no object")
    image, other = ("before", "after") if op == "d" else ("after", "before")
    if type(event.get(image)) is not dict or type(event.get(other)) not in (dict, type(None)):
        raise _RefusedEvent("malformed", None, f"has no {image}")
    return image, other


def _split(body: bytes, form: Form) -> Sequence[bytes]:
    """Return the texts of the records. An element of an array is a part of the body."""
    if form == "lines":
        lines = [line.strip(b" \t\r") for line in body.split(b"\n")]
        return [line for line in lines if line]
    try:
        return _elements(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise NotJson(f"the body is no array of JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{max(names, key=names.count)[:100]} is there more than once")
    return fields


_parse = json.JSONDecoder(object_pairs_hook=_unique, parse_float=Number).decode


def _object(text: bytes) -> dict[str, Any]:
    """Return the fields of a record. Raises ValueError unless it is a JSON object."""
    try:
        decoded = text.decode()
        fields = _parse(decoded)
        half = "\\u" in decoded and _HALF(decoded) is not None
        if not half:
            msgspec.json.decode(text)  # rejects NaN
    except UnicodeDecodeError:
        raise ValueError("has bytes that are not UTF-8") from None
    except RecursionError:
        raise ValueError(f"is nested more than {DEEPEST} levels deep") from None
    except json.JSONDecodeError as error:
        reason = f"is not JSON: {error.msg} (character {error.pos + 1} of the record)"
        raise ValueError(reason) from None
    except msgspec.MsgspecError as error:
        raise ValueError(f"is not JSON: {error}") from None
    except ValueError as error:
        reason = "is not JSON: a number of too many digits"
        raise (ValueError(reason) if "digits" in str(error) else error) from None
    if half:
        raise ValueError("has half of a surrogate pair, which is no character")
    if type(fields) is not dict:
        raise ValueError("is not a JSON object")
    return fields


def _is_nested(sent: Any) -> bool:
    """Return true if a text looks like an object or array, whose numbers ingestion compares."""
    return isinstance(sent, str) and sent[:1] in ("{", "[")


def _unsafe(fields: dict[str, Any]) -> Iterator[Reason]:
    """Yield the values that Spark may change or refuse when it writes them as text."""
    for name, value in fields.items():
        if (message := _unsafe_value({name: value}, 0)) is not None:
            yield "type", name[:100], message


def _unsafe_value(value: Any, depth: int) -> str | None:
    if depth > DEEPEST:
        return f"is nested more than {DEEPEST} levels deep"
    if type(value) is Number and not _PLAIN(value):
        return f"has the number {value[:100]}: send 15 digits at most, without an exponent"
    if type(value) is int and abs(value) >= _LARGEST_INTEGER:
        return "has an integer of more than 38 digits"
    if type(value) is dict:
        if any(len(name) > LONGEST_NAME for name in value):
            return f"has a field whose name has more than {LONGEST_NAME:,} characters"
        value = value.values()
    elif type(value) is not list:
        return None
    found = (_unsafe_value(one, depth + 1) for one in value)
    return next((message for message in found if message is not None), None)


def _changed(text: str, source: dict[str, Any]) -> Iterator[Reason]:
    """Yield a number of the source that Spark would write as text with other digits.

    The source is a map of texts. Like ingestion, this takes an equal number elsewhere in the event
    for one of the source. `-0` is equal to the integer 0, which `there` has as None.
    """
    there: set[float | None] = set()
    for one in source.values():
        if type(one) is Number or (type(one) is int and abs(one) >= 2**63):
            there.add(float(one))
        elif type(one) is int and one == 0:
            there.add(None)
    for number in _CHANGEABLE(_EMPTIED(text)) if there else ():
        equal = None if number == "-0" else float(number)
        if equal in there and not _KEPT(number):
            message = f"has the number {number[:100]}, which would change as text: send a string"
            yield "type", "source", message
            return


def _shown(raw: Raw) -> str:
    return bytes(raw).decode()


def _key(sent: Any) -> str | None:
    """Return the text of a value that is the key of a message."""
    if sent is None or isinstance(sent, str):
        return sent
    text = msgspec.json.encode(sent).decode().strip('"')
    return None if text == "null" else text
