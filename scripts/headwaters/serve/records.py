"""The records of one request: from its text to records that ingestion puts into bronze, or why not.

Pure: no Spark, no network. What is refused has the reasons of quarantine (`malformed`, `type`,
`not_null`, `check`, `schema`), the field, and the place of the record in the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headwaters.contract import Contract
from headwaters.formats import texts
from headwaters.serve.checks import Check
from headwaters.serve.quick import QuickReader
from headwaters.serve.values import LONGEST_NUMBER, Column, Number, fits, read, type_of

Form = Literal["array", "lines"]

SHOWN = 100  # problems of one request that are listed
MOST_RECORDS = 50_000  # of one request
DEEPEST = 200  # levels of objects and arrays; Spark's parser stops at 1,000
LONGEST_NAME = 10_000  # characters; Spark's parser stops at 50,000

_HALF = re.compile(texts.HALF_A_SURROGATE)
_NUMBER = re.compile(texts.NUMBER)
_TEXT = re.compile(texts.TEXT, re.DOTALL)
_BYTES = re.compile("[\udc80-\udcff]")
_SPACES = re.compile(r"[ \t\n\r]*").match
_NUMERIC = re.compile(r'-?[0-9]+\.[0-9]+(?:E-?[0-9]+)?|"-?Infinity"', re.ASCII).fullmatch
# how a text begins that is, or has, a number
_DOUBTFUL = frozenset('{["-0123456789')
_FORMATS = {"date": "dateFormat", "timestamp": "timestampFormat"}


@dataclass(frozen=True)
class Problem:
    """Why a record is refused: its place in the request, and what quarantine would say of it."""

    index: int
    type: str
    field: str | None
    message: str


@dataclass
class Reading:
    """What a request has: its records as they were sent, or what is wrong with some.

    Their values are there if they were asked for, their keys if a field was named.
    """

    texts: Sequence[bytes] = ()
    keys: list[str | None] | None = None
    values: list[dict[str, Any]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    refused: int = 0

    def refuse(self, problem: Problem) -> None:
        """Count a record that is refused; the first of them are listed."""
        self.refused += 1
        if len(self.problems) < SHOWN:
            self.problems.append(problem)


class TooMany(Exception):
    """A request has more records than one may have."""


class _Repeated(ValueError):
    """An object names a field twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Repeated(name)
            seen.add(name)
    return found


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON: write it as a string")


_scan = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Number, parse_constant=_constant
).scan_once  # type: ignore[attr-defined]  # the C scanner, which says where a value ends


class Reader:
    """Reads the requests of one stream.

    `unchecked` are the rules of the contract that are left to ingestion. With `no_others`, a field
    that is not declared is refused whatever the contract says: there is no place for it.
    """

    def __init__(self, contract: Contract, no_others: bool = False) -> None:
        """Compile a contract. Raises ValueError for a column whose type is not understood."""
        self.contract = contract
        options = contract.stream.options if contract.form == "json" else {}
        formatted = frozenset(kind for kind, option in _FORMATS.items() if option in options)
        self.columns = [
            Column(
                column.name,
                column.data_type,
                kind := type_of(column.data_type),
                fits(kind, formatted),
                read(kind),
                any(rule.type == "not_null" for rule in column.constraints),
            )
            for column in contract.read_columns
        ]
        self._names = frozenset(column.name for column in self.columns)
        self._reads = {column.name: column.read for column in self.columns}
        self._loop = [(c.name, c.fits, c.required, c.kind.has_text, c) for c in self.columns]
        self._closed = no_others or contract.stream.schema_policy == "fail"
        declared = [(column.name, column.data_type) for column in contract.read_columns]
        self._wild = _Wild(declared, self.columns)
        self._as_text = [c for c in self.columns if c.kind.has_text]
        self.checks: list[tuple[str, str, Check]] = []
        self.unchecked: list[str] = [
            f"{kind} of {column.name}"
            for kind, option in _FORMATS.items()
            if kind in formatted
            for column in self.columns
            if column.kind.name == kind
        ]
        for column in contract.columns:
            for rule in column.constraints:
                expression = rule.expression or f"{column.name} is not null"
                if rule.type == "not_null" and column.name in self._names:
                    continue
                try:
                    self.checks.append((column.name, expression, Check(contract, expression)))
                except ValueError:
                    self.unchecked.append(f"{column.name}: {expression}")
        checked = {name for _, _, check in self.checks for name in check.columns}
        self._checked = [
            (c.name, c.kind.name == "string", c.read) for c in self.columns if c.name in checked
        ]
        self.quick = None if formatted else self._quick()

    def _quick(self) -> QuickReader | None:
        """What reads most requests, if all columns are of simple types."""
        try:
            return QuickReader(self.columns, [check for _, _, check in self.checks])
        except ValueError:
            return None

    def field(self, value: dict[str, Any], name: str) -> Any:
        """The value of a declared field of an accepted record, as it was sent."""
        return value.get(name)

    def typed(self, value: dict[str, Any]) -> dict[str, Any]:
        """The declared fields of an accepted record, in their types.

        Raises ValueError for what only Spark can have.
        """
        return {
            name: None if (given := value.get(name)) is None else to_value(given)
            for name, to_value in self._reads.items()
        }

    def read(
        self, body: bytes, form: Form, key: str | None = None, keep_values: bool = False
    ) -> Reading:
        """The records of a body, with the values of the field `key`. Raises TooMany."""
        if self.quick is not None and not keep_values:
            found = self.quick.read(body, form == "lines", key, self._accepts)
            if found is not None and len(found[0]) <= MOST_RECORDS:
                return Reading(*found)
        return self.read_each(body, form, key, keep_values)

    def _accepts(self, record: bytes) -> bool:
        return self.read_each(record, "lines").texts == [record]

    def read_each(
        self, body: bytes, form: Form, key: str | None = None, keep_values: bool = False
    ) -> Reading:
        """As `read`: the rules themselves, record by record. Raises TooMany."""
        text = body.decode("utf-8", "surrogateescape")
        doubtful = Doubts.of(text)
        texts: list[bytes] = []
        reading = Reading(texts, None if key is None else [])
        scan = _elements if form == "array" else _lines
        for index, found in enumerate(scan(text)):
            if index >= MOST_RECORDS:
                raise TooMany
            if isinstance(found, str):
                reading.refuse(Problem(index, "malformed", None, found))
                continue
            value, begin, end = found
            record = text[begin:end]
            problem = self.problem(value, record, doubtful)
            if problem is not None:
                reading.refuse(Problem(index, *problem))
            elif not reading.refused:
                texts.append(record.encode())
                if reading.keys is not None and key is not None:
                    given = self.field(value, key)
                    is_key = given is None or isinstance(given, str)
                    reading.keys.append(given if is_key else json.dumps(given))
                if keep_values:
                    reading.values.append(value)
        return reading

    def problem(
        self, value: Any, record: str, doubtful: Doubts
    ) -> tuple[str, str | None, str] | None:
        """What is wrong with a record: type, field, message."""
        if type(value) is not dict:
            return "malformed", None, "is not a JSON object"
        problem = self._wild.problem(value, record)
        if doubtful.any or len(record) > LONGEST_NUMBER:
            problem = doubtful.problem(value, record) or problem
        if problem:
            return "malformed", None, problem
        misfit, may_change = None, False
        get = value.get
        for name, fit, required, is_text, column in self._loop:
            given = get(name)
            if given is None:
                if required and misfit is None:
                    misfit = "not_null", name, "is null"
            elif is_text and type(given) is str:
                may_change = may_change or given[:1] in _DOUBTFUL
            elif not fit(given):
                shown = given if isinstance(given, str) else json.dumps(given)
                return "type", name, f"'{shown[:100]}' is not a {column.data_type}"
            elif is_text:
                may_change = True
        others = [] if value.keys() <= self._names else [n for n in value if n not in self._names]
        if others and self._closed:
            return "schema", others[0], "is not declared"
        if (others or may_change) and (changed := self._changed(value, record, others)):
            return changed
        return misfit or (self._broken(value) if self.checks else None)

    def _broken(self, value: dict[str, Any]) -> tuple[str, str | None, str] | None:
        row: dict[str, Any] = {}
        for name, is_text, to_value in self._checked:
            given = value.get(name)
            if given is None or (is_text and type(given) is str):
                row[name] = given
                continue
            try:
                row[name] = to_value(given)
            except ValueError:  # an object as text: ingestion will say
                return None
        for name, expression, check in self.checks:
            if check.holds(row) is False:
                return "check", name, f"violates {expression}"
        return None

    def _changed(
        self, value: dict[str, Any], record: str, others: Sequence[str]
    ) -> tuple[str, str, str] | None:
        """A number that Spark would write as a text, with another value than it had.

        And the text of a number in a field whose name is written with escapes, by which ingestion
        does not find it.
        """
        as_text = {name: value[name] for name in others}
        for column in self._as_text:
            given = value.get(column.name)
            if type(given) is str and column.kind.name == "string":
                if given[:1] in ("{", "["):
                    as_text[column.name] = given
                elif given[:1] < ":" and _NUMERIC(given) and f'"{column.name}"' not in record:
                    return "type", column.name, "write the name of this field without escapes"
            elif given is not None and type(given) is not Number:
                as_text[column.name] = given
        if not as_text:
            return None
        given_numbers = _NUMBER.findall(_TEXT.sub('""', record))
        lost = {float(number): number for number in given_numbers if _is_lost(number)}
        if not lost:
            return None
        for name, one in as_text.items():
            for written in _NUMBER.findall(json.dumps({"": one})):
                if (number := lost.get(float(written))) is not None:
                    return "type", name, f"has the number {number[:100]}, which would change"
        return None


def _is_lost(number: str) -> bool:
    """Whether a number changes by way of a double; of large ones, Java may add digits."""
    value = float(number)
    return abs(value) >= 1e15 or _digits(repr(value)) != _digits(number)


def _digits(number: str) -> str:
    """Without sign, point, exponent, and zeros at both ends."""
    return re.split("[eE]", number)[0].replace("-", "").replace(".", "").strip("0")


class _Wild:
    """Numbers such as 1e100000000 where a decimal is declared, or a field of its name is.

    A record that has the name only once, as the name of a field whose value is no such number, is
    cleared by counting.
    """

    def __init__(self, declared: Sequence[tuple[str, str]], columns: Sequence[Column]) -> None:
        self._patterns = [re.compile(pattern) for pattern in texts.wild_numbers(declared)]
        plain = [column.name for column in columns if column.kind.name == "decimal"]
        # as many patterns as names: none is for a decimal inside another type
        self._names = plain if len(plain) == len(self._patterns) else None

    def problem(self, value: dict[str, Any], record: str) -> str | None:
        """Why a record is refused, or None."""
        if self._names is not None:
            for name in self._names:
                if record.count(name) > (name in value) or _wild_exponent(value.get(name)):
                    break
            else:
                return None
        if any(pattern.search(record) for pattern in self._patterns):
            return "has a number with an exponent of five digits"
        return None


def _wild_exponent(given: object) -> bool:
    return isinstance(given, str) and len(given) > 6 and ("e" in given or "E" in given)


@dataclass(frozen=True)
class Doubts:
    """What a whole request is looked through for, so that its records need not be."""

    not_utf8: bool
    half: bool

    @property
    def any(self) -> bool:
        """Whether there is any."""
        return self.not_utf8 or self.half

    @classmethod
    def of(cls, text: str) -> Doubts:
        """What there is in the text of a request."""
        return cls(
            not text.isascii() and _BYTES.search(text) is not None,
            "\\ud" in text or "\\uD" in text,
        )

    def problem(self, value: dict[str, Any], record: str) -> str | None:
        """Why a record is none, although it is an object of JSON."""
        if self.not_utf8 and _BYTES.search(record):
            return "has bytes that are not UTF-8"
        if self.half and _HALF.search(record):
            return "has half of a surrogate pair, which is no character"
        if len(record) > LONGEST_NUMBER:
            return _too_large(value, record)
        return None


def _too_large(value: dict[str, Any], record: str) -> str | None:
    """What Spark's parser of JSON would stop at."""
    if record.count("{") + record.count("[") > DEEPEST and _depth(value) > DEEPEST:
        return f"is nested more than {DEEPEST} levels deep"
    outside_texts = _TEXT.sub('""', record) if '"' in record else record
    if any(len(one[0]) > LONGEST_NUMBER for one in re.finditer(r"[-+0-9.eE]++", outside_texts)):
        return f"has a number of more than {LONGEST_NUMBER} characters"
    if len(record) > LONGEST_NAME and any(len(name) > LONGEST_NAME for name in _all_names(value)):
        return f"has a field whose name has more than {LONGEST_NAME:,} characters"
    return None


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        depth += 1
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
    return depth


def _all_names(value: Any) -> Iterator[str]:
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield from one
            left += one.values()
        elif isinstance(one, list):
            left += one


# -- the records of a body -----------------------------------------------------------------------

# A value with where it begins and ends, or why there is none.
Found = tuple[Any, int, int] | str


def _scanned(text: str, begin: int) -> Found:
    try:
        value, end = _scan(text, begin)
    except StopIteration as error:
        if (place := error.value) == begin:
            return "is not a JSON object"
        return f"is not JSON: a value is missing (character {place - begin + 1} of the record)"
    except _Repeated as error:
        return f"{error} is there more than once"
    except RecursionError:
        return f"is nested more than {DEEPEST} levels deep"
    except json.JSONDecodeError as error:
        return f"is not JSON: {error.msg} (character {error.pos - begin + 1} of the record)"
    except ValueError as error:
        reason = "a number of too many digits" if "digits" in str(error) else str(error)
        return f"is not JSON: {reason}"
    return value, begin, end


def _lines(text: str) -> Iterator[Found]:
    """One record a line; a blank line is none."""
    begin, size = 0, len(text)
    while begin < size:
        line_end = text.find("\n", begin)
        line_end = size if line_end < 0 else line_end
        line = text[begin:line_end]
        begin = line_end + 1
        record = line.strip(" \t\r")
        if not record:
            continue
        start = line_end - len(line) + line.index(record[0])
        found = _scanned(record, 0)
        if isinstance(found, str):
            yield found
        elif found[2] != len(record):
            yield "more than one JSON object in a record"
        else:
            yield found[0], start, start + len(record)


def _elements(text: str) -> Iterator[Found]:
    """The elements of one array; after one that cannot be read, nothing is known of the rest."""
    at = _after_spaces(text, 0)
    if text[at : at + 1] != "[":
        yield "the request is not a JSON array: send [...], or a record a line as NDJSON"
        return
    at = _after_spaces(text, at + 1)
    if text[at : at + 1] != "]":
        while True:
            found = _scanned(text, at)
            yield found
            if isinstance(found, str):
                return
            at = found[2]
            if text[at : at + 1] != ",":
                at = _after_spaces(text, at)
            sign = text[at : at + 1]
            if sign == "]":
                break
            if sign != ",":
                yield "is not JSON: the array is not continued by a comma"
                return
            at += 2 if text[at + 1 : at + 2] == " " else 1
            if text[at : at + 1] != "{":
                at = _after_spaces(text, at)
    if _after_spaces(text, at + 1) != len(text):
        yield "is not JSON: text follows the array"


def _after_spaces(text: str, at: int) -> int:
    found = _SPACES(text, at)
    return found.end() if found else at
