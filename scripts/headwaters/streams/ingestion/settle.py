"""`headwaters quarantine settle` and `reopen`: mark records that need no more work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.project import Project
from headwaters.platform.spark_mistakes import of_typed_sql
from headwaters.platform.sql import ended
from headwaters.streams.contract import Contract
from headwaters.streams.ingestion.spark import Say, silent, spark_of
from headwaters.streams.quarantine import SETTLED, has_settled
from headwaters.streams.stream import Stream
from headwaters.tables.delta_log import exists
from headwaters.tables.delta_tables import TableSnapshot


@dataclass(frozen=True)
class Settled:
    """The number of records that a settlement matches, and its moment if it was applied."""

    records: int
    at: datetime | None = None


def settle(
    project: Project,
    contract: Contract,
    where: str,
    reason: str | None,
    apply: bool,
    spark: SparkSession | None = None,
    say: Say = silent,
) -> Settled:
    """Settle the open records that a condition matches; without a reason, open settled ones again.

    Without `apply` it only counts. Raises UserError if no record matches.
    """
    with spark_of(project, spark, say) as session:
        stream = Stream.of(project, contract)
        with stream.checkpoint.held() as stream.hold:
            return _settle(session, stream, where, reason, apply)


def _settle(
    spark: SparkSession, stream: Stream, where: str, reason: str | None, apply: bool
) -> Settled:
    if (stream.checkpoint.path / "replay.json").exists():
        raise WorkError(
            "HW_INTERRUPTED_STREAM",
            "a replay was interrupted: complete it with `headwaters replay --select "
            f"{stream.contract.name} --apply`",
        )
    records = 0
    chosen = f"settled is {'' if reason else 'not '}null"
    condition = f"({ended(where)})"  # without brackets, Spark takes a last word as an alias
    if exists(stream.quarantine):
        table = TableSnapshot(spark, stream.quarantine)
        rows = table.now()
        is_new = not has_settled(rows.columns)
        if is_new:
            rows = rows.withColumns({name: F.lit(None).cast(kind) for name, kind in SETTLED})
        try:
            records = rows.where(chosen).where(condition).count()
        except PySparkException as error:
            raise of_typed_sql(error, condition, f"--where {where}: ") from None
    if not records:
        which = "open" if reason else "settled"
        raise UserError(
            "HW_NO_ROW_MATCHES",
            f"{stream.contract.name}: no {which} record in quarantine matches {where}: "
            f"`headwaters quarantine {stream.contract.name}{'' if reason else ' --settled'}` "
            "shows the records",
        )
    if not apply:
        return Settled(records)
    if is_new:
        table.add_columns(SETTLED)
    at = datetime.now(UTC)
    values = {"settled": F.lit(reason), "settled_at": F.lit(at if reason else None)}
    stream.check_hold()
    quarantine = DeltaTable.forPath(spark, str(stream.quarantine))
    rows_to_change = f"{chosen} and ({condition})"
    quarantine.update(rows_to_change, {name: values[name].cast(kind) for name, kind in SETTLED})
    return Settled(records, at)
