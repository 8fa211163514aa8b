"""The types that a contract may declare, checked without Spark."""

from __future__ import annotations

import re

from headwaters.platform.names import not_allowed

_SCALARS = (
    "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal",
    "date", "timestamp", "timestamp_ntz", "binary", "variant",
)  # fmt: skip
# Spark's other names for them
_ALIASES = ("byte", "short", "integer", "long", "real", "dec", "numeric", "timestamp_ltz")
_DECIMALS = ("decimal", "dec", "numeric")
_TOKEN = r"\s*(`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\w+|[<>(),:]|\S)"


def data_type_problem(text: str, keys_are_texts: bool = False) -> str | None:
    """Return the problem of a declared type, or None.

    `keys_are_texts`: the records are JSON, so that a key of a map is a text.
    """
    return _Parser(text, keys_are_texts).problem()


class _Wrong(Exception):
    """A type that Spark would not create."""


class _Parser:
    """A parser of one type."""

    def __init__(self, text: str, keys_are_texts: bool) -> None:
        self.text, self.keys_are_texts = text, keys_are_texts
        self.tokens = re.findall(_TOKEN, text)[::-1]

    def problem(self) -> str | None:
        try:
            self._type(outermost=True)
            if self.tokens:
                raise _Wrong(f"'{self.text}' continues after its end, with {self.tokens[-1]}")
        except _Wrong as problem:
            return str(problem)
        return None

    def _next(self) -> str:
        return self.tokens.pop() if self.tokens else ""

    def _is_next(self, *words: str) -> bool:
        return bool(self.tokens) and self.tokens[-1].lower() in words

    def _takes(self, *words: str) -> bool:
        if self._is_next(*words):
            self.tokens.pop()
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._takes(word):
            found = self.tokens[-1] if self.tokens else "its end"
            raise _Wrong(f"'{self.text}' has {found} in place of {word}")

    def _type(self, outermost: bool = False) -> None:
        name = self._next().lower()
        if name in ("array", "map", "struct"):
            self._expect("<")
            if name == "struct":
                self._field()
                while self._takes(","):
                    self._field()
            elif name == "map" and self.keys_are_texts and not self._is_next("string"):
                raise _Wrong(f"'{self.text}': the keys of a map are texts in JSON: map<string, …>")
            else:
                self._type()
            if name == "map":
                self._expect(",")
                self._type()
            self._expect(">")
        elif name not in _SCALARS and (outermost or name not in _ALIASES):
            raise _Wrong(not_allowed(name, _SCALARS, "a type"))
        elif name in _DECIMALS and self._takes("("):
            digits = int(self._number())
            scale = int(self._number()) if self._takes(",") else 0
            self._expect(")")
            if not 1 <= digits <= 38 or scale > digits:
                raise _Wrong(f"'{self.text}': a decimal has 1 to 38 digits, scale included")

    def _number(self) -> str:
        number = self._next()
        if not number.isdecimal():
            raise _Wrong(f"'{self.text}' has {number or 'its end'} in place of a number")
        return number

    def _field(self) -> None:
        name = self._next()
        if not re.fullmatch(r"\w+|`[^`\s,;{}()=]+`", name):
            raise _Wrong(
                f"'{self.text}': {name or 'its end'} is not a name of a field that Delta stores"
            )
        self._takes(":")
        self._type()
        if self._takes("not"):
            self._expect("null")
        if self._takes("comment"):
            self._next()
