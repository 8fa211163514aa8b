"""Expectations of a model: conditions that are evaluated on rows before the write.

See docs/tables.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from headwaters.analysis.strategies import strategy_names, strategy_of
from headwaters.platform.nodes import Config, setting
from headwaters.platform.problems import Problem


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


Text = Annotated[str, BeforeValidator(_text), Field(min_length=1)]


class Expectation(BaseModel):
    """A condition that each row must meet; `on_failure` is the consequence."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Text
    expression: Text
    on_failure: Literal["warn", "drop", "fail"] = "warn"

    @property
    def drops(self) -> bool:
        """Return true if the SQL of the write omits rows that do not meet the expectation."""
        return self.on_failure == "drop"


def expectations_of(config: Config) -> list[Expectation]:
    """Return a node's expectations. Raises ValidationError if `expectation_problems` yields any."""
    return [Expectation.model_validate(rule) for rule in setting(config, "expectations", [])]


def expectation_problems(config: Config) -> Iterator[Problem]:
    """Yield the problems of a node's expectations."""
    yield from (Problem("HW_EXPECTATION", text) for text in _problems(config))


def _problems(config: Config) -> Iterator[str]:
    rules = setting(config, "expectations", [])
    if not isinstance(rules, list):
        yield "expectations: write a list of {name, expression, on_failure}."
        return
    strategy, names = strategy_of(config), set()
    for rule in rules:
        try:
            expectation = Expectation.model_validate(rule)
        except ValidationError as error:
            yield f"expectations: {_explain(rule, error)}"
            continue
        name = expectation.name
        if name in names:
            yield f"expectations: two are named {name}."
        elif expectation.on_failure == "drop" and strategy and not strategy.may_drop_rows:
            yield (
                f"expectations: {name} drops rows, and a table of {strategy.name} is maintained "
                "from all of them: filter in the SQL, or use warn or fail."
            )
        names.add(name)
    if rules and not (config.get("materialized") == "incremental" and strategy):
        *others, last = strategy_names()
        is_one = f"materialized: {config.get('materialized')}"
        if configured := config.get("incremental_strategy"):
            is_one += f", incremental_strategy: {configured}"
        yield (
            f"expectations are evaluated on rows of incremental models with {', '.join(others)} or "
            f"{last}, and of no others: this one is {is_one}. Use data tests here."
        )


def _explain(rule: Any, error: ValidationError) -> str:
    """Return the first problem of a rule as one line."""
    if not isinstance(rule, Mapping):
        return f"'{rule}' is no mapping of name, expression and on_failure."
    problem = error.errors()[0]
    key = str(problem["loc"][0])
    if problem["type"] == "extra_forbidden":
        allowed = ", ".join(Expectation.model_fields)
        return f"'{key}' of {rule.get('name')} is not a key here (allowed: {allowed})."
    if key == "on_failure":
        given = problem["input"]
        return f"on_failure of {rule.get('name')} is '{given}': allowed are warn, drop and fail."
    return f"one has no {key}."
