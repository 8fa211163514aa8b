"""The rules of an erasure that decide if a text contains a person's value. Pure, no Spark.

A landed record is compared by its whole values after decoding: `"Zo\\u00eb\\/17-9"` is `Zoë/17-9`,
and `Zoë/17-9-1` is another person. If a text mentions the value but cannot be decoded, a person has
to decide.
"""

from __future__ import annotations

import csv
import hmac
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class SubjectMatch(Enum):
    """The relation of a text to the subject; the greater of two verdicts counts."""

    ABSENT = 0
    UNDECIDED = 1  # it contains the value, but the owner is unknown
    PRESENT = 2

    def __or__(self, other: SubjectMatch) -> SubjectMatch:
        """Return the greater of the two."""
        return self if self.value >= other.value else other


@dataclass(frozen=True)
class Form:
    """The form of a text: `json`, `csv`, `path`, `key`, or `any`, which guesses it.

    A `key` of Kafka that is plain text is compared as a whole, and by its parts between `|`, `:`,
    `;`, commas and blanks.

    `others` are fields declared to contain something else than this kind of person. A numeric value
    is not searched in them (`quantity: 7` is not account 7). `columns` are the fields of a row of
    CSV, in order; `options` those of Spark's CSV reader.
    """

    name: str = "any"
    others: frozenset[str] = frozenset()
    columns: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


def verdict(text: bytes | None, value: str, form: Form = Form()) -> SubjectMatch:
    """Return the verdict on a text; the value must be a whole field, key, element or text."""
    if not text:
        return SubjectMatch.ABSENT
    decoded = _decoded(text)
    if decoded is None:
        return _mention(text, "", value)
    if decoded.strip() == value:
        return SubjectMatch.PRESENT
    if form.name == "path":
        return _held(value in _parts_of(decoded))
    if form.name == "csv":
        return _of_csv(text, decoded, value, form)
    if form.name == "key" and decoded.isprintable() and not decoded.startswith(("{", "[", '"')):
        return _held(value in re.split(r"[\s|:;,]", decoded))
    found = _of_json(decoded, value, form)
    return _mention(text, decoded, value) if found is None else found


def _held(found: bool) -> SubjectMatch:
    return SubjectMatch.PRESENT if found else SubjectMatch.ABSENT


def _decoded(text: bytes) -> str | None:
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        codecs = ["utf-16"]
    elif b"\x00" in text[:4]:
        codecs = ["utf-16-be" if text[0] == 0 else "utf-16-le"]
    else:
        codecs = ["utf-8-sig"]
    for codec in codecs:
        try:
            return text.decode(codec)
        except UnicodeDecodeError:
            continue
    return None


def _parts_of(path: str) -> Iterator[str]:
    for part in path.split("/"):
        yield part
        yield part.partition(".")[0]
        yield part.rpartition("=")[2]


# --- JSON: all texts, numbers and keys, at any depth; JSON within a text as well


def _of_json(text: str, value: str, form: Form) -> SubjectMatch | None:
    """Return the verdict on JSON, with a record on each line, or None if it is not JSON."""
    parsed = _parsed(text)
    if parsed is not None:
        return _held(_within(parsed[0], value, form.others))
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) < 2:
        return None
    found = SubjectMatch.ABSENT
    for line in lines:
        parsed = _parsed(line)
        found |= (
            _mention(line.encode(errors="replace"), line, value)
            if parsed is None
            else _held(_within(parsed[0], value, form.others))
        )
    return found


@dataclass(frozen=True)
class _Number:
    text: str


def _parsed(text: str) -> tuple[Any] | None:
    if not text.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return (
            json.loads(
                text, object_pairs_hook=tuple, parse_int=_Number, parse_float=_Number, strict=False
            ),
        )
    except (ValueError, RecursionError):
        return None


def _within(part: Any, value: str, others: frozenset[str] = frozenset()) -> bool:
    """Search JSON `part`, with objects as tuples of pairs, so that keys may repeat."""
    stack: list[tuple[Any, frozenset[str]]] = [(part, others)]
    while stack:
        here, skipped = stack.pop()
        if isinstance(here, _Number):
            if _same_number(here.text, value):
                return True
        elif isinstance(here, str):
            if here == value:
                return True
            if len(here) > len(value) and (inner := _parsed(here)) is not None:
                stack.append((inner[0], frozenset()))
        elif isinstance(here, list):
            stack.extend((item, frozenset()) for item in here)
        elif isinstance(here, tuple):
            for key, item in here:
                if key == value:
                    return True
                if not (key.lower() in skipped and is_number(value)):
                    stack.append((item, frozenset()))
    return False


def is_number(value: str) -> bool:
    """Return true if a value may be a number, which occurs in fields of any meaning."""
    return re.fullmatch(r"-?\d+(\.\d+)?", value) is not None


def _same_number(number: str, value: str) -> bool:
    if number == value:
        return True
    # 7.0 and 7e0 are 7; 007 is a different text
    if not re.fullmatch(r"-?(0|[1-9]\d{0,30})", value) or len(number) > 40:
        return False
    try:
        return float(number) == float(value) and abs(float(value)) < 2**53
    except (ValueError, OverflowError):
        return False


# --- CSV: whole fields


def _of_csv(raw: bytes, text: str, value: str, form: Form) -> SubjectMatch:
    sign = form.options.get("quote", '"')
    escape = form.options.get("escape", "\\")
    separator = form.options.get("sep", form.options.get("delimiter", ","))
    if len(separator) != 1 or len(sign) != 1:
        return _mention(raw, text, value)
    found = SubjectMatch.ABSENT
    # Excel and PostgreSQL double a quote within quotes; Spark escapes it
    for escaped in (None, escape if len(escape) == 1 and escape != sign else None):
        try:
            rows = list(
                csv.reader(
                    io.StringIO(text, newline="") if "\n" in text else [text],
                    delimiter=separator,
                    quotechar=sign,
                    escapechar=escaped,
                    strict=True,
                )
            )
        except (csv.Error, TypeError):
            found |= _mention(raw, text, value)
            continue
        for row in rows:
            found |= _held(any(_field_holds(row, at, value, form) for at in range(len(row))))
    return found


def _field_holds(row: Sequence[str], at: int, value: str, form: Form) -> bool:
    known = form.columns[at].lower() if len(row) == len(form.columns) else ""
    if known in form.others and is_number(value):
        return False
    if row[at].strip() == value:
        return True
    inner = _parsed(row[at]) if len(row[at]) > len(value) else None
    return inner is not None and _within(inner[0], value)


# --- texts that no parser takes


def _mention(raw: bytes, text: str, value: str) -> SubjectMatch:
    """Return UNDECIDED if the value is part of a text, in any notation."""
    for codec in ("utf-8", "latin-1", "cp1252", "utf-16-le", "utf-16-be"):
        try:
            if value.encode(codec) in raw:
                return SubjectMatch.UNDECIDED
        except UnicodeEncodeError:
            continue
    for plain in _readings(text or raw.decode("latin-1")):
        if value in plain or value in plain.replace('""', '"'):
            return SubjectMatch.UNDECIDED
    return SubjectMatch.ABSENT


def _readings(text: str) -> Iterator[str]:
    """Yield a text, and its versions without JSON's escapes, also as JSON within JSON."""
    yield text
    for _ in range(3):
        plain = unescaped(text)
        if plain == text:
            return
        yield plain
        text = plain


_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/]))')


def unescaped(text: str) -> str:
    """Resolve JSON's character escapes in a text, whether it is JSON or not."""
    plain = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else m[2], text)
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def fragment(value: str) -> str:
    """Return the longest part of a value that every encoding keeps, or writes with `\\u`.

    A text without it, without `\\u` and without zero bytes cannot contain the value. SQL searches
    for it before any decoding here. Empty if the value has no such part.
    """
    parts = re.findall(r"""[^\x00-\x1f"'/\\\x7f-\U0010ffff]+""", value)
    return max(parts, key=len, default="")


# --- the log of a Delta table


def log_holds(
    line: str,
    value: str,
    columns: Sequence[str],
    texts: Mapping[str, Form] = {},
    prefix: int = 32,
) -> bool:
    """Return true if an action of a table's log, as JSON, contains the value.

    It searches the statistics of `columns` and `texts` (which have at most `prefix` characters),
    their partition values, the parameters and the metadata of commits, and the table's properties.
    """
    try:
        action = json.loads(line)
    except ValueError:
        return _mention(line.encode(errors="replace"), line, value) is not SubjectMatch.ABSENT
    names = {column.lower() for column in columns}
    forms = {column.lower(): form for column, form in texts.items()}
    for kind, part in _statements(action):
        if kind == "text":
            if spoken_of(unescaped(unescaped(part)), value, names):
                return True
        elif any(
            (name in names and _is_bound(text, value, prefix))
            or (name in forms and verdict(text.encode(), value, forms[name]) != SubjectMatch.ABSENT)
            for name, text in _pairs(part)
        ):
            return True
    return False


def _is_bound(text: str, value: str, prefix: int) -> bool:
    """Compare with a bound: Delta cuts texts in statistics, and raises a maximum by a character."""
    return text == value or (len(value) > prefix and text.startswith(value[:prefix]))


def _pairs(part: Any) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a mapping in JSON's form, or in Spark's form of Parquet maps."""
    pairs: list[tuple[Any, Any]] = list(part.items()) if isinstance(part, Mapping) else []
    if isinstance(part, list):
        pairs = [(pair["key"], pair.get("value")) for pair in part]
    for name, text in pairs:
        if text is not None and not isinstance(text, Mapping | list):
            yield str(name).lower(), str(text)


def _statements(action: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the parts of an action with values: (`columns`, mapping) and (`text`, text)."""
    if isinstance(action, list):
        for item in action:
            yield from _statements(item, key)
    elif isinstance(action, str):
        yield "text", action
    elif isinstance(action, Mapping):
        for name, part in action.items():
            if name in ("stats", "partitionValues_parsed", "stats_parsed") and part:
                yield from _statements(json.loads(part) if isinstance(part, str) else part, "stats")
            elif name in ("minValues", "maxValues", "partitionValues"):
                yield "columns", part
            elif name not in ("operationMetrics", "schemaString", "path", "tags", "stats"):
                yield from _statements(part, name)


def spoken_of(text: str, value: str, names: set[str] | None = None) -> bool:
    """Return true if a statement or a sentence has the value as a separate word.

    A number counts only if one of `names` is in the text, too, because every second statement has a
    7.
    """
    if value not in text:
        return False
    if is_number(value) and not any(name in text.lower() for name in names or ()):
        return False
    edge = r"[\s()\[\]{},;:=<>!'\"`|]"
    return re.search(rf"(?:^|{edge}){re.escape(value)}(?:$|{edge})", text) is not None


def mentions(lines: Iterable[bytes], value: str) -> bool:
    """Return true if lines of a log or an artifact have the value as a word, plain or escaped.

    Escapes are those of JSON, also of JSON within JSON, and of Python.
    """
    forms = "|".join(re.escape(one) for one in (value, value.encode("unicode_escape").decode()))
    word = re.compile(rf"(?<![A-Za-z0-9_-])(?:{forms})(?![A-Za-z0-9_-])")
    texts = (line.decode(errors="replace") for line in lines)
    return any(word.search(reading) for text in texts for reading in _readings(text))


# --- the ledger's record of a subject


def keyed_hash(key: bytes, kind: str, value: str) -> str:
    """Return the HMAC-SHA256: without the key, the ledger's reader cannot test values by hash."""
    return hmac.new(key, f"{kind}\0{value}".encode(), "sha256").hexdigest()
