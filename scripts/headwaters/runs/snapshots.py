"""The decisions about a snapshot before it writes. They are pure.

dbt documents that the key of a snapshot is unique, and checks neither the key nor the types.
macros/adapter/snapshot.sql calls this module, and has the SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headwaters.platform.nodes import Node, as_tuple
from headwaters.platform.problems import Problem
from headwaters.runs.stock import StockColumn, partial_option
from headwaters.runs.stored_types import loss


def snapshot_problems(
    node: Node,
    strategy: Mapping[str, Any],
    flags: Any,
    given: Sequence[StockColumn],
    held: Sequence[Any],
    rows: Sequence[Mapping[str, Any]],
) -> list[Problem]:
    """Return the reasons why a snapshot may not record its rows.

    `given` are the columns of its query, and `held` those of its table: both are empty if the run
    creates the table. `rows` has a key that the query gives and a snapshot cannot record.
    """
    place = f"{node['name']} ({node['original_file_path']})"
    found = [*_of_part(strategy, flags, held), *_of_types(given, held), *_of_rows(strategy, rows)]
    return [problem.at(place) for problem in found]


def _of_part(strategy: Mapping[str, Any], flags: Any, held: Sequence[Any]) -> Iterator[Problem]:
    mode = strategy["hard_deletes"]
    option = partial_option(flags)
    if held and option and mode != "ignore":
        yield Problem(
            "HW_SNAPSHOT_PART",
            f"has hard_deletes: {mode}, and --{option} leaves out rows of its input: it would "
            f"record them as deleted. Exclude the snapshot, or run it without --{option}.",
        )


def _of_types(given: Sequence[StockColumn], held: Sequence[Any]) -> Iterator[Problem]:
    types = {column.name.lower(): column.dtype for column in held}
    for column in given:
        before = types.get(column.key)
        if before is not None and (lost := loss(column.type, before)):
            yield Problem(
                "HW_COLUMNS_DIFFER",
                f"gives {column.name} as {column.type}, and its table has {before}, {lost}: each "
                "run would record a part of the value as a change. "
                f"Select it as {before}, or by another name.",
            )


def _of_rows(strategy: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    names = ", ".join(as_tuple(strategy["unique_key"]))
    for row in rows[:1]:
        key = f"{names} = {row['row_key']}"
        if row["lacks_key"]:
            yield Problem(
                "HW_SNAPSHOT_ROWS",
                f"gives a row with a NULL in its unique_key ({key}), which each run would record "
                "again. Select a value instead, as coalesce() gives it, or leave the row out.",
            )
        elif row["copies"] > 1:
            yield Problem(
                "HW_REPEATED_KEYS",
                f"gives {row['copies']} rows for a unique_key ({key}). Nothing was recorded. Give "
                "one row a key, or add the columns that tell the rows apart to unique_key.",
            )
        else:
            yield Problem(
                "HW_SNAPSHOT_ROWS",
                f"gives a row with a NULL in {strategy['updated_at']} ({key}): its changes would "
                "not be recorded. Select another time instead, as coalesce() gives it.",
            )
