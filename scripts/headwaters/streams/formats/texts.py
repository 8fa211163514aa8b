"""The texts that are values of a type. Spark accepts more, and reads some as other values.

`1,5` becomes 15, `12:00` a moment of the day on which it is read, `2026` the first of January, `1`
the second of January 1970, `1d` and `0x1p3` numbers, 1e400 infinity. Such a text does not fit its
`data_type`. Patterns match a whole text, with the same meaning in Java and in Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# An exponent of five digits: Spark needs minutes to hours to turn such a number into a decimal.
WILD = "[eE][+-]?0*[1-9][0-9]{4}"
_DIGITS = r"[-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?0*[0-9]{1,4})?"
_DAY = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_MIDNIGHT = r"[T ]0?0:0?0(?::0?0(?:\.0*+)?)?\s*+(?:Z|UTC|[-+][0-9:]++)?"
_TIME = r"[T ][0-9]{1,2}:[0-9]{1,2}(?::[0-9]{1,2}(?:\.[0-9]*+)?)?"

PATTERNS: dict[str, str] = {
    "decimal": rf"\s*+{_DIGITS}\s*+",
    "float": rf"\s*+(?:{_DIGITS}|[nN][aA][nN]|[-+]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)\s*+",
    "date": rf"\s*+{_DAY}(?:{_MIDNIGHT})?\s*+",
    "timestamp": rf"\s*+{_DAY}(?:[T ][^\"']*+)?",  # Spark checks time and zone
    "timestamp_ntz": rf"\s*+{_DAY}(?:{_TIME})?\s*+",
}
WHOLE_NUMBERS = {"tinyint", "smallint", "int", "bigint"}
_KINDS = {"double": "float"}
NEWEST_SECOND = 253_402_300_799  # the last one of the year 9999; larger numbers are milliseconds

# In JSON: a number that is not an integer, any number that Spark may write with other digits (also
# -0, and one of more digits than a decimal has), a text, and a `\ud800` alone; an escaped backslash
# does not start an escape.
NUMBER = r"-?[0-9]+(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)"
CHANGEABLE = rf"{NUMBER}|-?[0-9]{{39,}}|-0(?![0-9.eE])"
TEXT = r'"(?:[^"\\]|\\.)*+"'
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
HALF_A_SURROGATE = rf"(?<!\\)(?:\\\\)*+(?:{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW})"


def kind(data_type: str) -> str:
    """Return the base of a type in Spark's terms, with one name for types of equal notation."""
    base = re.split(r"[(<\s]", data_type.strip().lower())[0]
    return _KINDS.get(base, base)


def pattern(data_type: str) -> str | None:
    """Return the pattern that a whole text of this type must match, or None if Spark is right."""
    return PATTERNS.get(kind(data_type))


def field(name: str) -> str:
    """Return a pattern of a field's name in JSON, with its quotes.

    It begins with the name itself, which Java searches in strides, if no program would escape a
    character of the name.
    """
    if re.fullmatch(r"[\w .:-]+", name, re.ASCII):
        return rf"{re.escape(name)}(?<=[\"']{re.escape(name)})[\"']"
    return rf"[\"']{''.join(map(_escaped, name))}[\"']"


def _escaped(character: str) -> str:
    """Return a pattern of a character in JSON, escaped or not."""
    units = character.encode("utf-16-be").hex()
    escape = "".join(rf"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    return rf"(?:\\?{re.escape(character)}|(?i:{escape}))"


def in_json(columns: Iterable[tuple[str, str]], kinds: Iterable[str]) -> list[str] | None:
    """Return patterns of JSON records that may have a wrong value of one of these kinds.

    A record without a match is correct. A record with one needs a closer check, because the match
    may be a field of that name in an undeclared object. The result is None if every record needs
    it, since elements of arrays and maps have no name.
    """
    patterns: list[str] = []
    words = {one: [w for w in (one, *_KINDS) if _KINDS.get(w, w) == one] for one in kinds}
    columns = list(columns)
    for one, names in words.items():
        word = rf"(?:{'|'.join(names)})\b"
        if any(re.search(rf"(?:array\s*<|map\s*<.*,)\s*{word}", t, re.I) for _, t in columns):
            return None
        found = [name for name, data_type in columns if re.match(rf"\s*{word}", data_type, re.I)]
        for _, data_type in columns:
            fields = re.findall(rf"(?:`([^`]+)`|(\w+))\s*[:\s]\s*{word}", data_type, re.I)
            found += [quoted or plain for quoted, plain in fields]
        number = {"decimal": rf"|[-+]?[0-9.,]++{WILD}", "timestamp": "|-?[0-9]{12}"}.get(one, "")
        patterns += [
            rf"{name}\s*+:\s*+(?:[\"'](?!{PATTERNS[one]}[\"']){number})"
            for name in map(field, dict.fromkeys(found))
        ]
    return patterns


def wild_numbers(columns: Iterable[tuple[str, str]]) -> list[str]:
    """Return patterns of numbers such as 1e100000000 in JSON if a decimal is declared.

    Spark spends minutes to hours on a decimal from those few bytes, and the stream stands still. In
    a text, or in an undeclared field, the same characters do no harm.
    """
    decimal = r"decimal\b"
    named = rf"(?:`([^`]+)`|(\w+))\s*[:\s]\s*{decimal}"  # a field of a struct
    element = rf"(?:array\s*<|map\s*<.*,)\s*{decimal}"
    types = {name: data_type.strip() for name, data_type in columns}
    names = [name for name, one in types.items() if re.match(decimal, one, re.I)]
    for one in types.values():
        names += [quoted or plain for quoted, plain in re.findall(named, one, re.I)]
    number = rf"[\"']?\s*[-+]?[0-9.,]++{WILD}"
    patterns = [rf"{name}\s*:\s*{number}" for name in map(field, dict.fromkeys(names))]
    if any(re.search(element, one, re.I) for one in types.values()):
        patterns += [rf"[:\[,]\s*[-+]?[0-9.]++{WILD}", rf"[\"']\s*[-+]?[0-9.,]++{WILD}"]
    return patterns
