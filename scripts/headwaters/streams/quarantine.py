"""The records in the quarantine of a stream, read by delta-rs without Spark.

A settled record needs no more work: a corrected one has arrived, or never will. Its row stays and
has a reason in `settled`. The first settlement adds this column to the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headwaters.platform.errors import WorkError
from headwaters.platform.places import Place
from headwaters.streams.contract import ROW_KEY
from headwaters.streams.stream import Stream
from headwaters.tables.delta_log import state

SETTLED = (("settled", "string"), ("settled_at", "timestamp"))


@dataclass(frozen=True)
class Bad:
    """A record in quarantine; `settled` is the reason of its settlement, or None."""

    at: datetime
    reason: str
    field: str
    message: str
    record: str
    place: str
    settled: str | None


@dataclass(frozen=True)
class Quarantine:
    """The open and the settled records of a quarantine, and its newest ones.

    `rows` is the number of source rows that open records would have changed; None if unknown.
    """

    open: int
    settled: int
    newest: tuple[Bad, ...] = ()
    rows: int | None = None


def has_settled(columns: Iterable[str]) -> bool:
    """Return true if records of a quarantine with these columns were settled once."""
    return SETTLED[0][0] in columns


def counted(table: Place) -> Quarantine | None:
    """Return the numbers of records; None if a file of the table has no statistics.

    A quarantine without settled records and without keys is counted by its log alone.
    """
    found = state(table, 0)
    if found is None:
        return Quarantine(0, 0)
    names = [name for name, _ in found.columns]
    has_key = ROW_KEY[0] in names and found.rows != 0
    if not has_settled(names) and not has_key:
        return None if found.rows is None else Quarantine(found.rows, 0)
    settled = "settled" if has_settled(names) else "cast(null as varchar)"
    keys = f"count(distinct case when {settled} is null then row_key end)" if has_key else "null"
    [row] = _rows(
        table, f"select count(*) as n, count({settled}) as settled, {keys} as keys from t"
    )
    return Quarantine(row["n"] - row["settled"], row["settled"], rows=row["keys"])


def read_quarantine(stream: Stream, with_settled: bool, limit: int) -> Quarantine:
    """Return the newest records of a stream's quarantine; `limit` 0 returns all."""
    found = state(stream.quarantine, 0)
    if found is None:
        return Quarantine(0, 0)
    names = [name for name, _ in found.columns]
    settled = "settled" if has_settled(names) else "cast(null as varchar)"
    [row] = _rows(stream.quarantine, f"select count(*) as n, count({settled}) as settled from t")
    which = "" if with_settled else f"where {settled} is null"
    most = f"limit {limit}" if limit else ""
    rows = _rows(
        stream.quarantine,
        f"select *, {settled} as _settled from t {which} order by _ingested_at desc {most}",
    )
    newest = tuple(_bad(stream, each) for each in rows)
    return Quarantine(row["n"] - row["settled"], row["settled"], newest)


def _bad(stream: Stream, row: dict[str, Any]) -> Bad:
    record = row["record"] or b""
    return Bad(
        at=row["_ingested_at"].astimezone(UTC),
        reason=row["reason"] or "",
        field=row["field"] or "",
        message=row["message"] or "",
        record=record.decode(errors="backslashreplace"),
        place=place_of(stream, row),
        settled=row["_settled"],
    )


def place_of(stream: Stream, row: dict[str, Any]) -> str:
    """Return the place of a record: a file relative to the lake, or the columns of its source."""
    values = [(name, row[name]) for name in stream.contract.source.place]
    if [name for name, _ in values] == ["_source_file"]:
        return stream.shown(str(values[0][1])).removeprefix("file://")
    return " ".join(f"{name.strip('_')} {value}" for name, value in values)


def _rows(table: Place, sql: str) -> list[dict[str, Any]]:
    # delta-rs is an extra: `headwaters streams` works without it until a record is settled
    from deltalake.exceptions import DeltaError

    from headwaters.platform.delta_rs import rows_of

    try:
        return list(rows_of(table, sql))
    except DeltaError as error:
        why = " ".join(str(error).split())
        raise WorkError("HW_TABLE_DAMAGED", f"{table} cannot be read: {why[:200]}") from None
