"""The steps of a history: tables, models over them, and changes that end with a dbt run.

SQL names relations in brackets: `[t]`, `[u]` and `[l]` are inputs, `[m1]`, `[m2]` and `[m3]` the
models' tables. `[newest-2]` is the version two before the newest of the first relation named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

INPUTS = ("t", "u", "l")
_RELATION = re.compile(r"\[(t|u|l|m\d)\]")


def in_place(text: str, relation: Callable[[str], str]) -> str:
    """Replace the relations in brackets."""
    return _RELATION.sub(lambda match: relation(match[1]), text)


def relations(text: str) -> list[str]:
    """Return the relations that a text names, in order."""
    return _RELATION.findall(text)


@dataclass(frozen=True)
class Change:
    """A statement; `{rows}` in its text stands for its rows.

    A text that begins with `spark.` is Python, for changes that SQL cannot express.
    """

    text: str
    rows: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text.replace("{rows}", ", ".join(self.rows))


@dataclass(frozen=True)
class Model:
    """A dbt model, and the plain SQL of its rows."""

    name: str
    settings: Mapping[str, object]
    body: str
    # By the relation that the body names: the table or model that it reads, and the input macro.
    reads: Mapping[str, str]
    macros: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""  # if it is not the body

    def file(self, prefix: str) -> str:
        """Return the text of the model's file."""

        def relation(name: str) -> str:
            read = self.reads[name]
            place = (
                f"source('inputs', '{prefix}_{read}')"
                if read in INPUTS
                else f"ref('{prefix}_{read}')"
            )
            return "{{ " + self.macros.get(name, "{}").format(place) + " }}"

        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{{{{ config({settings}) }}}}\n{in_place(self.body, relation)}\n"

    def rows(self, relation: Callable[[str], str]) -> str:
        """Return the plain SQL of the model's rows."""
        text = self.reference or self.body
        return in_place(text, lambda name: relation(self.reads[name]))

    @property
    def is_history(self) -> bool:
        """Return whether the table has periods of validity."""
        return self.settings.get("incremental_strategy") == "history"

    @property
    def partition_columns(self) -> list[str]:
        """Return the partition columns of the table."""
        columns = self.settings.get("partition_by") or []
        return [columns] if isinstance(columns, str) else list(columns)  # type: ignore[call-overload]


@dataclass(frozen=True)
class Step:
    """Changes, edits of models, and a run, which may stop before a statement of each model."""

    changes: tuple[Change, ...]
    edits: tuple[Model, ...] = ()
    stop: int | None = None


@dataclass(frozen=True)
class History:
    """Tables, models over them, and the steps that change both."""

    tables: tuple[Change, ...]
    models: tuple[Model, ...]
    steps: tuple[Step, ...]

    def script(self) -> str:
        """Return the history as a script: SQL, models, and the runs between them."""
        lines = [f"{change};" for change in self.tables]
        for model in self.models:
            lines += [f"-- models/{model.name}.sql", _commented(model.file("h"))]
        lines.append("-- dbt run")
        for step in self.steps:
            lines += [f"{change};" for change in step.changes]
            for model in step.edits:
                lines += [f"-- models/{model.name}.sql becomes", _commented(model.file("h"))]
            stopped = f", stopped before statement {step.stop} of each model" if step.stop else ""
            lines.append(f"-- dbt run{stopped}")
        return "\n".join(lines)


def _commented(text: str) -> str:
    return "\n".join(f"--   {line}" for line in text.strip().splitlines())
