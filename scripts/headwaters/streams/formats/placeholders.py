"""The placeholders that Debezium writes for unavailable values.

PostgreSQL does not send large values (TOAST) that an update left unchanged, nor does Oracle send
LOBs. Debezium then writes the text of `unavailable.value.placeholder`, in the form of the column's
type. Pure, without Spark.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Sequence

from headwaters.streams.formats.texts import field

DEFAULT = "__debezium_unavailable_value"
_TEXTS = re.compile(r"(?i)\s*(?:string|binary|variant|decimal)\b")
_NESTED = re.compile(r"(?i)\s*(?:array|map|struct)\b")


def placeholder_of(declared: str) -> str:
    """Return the text of a declared placeholder, which may be `hex:` and its bytes.

    Raises ValueError for a text that JSON would have to escape.
    """
    text = declared
    if declared.startswith("hex:"):
        try:
            text = bytes.fromhex(declared[4:]).decode("latin-1")
        except ValueError:
            raise ValueError("hex: wants an even number of hexadecimal digits after it") from None
    if not re.fullmatch(r"""[ !#-\[\]-~]+""", text):
        raise ValueError(
            "has to be printable ASCII without quotes and backslashes: choose another "
            "unavailable.value.placeholder in the connector"
        )
    return text


def _base64s(text: str) -> list[str]:
    """Return a text's bytes in the two alphabets of base64."""
    data = text.encode()
    both = (base64.b64encode(data), base64.urlsafe_b64encode(data))
    return list(dict.fromkeys(one.decode() for one in both))


def _uuid(text: str) -> str:
    """Return the UUID that Java derives from a text's bytes."""
    return str(uuid.UUID(bytes=hashlib.md5(text.encode()).digest(), version=3))


def texts_of(text: str) -> tuple[str, ...]:
    """Return the placeholder of each type as a value of JSON without spaces.

    These are texts, bytes, `hstore` as a map or as a text, and arrays of texts, bytes, numbers and
    UUIDs. An array of numbers or dates has a number for each byte of the placeholder.
    """
    scalars = [text, *_base64s(text), text.encode().hex()]
    hstore = json.dumps({text: text}, separators=(",", ":"))
    numbers = list(text.encode())
    values: list[object] = [
        *scalars,
        hstore,
        {text: text},
        *([one] for one in (*scalars, _uuid(text))),
        numbers,
        [float(number) for number in numbers],
    ]
    return tuple(json.dumps(value, separators=(",", ":")) for value in values)


def as_field(json_text: str) -> str:
    """Return a value of JSON as Spark reads it into a text."""
    return str(json.loads(json_text)) if json_text.startswith('"') else json_text


def needles(text: str, types: Sequence[str]) -> tuple[str, ...]:
    """Return texts, one of them in every record with a placeholder and in few others."""
    if not any(may_be_unavailable(one) for one in types):
        return ()
    found = [text, *_base64s(text), text.encode().hex()]
    if any(_NESTED.match(one) for one in types):
        numbers = list(text.encode())
        for values in (numbers, [float(number) for number in numbers]):
            found += [json.dumps(values, separators=(by, ":"))[1:-1] for by in (",", ", ")]
        found.append(_uuid(text))
    return tuple(found)


def pattern(text: str, names: Sequence[str]) -> str:
    """Return a pattern of the fields of these names whose value is a placeholder.

    Its first group is the text before the value. A colon right before a quote always belongs to a
    field: within a text, the quote would end the text.
    """
    values = []
    for value in texts_of(text):
        tokens = re.findall(r'"(?:[^"\\]|\\.)*"|[0-9.]+|[\[\]{}:,]', value)
        values.append(r"\s*".join(re.escape(token) for token in tokens))
    fields = "|".join(map(field, names))
    return rf"((?:{fields})\s*:\s*)(?:{'|'.join(values)})"


def may_be_unavailable(data_type: str) -> bool:
    """Return whether a value of the type may be large enough for the database to omit it."""
    return bool(_TEXTS.match(data_type) or _NESTED.match(data_type))


_OF_THE_EVENT = r"(?i)\bpayload\s*\.\s*(?:op|ts_ms|source)\b"
_LITERAL = r"(?s)'(?:[^'\\]|\\.)*'"


def names_in(expression: str, names: Sequence[str]) -> list[str]:
    """Return the columns among `names` that an expression mentions."""
    code = re.sub(_OF_THE_EVENT, " ", re.sub(_LITERAL, " ", expression))
    # in `payload.after['body']`, the literal is the name
    in_brackets = re.findall(r"\[\s*'((?:[^'\\]|\\.)*)'\s*\]", expression)
    words = {word.lower() for word in (*re.findall(r"\w+|`[^`]+`", code), *in_brackets)}
    return [name for name in names if {name.lower(), f"`{name.lower()}`"} & words]
