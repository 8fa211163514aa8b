"""A reader of headwaters' own tables by delta-rs: operations, expectations, quarantine.

It selects only columns that a table has, because older releases wrote fewer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from headwaters.platform.delta_rs import rows_of
from headwaters.platform.places import Place
from headwaters.report.facts import Evaluation, ExpectationHistory, Operation
from headwaters.streams.quarantine import has_settled

MOST_OPERATIONS = 200
MOST_EVALUATIONS = 30

_OPERATION = (
    *("at", "operation_id", "state", "operation", "table_name", "user", "reason"),
    *("version_before", "version_after", "undo"),
)
_EXPECTATION = ("at", "table_name", "expectation", "expression", "on_failure")
_COUNTS = ("rows_asked", "rows_broken")


def operations(table: Place, has: Iterable[str]) -> tuple[Operation, ...]:
    """Return the newest operations, newest first; `has` are the columns of the table."""
    columns = _selected(_OPERATION, has)
    # an operation has at most two rows
    sql = f"select {columns} from t order by at desc limit {2 * MOST_OPERATIONS}"
    rows: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows_of(table, sql):
        rows[row["operation_id"]].append(row)
    return tuple(map(_operation, list(rows.values())[:MOST_OPERATIONS]))


def _operation(rows: list[Mapping[str, Any]]) -> Operation:
    started = next((row for row in rows if row["state"] == "started"), rows[-1])
    ended = next((row for row in rows if row["state"] != "started"), None)
    last = ended or started
    return Operation(
        id=str(started["operation_id"]),
        at=_utc(started["at"]),
        operation=str(started["operation"]),
        table=str(started["table_name"]),
        user=str(started["user"] or ""),
        reason=str(started["reason"] or ""),
        state=str(last["state"]),
        ended=_utc(ended["at"]) if ended else None,
        version_before=started["version_before"],
        version_after=last["version_after"],
        undo=started["undo"],
    )


def expectations(table: Place, has: Iterable[str]) -> tuple[ExpectationHistory, ...]:
    """Return the evaluated expectations, each with its newest evaluations."""
    columns = _selected((*_EXPECTATION, *_COUNTS), has)
    numbered = (
        f"select {columns}, row_number() over (partition by table_name, expectation order by at "
        "desc) as newest from t"
    )
    sql = f"select * from ({numbered}) where newest <= {MOST_EVALUATIONS} order by at"
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows_of(table, sql):
        found[str(row["table_name"]).lower(), str(row["expectation"])].append(row)
    return tuple(
        ExpectationHistory(
            name,
            rule,
            str(rows[-1]["expression"]),
            str(rows[-1]["on_failure"]),
            tuple(Evaluation(_utc(r["at"]), r["rows_asked"], r["rows_broken"]) for r in rows),
        )
        for (name, rule), rows in sorted(found.items())
    )


def reasons(table: Place, has: Iterable[str]) -> dict[str, int]:
    """Return the number of open records in a stream's quarantine by reason, the most first."""
    open_ones = "where settled is null" if has_settled(has) else ""
    sql = f"select reason, count(*) as records from t {open_ones} group by reason"
    sql += " order by records desc, reason"
    return {str(row["reason"]): int(row["records"]) for row in rows_of(table, sql)}


def _selected(columns: Iterable[str], has: Iterable[str]) -> str:
    present = set(has)
    return ", ".join(f'"{one}"' if one in present else f'null as "{one}"' for one in columns)


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
