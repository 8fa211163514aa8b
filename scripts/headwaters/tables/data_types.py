"""The types that a contract may declare, checked and spelled in one way, without Spark."""

from __future__ import annotations

import re

from headwaters.platform.names import not_allowed

_SCALARS = (
    "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal",
    "date", "timestamp", "timestamp_ntz", "binary", "variant",
)  # fmt: skip
# Spark's other names for them
_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_NESTED = ("array", "map", "struct")
_BOUNDED = ("varchar", "char", "character")
_TOKEN = r"\s*(`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\w+|[<>(),:]|\S)"


def data_type_problem(text: str, keys_are_texts: bool = False) -> str | None:
    """Return the problem of a declared type, or None.

    `keys_are_texts`: the records are JSON, so that a key of a map is a text.
    """
    try:
        _Parser(text, keys_are_texts).parsed()
    except _Wrong as problem:
        return str(problem)
    return None


def column_type_problem(name: str, data_type: str | None) -> str | None:
    """Return the problem of a column's declared type, or None. A type is required."""
    problem = data_type_problem(str(data_type)) if data_type else "is missing"
    return problem and f"column {name}: data_type {problem}"


def in_one_spelling(text: str) -> str:
    """Return a type with Spark's first name for each type in it: `bigint` for `LONG`.

    All other code knows these names alone. A wrong type is unchanged: `data_type_problem` has
    the reason.
    """
    try:
        return _Parser(text, any_name=True).parsed()
    except _Wrong:
        return text


class _Wrong(Exception):
    """A type that Spark would not create."""


class _Parser:
    """A parser of one type. `any_name`: a field may have a name that Delta does not store."""

    def __init__(self, text: str, keys_are_texts: bool = False, any_name: bool = False) -> None:
        self.text, self.keys_are_texts, self.any_name = text, keys_are_texts, any_name
        self.tokens = re.findall(_TOKEN, text)[::-1]

    def parsed(self) -> str:
        """Return the type in one spelling. Raises _Wrong."""
        found = self._type()
        if self.tokens:
            raise _Wrong(f"'{self.text}' continues after its end, with {self.tokens[-1]}")
        return found

    def _next(self) -> str:
        return self.tokens.pop() if self.tokens else ""

    def _is_next(self, *words: str) -> bool:
        return bool(self.tokens) and self.tokens[-1].lower() in words

    def _takes(self, *words: str) -> bool:
        if self._is_next(*words):
            self.tokens.pop()
            return True
        return False

    def _expect(self, word: str, also: str = "") -> None:
        """Take a word. `also`: another one that might stand there."""
        if not self._takes(word):
            found = self.tokens[-1] if self.tokens else "its end"
            raise _Wrong(f"'{self.text}' has {found} in place of {also}{word}")

    def _type(self) -> str:
        given = self._next().lower()
        name = _ALIASES.get(given, given)
        if name in _NESTED:
            self._expect("<")
            parts = {"array": self._type, "map": self._entry, "struct": self._fields}[name]()
            self._expect(">")
            return f"{name}<{parts}>"
        if name in _BOUNDED:
            raise _Wrong(
                f"{name} is not a type here: declare string, and for its length a check such as "
                "length(name) <= 10"
            )
        if name not in _SCALARS:
            raise _Wrong(not_allowed(name, (*_SCALARS, *_NESTED), "a type"))
        return self._decimal() if name == "decimal" and self._takes("(") else name

    def _entry(self) -> str:
        if self.keys_are_texts and not self._is_next("string"):
            raise _Wrong(f"'{self.text}': the keys of a map are texts in JSON: map<string, …>")
        key = self._type()
        self._expect(",")
        return f"{key}, {self._type()}"

    def _fields(self) -> str:
        fields = [self._field()]
        while self._takes(","):
            fields.append(self._field())
        return ", ".join(fields)

    def _field(self) -> str:
        name = self._next()
        if not re.fullmatch(r"\w+|`.+`" if self.any_name else r"\w+|`[^`\s,;{}()=]+`", name):
            raise _Wrong(
                f"'{self.text}': {name or 'its end'} is not a name of a field that Delta stores"
            )
        self._takes(":")
        found = f"{name}: {self._type()}"
        if self._takes("not"):
            self._expect("null")
            found += " not null"
        return f"{found} comment {self._next()}" if self._takes("comment") else found

    def _decimal(self) -> str:
        digits = int(self._number())
        has_scale = self._takes(",")
        scale = int(self._number()) if has_scale else 0
        self._expect(")", "" if has_scale else ", or ")
        if not 1 <= digits <= 38 or scale > digits:
            raise _Wrong(f"'{self.text}': a decimal has 1 to 38 digits, scale included")
        return f"decimal({digits}, {scale})"

    def _number(self) -> str:
        number = self._next()
        if not number.isdecimal():
            raise _Wrong(f"'{self.text}' has {number or 'its end'} in place of a number")
        return number
