"""The types of values in what people write: lengths of time, sizes, texts, names of a list."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticKnownError

from headwaters.declared.units import bytes_of, milliseconds_of


class Part(BaseModel):
    """A part of a declaration: keys that it does not know are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def seconds(text: object) -> float:
    """A length of time such as `30s` or `6 hours`, in seconds; a number is seconds."""
    if isinstance(text, int | float) and not isinstance(text, bool) and text >= 0:
        return float(text)
    length = milliseconds_of(text)
    if length is None:
        raise ValueError("is not a length of time: write 500ms, 30s, 5m or 1h")
    return length / 1000


Duration = Annotated[float, BeforeValidator(seconds)]


def bytes_of_size(text: object) -> int:
    """A size such as `512m` in bytes, which is all that Spark's file source understands."""
    bare = re.fullmatch(r"\s*\d+\s*", str(text))
    size = int(bare[0]) if bare else bytes_of(text)
    if not size:
        raise ValueError("is not a size: write a number of bytes, or 512k, 64m, 1g")
    return size


Size = Annotated[int, BeforeValidator(bytes_of_size)]


def text_of(value: object) -> str:
    """A value of YAML as the text that a setting of Spark or of a client is."""
    if isinstance(value, dict | list):  # an Avro schema may be written as YAML
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(values: object) -> object:
    return {k: text_of(v) for k, v in values.items()} if isinstance(values, dict) else values


Texts = Annotated[dict[str, str], BeforeValidator(_texts)]


def one_of(names: Iterable[str]) -> BeforeValidator:
    """One name of a list, refused as a `Literal` refuses it."""
    known = tuple(names)

    def check(value: object) -> object:
        if value not in known:
            expected = ", ".join(f"'{name}'" for name in known)
            raise PydanticKnownError("literal_error", {"expected": expected})
        return value

    return BeforeValidator(check)
