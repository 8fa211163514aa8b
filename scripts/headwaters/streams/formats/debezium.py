"""Change events in Debezium's envelope, as JSON with or without its schema.

The row is in `after`, or in `before` if it was deleted. A record is parsed as an object with the
column `payload`, the envelope. Expressions of the contract may use it: `payload.op`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import headwaters.streams.contract as declared
from headwaters.platform.sql import identifier
from headwaters.streams.contract import Contract
from headwaters.streams.formats.base import Format
from headwaters.streams.formats.json import (
    IS_ARRAY,
    IS_FRAMED,
    IS_NOT_A_NUMBER,
    Json,
    as_received,
    changed_numbers,
    has_not_a_number,
    has_unknown,
    number_within,
    unknown_keys,
)
from headwaters.streams.formats.problems import (
    Problem,
    malformed,
    no_problem,
    null,
    problem_of,
    type_problem,
    undeclared,
)
from headwaters.streams.formats.unavailable import NAME, is_unavailable, without_placeholders
from headwaters.streams.formats.values import fitted_text

# The fields of an envelope. The transaction and the finer times do not become columns.
_KNOWN = ("before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction")
_ROWS = "payload struct<before: map<string,string>, after: map<string,string>, op: string>"
_WITHIN = "a value of before or after has another type"
_TRUNCATE = "is t: the source emptied its table, which is no change of one row"
_MOVED = "is changed by an update, which has to be a deletion and an insertion"


def enveloped(contract: Contract) -> Contract:
    """Return the records' contract: it reads `payload` and computes the columns of the row."""
    changes = contract.stream.changes
    if changes is None or changes.envelope == "flat":
        return contract
    row = ", ".join(f"{identifier(c.field)}: {c.data_type}" for c in contract.read_columns)
    images = f"before: struct<{row}>, after: struct<{row}>"
    rest = "op: string, ts_ms: bigint, source: map<string,string>"
    columns = [
        declared.DeclaredColumn(name="schema", data_type="struct<type: string>"),
        declared.DeclaredColumn(name="payload", data_type=f"struct<{images}, {rest}>"),
    ]
    for column in contract.columns:
        image = "if(payload.op <=> 'd', payload.before, payload.after)"
        read = f"{image}.{identifier(column.field)}"
        columns.append(
            column.model_copy(update={"expression": column.expression or read, "read_from": None})
        )
    return contract.model_copy(update={"columns": tuple(columns)})


class Debezium(Json):
    """Records of JSON that are change events."""

    def __init__(self, contract: Contract) -> None:
        """Create a format that reads the envelope and returns the contract's columns."""
        super().__init__(enveloped(contract))
        self.declared = contract

    def of_row(self) -> tuple[declared.DeclaredColumn, ...]:
        """Return the columns of the row."""
        return self.declared.read_columns

    def of_bronze(self) -> tuple[declared.DeclaredColumn, ...]:
        """Return the columns of the row and the computed ones, without the envelope."""
        return self.declared.columns

    def lacks(self, name: str) -> Column | None:
        """Return whether the event has a placeholder for a column of the row."""
        return is_unavailable(name) if name in self.declared.maybe_unavailable() else None

    def is_delete(self) -> Column:
        """Return whether the operation is a deletion."""
        return F.col("payload.op").eqNullSafe("d")

    def parse(self, raw: DataFrame, kept: Sequence[str] = ()) -> DataFrame:
        """Parse events, after giving those without a schema the same outer object."""
        value = F.col("value")
        has_schema = F.array_contains(F.json_object_keys(value), "payload")
        wrapped = F.concat(F.lit('{"payload":'), value, F.lit("}"))
        event = raw.withColumn("_received", value)
        event = event.withColumn("value", F.when(has_schema, value).otherwise(wrapped))
        payload = F.from_json("value", _ROWS).getField("payload")
        is_delete = payload.getField("op").eqNullSafe("d")
        row = F.when(is_delete, payload.getField("before")).otherwise(payload.getField("after"))
        event = without_placeholders(self.declared, event, row)
        parsed = Format.parse(self, event, [*kept, "_received", NAME])
        return as_received(self.declared, parsed, kept)

    def typed(self, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
        """Return the envelope, its fields and the row's as texts, in addition to the columns."""
        rows = F.from_json("_raw", _ROWS).getField("payload")
        row = F.when(self.is_delete(), rows.getField("before")).otherwise(rows.getField("after"))
        event = F.from_json("_raw", "payload map<string,string>").getField("payload")
        typed = super().typed(raw, origin).withColumns({"_fields": row, "_event": event})
        # only bad records need it: each problem of the envelope takes the field's name from it
        return typed.withColumn("_unfit", self._unfit())

    def problems(self) -> list[Problem]:
        """Return the problems of the JSON, then those of an event that does not change one row."""
        op, before, after = (F.col(f"payload.{name}") for name in ("op", "before", "after"))
        one = F.json_array_length(F.concat(F.lit("["), F.col("_received"), F.lit("]")))
        other = F.concat(F.lit("'"), F.substring(op, 1, 100), F.lit("' is not c, r, u or d"))
        received = F.col("_received")
        problems = [
            malformed(received.startswith("\0"), IS_FRAMED),
            malformed(F.ltrim(received).startswith("["), IS_ARRAY),
            malformed(one.isNull() & has_not_a_number("_received"), IS_NOT_A_NUMBER),
            malformed(~one.eqNullSafe(1), "is not one JSON object"),
            *[(when, self._named(what)) for when, what in self.misfits()],
            *[(when, _unnamed(what)) for when, what in changed_numbers(self.contract)],
            undeclared(has_unknown(self.contract), unknown_keys(self.contract)),
            (op.isNull(), problem_of("malformed", null(), _without_op())),
            (op == "t", problem_of("check", F.lit("op"), F.lit(_TRUNCATE))),
            (~op.isin("c", "r", "u", "d"), problem_of("check", F.lit("op"), other)),
            malformed((op == "d") & before.isNull(), "has no before"),
            malformed((op != "d") & after.isNull(), "has no after"),
            *[self._moved(name) for name in self._key],
            number_within(F.lit(True), F.coalesce(self._unknown(), F.lit("")), null()),
        ]
        if self.contract.stream.schema_policy == "fail":
            first = F.get(F.json_object_keys(self._unknown()), F.lit(0))
            is_not = problem_of("schema", first, F.lit("is not declared"))
            problems.append((self._unknown().isNotNull(), is_not))
        return problems

    def rescued(self) -> Column:
        """Return the undeclared fields of the row and of the envelope."""
        return self._unknown()

    @property
    def _key(self) -> tuple[str, ...]:
        changes = self.contract.stream.changes
        return changes.key if changes else ()

    def _unknown(self) -> Column:
        """Return the undeclared fields as JSON, or null if there are none."""
        columns = [F.lit(column.field) for column in self.declared.read_columns]
        row = F.map_filter("_fields", lambda name, _: ~name.isin(*columns))
        known = [F.lit(name) for name in _KNOWN]
        event = F.map_filter("_event", lambda name, _: ~name.isin(*known))
        # the row's field wins over one of the envelope
        event = F.map_filter(event, lambda name, _: ~F.map_contains_key(row, name))
        both = F.map_concat(F.coalesce(row, _empty()), F.coalesce(event, _empty()))
        return F.when(F.size(both) > 0, F.to_json(both))

    def _moved(self, name: str) -> Problem:
        """Return the problem of an update whose key differs before and after."""
        field = next(c.field for c in self.declared.read_columns if c.name == name)
        before, after = (
            F.col(f"payload.{image}.{identifier(field)}") for image in ("before", "after")
        )
        moved = (F.col("payload.op") == "u") & (before != after)
        return moved, problem_of("check", F.lit(name), F.lit(_MOVED))

    def _unfit(self) -> Column:
        """Return the problem of the row's first column with a text that does not fit, or null."""
        unfit = []
        for column in self.declared.read_columns:
            said = F.element_at("_fields", F.lit(column.field))
            misfit = said.isNotNull() & fitted_text(column, said).isNull()
            unfit.append(F.when(misfit, type_problem(column, said)))
        return F.coalesce(*unfit, no_problem())

    def _named(self, problem: Column) -> Column:
        """Return a problem of the envelope as one of the row's column that has it."""
        within = problem_of("type", null(), F.lit(_WITHIN))
        of_envelope = problem.getField("field") == "payload"
        inside = problem.getField("field").isNull() & (problem.getField("reason") == "type")
        return F.when(of_envelope | inside, F.coalesce("_unfit", within)).otherwise(problem)


def _unnamed(problem: Column) -> Column:
    """Return a problem of the envelope without the name of its column, which no event has."""
    field = F.nullif(problem.getField("field"), F.lit("payload"))
    return problem_of("type", field, problem.getField("message"))


def _without_op() -> Column:
    """Return the reason to refuse a record of Debezium's other topics as a change event."""
    names = F.map_keys("_event")
    other = "Debezium: read the topics of tables alone"
    return (
        F.when(names == F.array(F.lit("ts_ms")), f"is a heartbeat of {other}")
        .when(
            F.array_contains(names, "event_count"), f"is the metadata of a transaction of {other}"
        )
        .when(F.array_contains(names, "ddl"), f"is a schema change of {other}")
        .otherwise("has no op, and is no change event")
    )


def _empty() -> Column:
    return F.create_map().cast("map<string,string>")
