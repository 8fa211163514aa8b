"""The end of `make run`: each table, its rows, and its new rows since the last summary."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from headwaters.platform import atomic_write
from headwaters.platform.places import Place
from headwaters.platform.project import Project
from headwaters.tables.delta_log import snapshot

LAYERS = ("bronze", "silver", "gold", "ops", "reference")
NEXT = (
    ('headwaters sql "select * from gold.account_daily_spend"', "look at a gold table"),
    ("dbt build --select state_weekly_summary", "build one model and test it"),
    ("dbt test --select test_name:equals_full_refresh", "compare tables with a full refresh"),
    ("headwaters engine start", "keep Spark warm for dbt run --target engine"),
)


@dataclass(frozen=True)
class Line:
    """A table, its rows now and how many more they are than at the last summary."""

    table: str
    rows: int | None
    added: int


def lines(project: Project, before: dict[str, int]) -> list[Line]:
    """Return every Delta table of the warehouse's layers, in the order of the layers."""
    found = []
    for layer in LAYERS:
        folders: Iterable[Place] = (project.warehouse / f"{layer}.db").glob("*")
        for folder in sorted(folders, key=str):
            if (state := snapshot(folder)) is not None:
                name = f"{layer}.{folder.name}"
                found.append(Line(name, state.rows, (state.rows or 0) - before.get(name, 0)))
    return found


def summary(project: Project, console: Console | None = None) -> None:
    """Print the tables, and record their rows for the next summary."""
    console = console or Console()
    record = project.local / "summary.json"
    found = lines(project, _before(record))
    if not found:
        console.print("no tables yet: `make run` makes them")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("table")
    table.add_column("rows", justify="right")
    table.add_column("new", justify="right")
    for line in found:
        rows = "?" if line.rows is None else f"{line.rows:,}"
        table.add_row(line.table, rows, f"{line.added:+,}" if line.added else "")
    console.print()
    console.print(table)
    console.print()
    if not any(line.added for line in found):
        console.print("Nothing new: every table has the rows that it had before.")
    other = os.environ.get("HEADWATERS_LAKE")
    lake = f" and `export HEADWATERS_LAKE={other}`" if other else ""
    console.print(f"Next, after `. .venv/bin/activate`{lake}:", soft_wrap=True)
    width = max(len(command) for command, _ in NEXT)
    for command, purpose in NEXT:
        console.print(f"  {command:<{width}}  {purpose}", highlight=False, soft_wrap=True)
    atomic_write.write(record, json.dumps({line.table: line.rows or 0 for line in found}))


def _before(record: Path) -> dict[str, int]:
    try:
        return {str(name): int(rows) for name, rows in json.loads(record.read_text()).items()}
    except (OSError, ValueError, AttributeError):
        return {}
