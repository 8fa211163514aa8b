"""`signed_sum`: sums and counts by key.

Each changed row has a weight: positive if inserted, negative if deleted. The weighted sums are
added to the table's. A measure over no value is 0, the only result that sums of differences can
give. `derived` columns are computed from the sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headwaters.analysis import weight_column
from headwaters.platform.errors import UserError
from headwaters.platform.sql import ended, identifier
from headwaters.runs.decisions import is_broadcast, is_worth_storing
from headwaters.runs.inputs import Spec, followed, input_sql, with_inputs, without_rows
from headwaters.runs.model import names_in, partitions_among, spelled
from headwaters.runs.plan import Facts
from headwaters.runs.session import DbtColumn, DbtRelation
from headwaters.runs.strategies.base import Look, Share, Strategy, Tried, named, raise_repeated_keys
from headwaters.runs.work import Work

_INTEGERS = ("tinyint", "smallint", "int", "bigint", "decimal")


class SignedSum(Strategy):
    """Add the signed change to the table's sums."""

    repeated_keys = "counted"
    needs_types = True

    def full_refresh_sql(self, sql: str, columns: Sequence[DbtColumn]) -> str:
        """Return the sums, with the derived columns."""
        keys = named(spelled(names_in(self.config, "unique_key"), columns))
        measures = [
            f"coalesce({identifier(one.name)}, {_zero(one.dtype)}) as {identifier(one.name)}"
            for one in self._measures(columns)
        ]
        return self._with_derived(str(self.sql("hw_sums_sql", sql, keys, measures)))

    def columns_of_full_refresh(self, sql: str) -> Sequence[DbtColumn]:
        """Return the columns of the whole table. Runs two statements."""
        given = self.connection.columns(sql)
        return self.connection.columns(self.full_refresh_sql(sql, given))

    def change_set_sql(
        self, work: Work, sql: str, columns: Sequence[DbtColumn], bounds: Sequence[Any]
    ) -> str:
        """Return the changed sums.

        A group without rows is deleted, unless the SQL gives it over no rows as well. Without
        `group by`, there is always one group.
        """
        plan, model = work.plan, self.model
        keys = spelled(names_in(self.config, "unique_key"), columns)
        measures = self._measures(columns)
        delta = self._one_sum_a_key(
            plan.facts.sums or self._sums_of_changes(work, sql), keys, measures
        )
        weight = identifier(self._weight(sql))
        held = str(model.target)
        if is_broadcast(plan.rows):
            held = self.sql("hw_rows_of_few_keys_sql", held, f"(\n{delta}\n)", keys)
        sums = self.sql(
            "hw_added_sums_sql",
            held,
            keys,
            delta,
            [_sum(one) for one in measures],
            [f"coalesce(_delta.{identifier(one.name)}, 0) <> 0" for one in measures],
            f"coalesce(_target.{weight}, 0) + coalesce(_delta.{weight}, 0)",
            self._lasting_groups(sql, plan.inputs, keys),
            model.beside_sql("_target", "struct(_target.* except (_here))"),
        )
        return self._with_derived(str(sums))

    def _sums_of_changes(self, work: Work, sql: str) -> str:
        spec = followed(work.plan.inputs)
        weighed = self.sql("hw_weighed_rows", work.range_of(spec["source"]), spec["source"])
        return with_inputs(sql, {spec["text"]: weighed})

    def facts(self, work: Work) -> Facts:
        """Store the sums of more than a few changes.

        The change set reads them twice: as amounts to add, and as the groups to add them to.
        """
        known = Facts(of_rows=True)
        if is_worth_storing(work.plan.rows) and is_broadcast(work.plan.rows):
            stored = work.store("sums", self._sums_of_changes(work, self.model.sql))
            known = replace(known, gap=stored.gap, sums=f"select * from {stored.relation}")
        return known

    def _measures(self, columns: Sequence[DbtColumn]) -> list[DbtColumn]:
        """Return the columns that are sums."""
        derived = self.settings.derived or {}
        others = {name.lower() for name in (*names_in(self.config, "unique_key"), *derived)}
        measures = [column for column in columns if column.name.lower() not in others]
        for column in measures:
            if column.dtype in ("double", "float"):
                raise UserError(
                    "HW_FLOATING_POINT_SUM",
                    "signed_sum adds differences to what is there, and floating-point sums depend "
                    f"on the order of adding: {column.name} is a {column.dtype}. Cast what is "
                    "summed, before it is summed, to a decimal or an integer.",
                )
            if column.dtype.split("(")[0] not in _INTEGERS:
                raise UserError(
                    "HW_NOT_A_SUM",
                    f"signed_sum keeps sums and counts: {column.name} is a {column.dtype}"
                    ". Put it into unique_key, or into derived where it is computed from the sums.",
                )
        return measures

    def _with_derived(self, sql: str) -> str:
        derived = self.settings.derived or {}
        columns = [
            f"{ended(expression)} as {identifier(name)}" for name, expression in derived.items()
        ]
        return str(self.sql("hw_with_columns_sql", sql, columns))

    def _weight(self, sql: str) -> str:
        """Return the measure that counts rows: a group is deleted when it is 0."""
        column = weight_column(sql)
        if not column:
            raise UserError(
                "HW_NO_WEIGHT",
                "A signed_sum model needs `sum(_weight) as <name>` among its columns: the count of "
                "rows tells when a group is gone",
            )
        return column

    def _one_sum_a_key(self, sql: str, keys: Sequence[str], measures: Sequence[DbtColumn]) -> str:
        """Return the sums after merging groups that become one key in the table."""
        if not partitions_among(keys, self.config):
            return sql
        sums = [f"sum({identifier(one.name)}) as {identifier(one.name)}" for one in measures]
        return str(self.sql("hw_summed_again_sql", sql, named(keys), sums))

    def _lasting_groups(self, sql: str, inputs: Sequence[Spec], keys: Sequence[str]) -> str:
        """Return the groups that the SQL gives over inputs without rows, as a subquery."""
        empty = with_inputs(sql, without_rows(inputs))
        return str(self.sql("hw_lasting_groups_sql", empty, named(keys)))

    def share_changed(self, work: Work) -> Share:
        """Return the share of changed rows in the input. Runs a statement."""
        spec = followed(work.plan.inputs)
        rows = self.connection.fetch(f"select count(*) from {input_sql(spec)}")[0][0]
        return Share(work.plan.rows, int(rows), f"rows of {spec['source']} changed", 0.5)

    def check(self, where: str, sql: str, inputs: Sequence[Spec]) -> None:
        """Refuse a model that does not count its rows."""
        self._weight(sql)

    def tried_rows(self, inputs: Sequence[Spec]) -> Tried | None:
        """Return the rows of the followed input."""
        spec = followed(inputs)
        return None if spec["version"] is None else Tried(spec, "monotonically_increasing_id()")

    def differences_sql(
        self,
        sql: str,
        inputs: Sequence[Spec],
        spec: Spec,
        columns: Sequence[DbtColumn],
        sample: DbtRelation,
    ) -> str:
        """Return the SQL that counts, for each measure, the groups that are not weighted sums.

        `_empty` counts the groups without a row, except those that always exist. The SQL is
        evaluated once, and a second time with the weight -3 for every row.
        """
        keys = self.model.keys
        measures = self._measures(columns)

        def side(weight: int) -> str:
            rows = f"(select * except (_in_half), {weight} as _weight from {sample})"
            sums = self._one_sum_a_key(with_inputs(sql, {spec["text"]: rows}), keys, measures)
            return f"(select *, true as _here from (\n{sums}\n))"

        lasting = self._lasting_groups(sql, inputs, keys)
        weight = f"_once.{identifier(self._weight(sql))}"
        names = [one.name for one in measures]
        return str(
            self.sql("hw_differences_of_sums_sql", side(1), side(-3), lasting, weight, names, keys)
        )

    def difference_text(self, spec: Spec, name: str) -> str:
        """Return the error of a measure that is not a sum, or of a group without a row."""
        target = self.model.target
        if name == "_empty":
            return (
                f"{target} gives groups that no row of {spec['source']} stands behind, as an "
                "outer join that keeps all rows of a lookup does. Join inner, or use "
                "affected_keys."
            )
        return (
            f"{target}: {name} cannot be maintained by adding: deleted rows do not take away what "
            "they added. It has to be a sum of `… * _weight`, and no more; averages and the like "
            "go into derived."
        )

    def inspect(self, stage: DbtRelation, look: Look) -> None:
        """Refuse sums of two groups that are one key in the table: the empty text's and NULL's.

        A change of one would be added to the other. It only refuses a run that changes such a key.
        """
        model, keys = self.model, self.model.row_keys
        nulls = [
            f"{identifier(key)} is null"
            for key in partitions_among(keys, self.config)
            if look.nulls[keys.index(key)]
        ]
        if nulls:
            query = self.sql("hw_repeated_nulls_sql", model.sql, named(keys), nulls)
            raise_repeated_keys(model, query, stage)

    def named_columns(self, sql: str) -> Mapping[str, Sequence[str]]:
        """Return the measure that counts rows."""
        return {"sum(_weight)": [self._weight(sql)]}


def _zero(type_: str) -> str:
    """Return 0 in the type of a sum.

    With many decimal places, an integer 0 would cost the sum its last ones.
    """
    return f"cast(0 as {type_})" if type_.startswith("decimal") else "0"


def _amount(measure: DbtColumn, alias: str) -> str:
    """Return a sum in the type for an addition.

    Spark would drop the last decimal place of two decimals of 38 digits. The first digit is free in
    every sum that is proven (headwaters.analysis.value_bounds).
    """
    amount = f"coalesce({alias}.{identifier(measure.name)}, {_zero(measure.dtype)})"
    fewer = measure.dtype.replace("decimal(38,", "decimal(37,")
    return amount if fewer == measure.dtype else f"cast({amount} as {fewer})"


def _sum(measure: DbtColumn) -> str:
    added = f"{_amount(measure, '_target')} + {_amount(measure, '_delta')}"
    return f"cast({added} as {measure.dtype}) as {identifier(measure.name)}"
