"""The types of declared values: durations, sizes, texts, names of a list."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticKnownError

from headwaters.platform.names import not_allowed
from headwaters.platform.units import bytes_of, milliseconds_of


class Part(BaseModel):
    """A part of a declaration, which refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def seconds(text: object) -> float:
    """Return a duration such as `30s` or `6 hours` in seconds; a number is seconds."""
    if isinstance(text, int | float) and not isinstance(text, bool) and text >= 0:
        return float(text)
    length = milliseconds_of(text)
    if length is None:
        raise ValueError("is not a length of time: write 500ms, 30s, 5m or 1h")
    return length / 1000


Duration = Annotated[float, BeforeValidator(seconds)]


def bytes_of_size(text: object) -> int:
    """Return a size such as `512m` in bytes, the only unit of Spark's file source."""
    bare = re.fullmatch(r"\s*\d+\s*", str(text))
    size = int(bare[0]) if bare else bytes_of(text)
    if not size:
        raise ValueError("is not a size: write a number of bytes, or 512k, 64m, 1g")
    return size


Size = Annotated[int, BeforeValidator(bytes_of_size)]


def text_of(value: object) -> str:
    """Return a YAML value as the text of a setting of Spark or of a client."""
    if isinstance(value, dict | list):  # an Avro schema may be YAML
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(values: object) -> object:
    return {k: text_of(v) for k, v in values.items()} if isinstance(values, dict) else values


Texts = Annotated[dict[str, str], BeforeValidator(_texts)]


def one_of(names: Iterable[str]) -> BeforeValidator:
    """Return a validator for one name of a list, with the errors of `Literal`."""
    known = tuple(names)

    def check(value: object) -> object:
        if value not in known:
            expected = ", ".join(f"'{name}'" for name in known)
            raise PydanticKnownError("literal_error", {"expected": expected})
        return value

    return BeforeValidator(check)


def explain(error: ValidationError, model: type[BaseModel], root: str = "") -> str:
    """Return the first problem of a pydantic error, as one line for a person."""
    return explained(error, model, root)[0]


def explained(error: ValidationError, model: type[BaseModel], root: str = "") -> list[str]:
    """Return the problems of a pydantic error, each as one line; misspelt keys come first.

    `root` is the place of the model's keys: `config.meta.stream`.
    """
    # of the problems of a union of words and a mapping, the mapping's come first
    problems = sorted(
        error.errors(),
        key=lambda p: (
            p["type"] != "extra_forbidden",
            p["type"] == "literal_error" and isinstance(p["input"], Mapping),
        ),
    )
    return [_line(problem, model, root) for problem in problems]


def _line(problem: ErrorDetails, model: type[BaseModel], root: str) -> str:
    path = [str(part) for part in problem["loc"] if not _names_a_type(part)]
    key = ".".join(filter(None, [root, *path]))
    kind = problem["type"]
    if kind == "extra_forbidden":
        owner = _model_at(model, path[:-1])
        names = [field.alias or name for name, field in owner.model_fields.items()]
        return f"{'.'.join(filter(None, [root, *path[:-1]]))}: {not_allowed(path[-1], names)}"
    if kind == "missing":
        return f"{key} is missing"
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", str(problem["ctx"]["expected"]))
        return f"{key}: {not_allowed(str(problem['input']), allowed, 'allowed')}"
    message = str(problem.get("ctx", {}).get("error", problem["msg"]))
    return f"{key}: {message} (given: {problem['input']!r})" if path else f"{key}: {message}"


def _names_a_type(part: object) -> bool:
    """Return true if a step of a pydantic error's path is a member of a union, not a key."""
    return isinstance(part, str) and "[" in part


def _model_at(model: type[BaseModel], path: list[str]) -> type[BaseModel]:
    for part in path:
        field = next(f for name, f in model.model_fields.items() if (f.alias or name) == part)
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                model = inner
    return model
