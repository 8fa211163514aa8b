"""`affected_keys`: whatever can be computed key by key.

The keys that changed rows have are recomputed from the pinned inputs, and compared with the
target's rows of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headwaters.platform.errors import UserError
from headwaters.platform.sql import identifier
from headwaters.runs import bounds as bounding
from headwaters.runs.decisions import is_broadcast
from headwaters.runs.inputs import Spec, followed, input_sql, with_inputs
from headwaters.runs.model import partitions_among
from headwaters.runs.plan import Facts
from headwaters.runs.session import Column, Macros, Relation
from headwaters.runs.strategies.base import HALVES, Lost, Share, Tried, named
from headwaters.runs.strategies.keyed import Keyed
from headwaters.runs.work import Work


class AffectedKeys(Keyed):
    """Recompute the keys of changed rows."""

    repeated_keys = "counted"

    def change_set_sql(
        self, work: Work, sql: str, columns: Sequence[Column], bounds: Sequence[Any]
    ) -> str:
        """Return the recomputed rows of the affected keys, against those of the table."""
        key = self.affected_key_columns(work)
        rows = of_keys_sql(self.sql, sql, work.plan.inputs, "_touched", bounds)
        # a row of another key would not be recomputed when it changes
        text = unaffected_key_text(self.model.target, key)
        recomputed = self.sql("hw_rows_of_affected_keys_sql", rows, key, text)
        return self.recomputed_sql(work, sql, key, recomputed, columns, bounds)

    def affected_keys_sql(self, work: Work, sql: str) -> str:
        """Return the affected keys, by the change feeds."""
        affected, queries = affected_inputs(work.plan.inputs), []
        for spec in affected:
            changes = work.plan.ranges.get(spec["source"])
            if changes is not None and changes.rows > 0:
                few = is_broadcast(changes.rows)
                feed = work.feed(spec["source"])
                queries.append(keys_of_rows_sql(self.sql, spec, feed, affected, few))
        return str(self.sql("hw_distinct_keys_sql", queries))

    def affected_key_columns(self, work: Work) -> list[str]:
        """Return the columns of the affected keys."""
        return in_order(followed(work.plan.inputs)["key"])

    def share_changed(self, work: Work) -> Share | Lost:
        """Return the keys that are recomputed, among those of the table. Runs a statement."""
        return self.keys_changed(work)

    def check(self, where: str, sql: str, inputs: Sequence[Spec]) -> None:
        """Refuse inputs that name different keys, and one that leads through no input."""
        affected = affected_inputs(inputs)
        for spec in affected:
            first = affected[0]
            if in_order(spec["key"]) != in_order(first["key"]):
                raise UserError(
                    "HW_KEYS_DIFFER",
                    f"{where}: its inputs name different keys, {first['source']} "
                    f"{list(first['key'])}"
                    f" and {spec['source']} {list(spec['key'])}. All must lead to the same columns "
                    f"of "
                    'the model; key={"model_column": "input_column"} where the names differ.',
                )
            if spec.get("via") and spec["via"] not in [one["source"] for one in affected]:
                raise UserError(
                    "HW_VIA_NOT_AN_INPUT",
                    f"{where}: affected({spec['source']}, via={spec['via']}) goes through a table "
                    f"that "
                    "is not an affected() input of the model itself.",
                )

    def tried_rows(self, inputs: Sequence[Spec]) -> Tried | None:
        """Return rows of the first input that has the key."""
        direct = [spec for spec in affected_inputs(inputs) if not spec.get("via")]
        spec = next((one for one in direct if one["version"] is not None), None)
        if self.config.get("allow_nondeterministic") or spec is None:
            return None
        return Tried(spec, f"xxhash64({named(list(spec['key'].values()))})")

    def differences_sql(
        self,
        sql: str,
        inputs: Sequence[Spec],
        spec: Spec,
        columns: Sequence[Column],
        sample: Relation,
    ) -> str:
        """Return how many rows differ, and `_elsewhere`, how many are of keys beyond the sample.

        Floating-point columns are left out: a sum of theirs depends on the order of addition.
        """
        key = in_order(spec["key"])
        sides = [self.side_sql(sql, inputs, spec, sample, rows) for rows in HALVES]
        compared = [
            identifier(column.name)
            for column in columns
            if column.name.lower() in map(str.lower, key)
            or not re.search(r"\b(double|float)\b", column.dtype)
        ]
        return str(self.sql("hw_differences_of_halves_sql", sides, compared, bool(key)))

    def side_sql(
        self, sql: str, inputs: Sequence[Spec], spec: Spec, sample: Relation, rows: str
    ) -> str:
        """Return the SQL over some rows of a sample, with the keys that they have."""
        columns = key_columns(self.sql, spec, "_input")
        keys = str(self.sql("hw_keys_of_sample_sql", columns, sample, rows))
        side = super().side_sql(sql, inputs, spec, sample, rows)
        restricted = of_keys_sql(self.sql, side, inputs, f"{keys} as _touched")
        return str(self.sql("hw_side_of_keys_sql", restricted, keys, in_order(spec["key"])))

    def difference_text(self, spec: Spec, name: str) -> str:
        """Return that a row depends on rows of other keys, or is of none."""
        target = self.model.target
        if name == "_elsewhere":
            return unaffected_key_text(target, in_order(spec["key"]))
        return (
            f"{target} gives other rows for some keys of {spec['source']} at once than for one "
            f"half of "
            "them and the other: a row of its result depends on rows of other keys, "
            "as in a subquery or a join that looks at all of them, or on chance, as in a rank "
            "where "
            "rows tie or a list without an order. Compute what spans keys in a model of "
            "its own and read it with lookup(), and order by columns that tell all rows apart; or "
            "say "
            "allow_nondeterministic if rows may keep the answer of the run that wrote them."
        )

    def facts(self, work: Work) -> Facts:
        """Return what is known of the affected keys.

        Store the rows through which others are led.
        """
        affected = affected_inputs(work.plan.inputs)
        others = [
            f"select {key_columns(self.sql, spec, '_keyed')} from {input_sql(spec)} as _keyed"
            for spec in affected
            if not spec.get("via")
        ]
        known = self.facts_of_keys(work, others)
        if known.are_stored and known.same_columns and not known.gap:
            self._store_leading_rows(work, affected, known)
        return known

    def _store_leading_rows(self, work: Work, affected: Sequence[Spec], known: Facts) -> None:
        """Store, of each input through which others are led to the key, the rows of affected keys.

        With the columns that are used. They are read for the model's rows and for each input that
        they lead to: the input's `rows_at_hand` from then on. Runs a statement for each.
        """
        leading = {spec["via"] for spec in affected if spec.get("via")}
        chosen = (one for one in affected if not one.get("via") and one["source"] in leading)
        for number, spec in enumerate(chosen, 1):
            columns = self._leading_columns(work, spec, affected)
            rows = input_of_keys_sql(self.sql, spec, affected, "_touched", known.bounds)
            sql = self.sql("hw_leading_rows_sql", named(columns), rows, known.known_keys)
            spec["rows_at_hand"] = work.store(f"rows{number}", sql).relation

    def _leading_columns(self, work: Work, spec: Spec, affected: Sequence[Spec]) -> list[str]:
        """Return what the SQL uses of the input.

        And what leads to its key and to those of others.
        """
        from headwaters.analysis import used_columns

        used = list(spec["key"].values())
        for other in affected:
            if other.get("via") == spec["source"]:
                used += other["on"].values()
        snapshot = f"select * from {spec['source']} version as of {spec['version']}"
        columns = spec.get("columns") or self.connection.columns(snapshot)
        every = [column.name for column in columns]
        used += used_columns(self.model.sql, work.plan.inputs, spec["text"], every)
        wanted = {name.lower() for name in used}
        return [name for name in every if name.lower() in wanted]


class LedKeys(Keyed):
    """The way of affected_keys whose changed rows are traced to columns of the result.

    For each input, a query of the keys to which rows that changed lead, through all rows that other
    inputs had at their applied versions or have (analysis.lineage_rules). The inputs are read
    whole, and the result is filtered by the keys.
    """

    repeated_keys = "counted"

    def change_set_sql(
        self, work: Work, sql: str, columns: Sequence[Column], bounds: Sequence[Any]
    ) -> str:
        """Return the recomputed rows of the affected keys, against those of the table."""
        key = self.affected_key_columns(work)
        recomputed = self.sql("hw_rows_of_led_keys_sql", sql, key)
        return self.recomputed_sql(work, sql, key, recomputed, columns, bounds)

    def affected_keys_sql(self, work: Work, sql: str) -> str:
        """Return the affected keys, as the table has them."""
        leads = self.config["leads"]
        stored = partitions_among(leads["key"], self.config)
        names = []
        for name in leads["key"]:
            value = identifier(name)
            if name in stored:
                value = f"{self.sql('hw_as_stored_value', value)} as {value}"
            names.append(value)
        ranges = work.plan.ranges
        queries = [
            self._lead_sql(work, lead["sql"])
            for source, lead in leads["inputs"].items()
            if lead["sql"] and source in ranges and ranges[source].rows > 0
        ]
        return str(self.sql("hw_led_keys_sql", names, queries))

    def _lead_sql(self, work: Work, sql: str) -> str:
        """Return a lead with the relations that its names stand for."""
        sources = self.config["leads"]["inputs"]
        for spec in work.plan.inputs:
            source = spec["source"]
            if source not in sources:
                continue
            name, pinned = sources[source]["name"], f"select * from {input_sql(spec)}"
            changes = work.plan.ranges.get(source)
            if changes is not None and changes.rows > 0:
                images = str(self.sql("hw_all_rows", changes, source))
                sql = sql.replace(f"`hw_changed:{name}`", images)
                pinned += f" union all select * from {images}"
            sql = sql.replace(f"`hw_wide:{name}`", f"({pinned})")
        return sql

    def affected_key_columns(self, work: Work) -> list[str]:
        """Return the columns of the affected keys."""
        return list(self.config["leads"]["key"])

    def share_changed(self, work: Work) -> Share | Lost:
        """Return the keys that are recomputed, among those of the table. Runs a statement."""
        return self.keys_changed(work)

    def facts(self, work: Work) -> Facts:
        """Return what is known of the affected keys."""
        return self.facts_of_keys(work)


def affected_inputs(inputs: Iterable[Spec]) -> list[Spec]:
    """Return the inputs that are followed by key."""
    return [spec for spec in inputs if spec["kind"] == "affected"]


def in_order(names: Iterable[str]) -> list[str]:
    """Return names in the order of the alphabet."""
    return sorted(names, key=str.lower)


def unaffected_key_text(target: Relation, key: Sequence[str]) -> str:
    """Return that no change of an input leads to a row."""
    names = ", ".join(key)
    return (
        f"{target} has a row of {names} that comes from no row of an affected() input with that "
        f"value, "
        f"so no change of theirs leads to it. Select {names} from them as it is, and mark a table "
        f"that "
        "all keys come from with affected(), not lookup()."
    )


def key_columns(macros: Macros, spec: Spec, alias: str) -> str:
    """Return an input's key under the names that the model's columns have."""
    return ", ".join(
        f"{key_value(macros, spec, name, alias)} as {identifier(name)}"
        for name in in_order(spec["key"])
    )


def key_value(macros: Macros, spec: Spec, name: str, alias: str) -> str:
    """Return one column of the key, as the model's table has it.

    Inputs without `stored` are those of a model that is not planned.
    """
    value = f"{alias}.{identifier(spec['key'][name])}"
    return str(macros("hw_as_stored_value", value)) if name in spec.get("stored", []) else value


def keys_of_rows_sql(
    macros: Macros, spec: Spec, rows: str, affected: Sequence[Spec], few: bool = False
) -> str:
    """Return the keys to which rows of an input lead, through other inputs at pinned versions.

    `few`: so few rows that Spark sends them everywhere.
    """
    if not spec.get("via"):
        return f"select {key_columns(macros, spec, '_rows')} from {rows} as _rows"
    via = _via(spec, affected)
    pairs = _equals_via(spec, "_rows")
    led = macros("hw_rows_of_via_sql", rows, input_sql(via), pairs, few)
    return keys_of_rows_sql(macros, via, str(led), affected)


def of_keys_sql(
    macros: Macros, sql: str, inputs: Sequence[Spec], keys: str, bounds: Sequence[Any] = ()
) -> str:
    """Return the SQL over some keys: every followed input without the rows of other keys.

    `keys` is a relation of the key's columns by the name _touched; they lie within `bounds`.
    """
    affected = affected_inputs(inputs)
    restricted = {
        spec["text"]: input_of_keys_sql(macros, spec, affected, keys, bounds) for spec in affected
    }
    return with_inputs(sql, restricted)


def input_of_keys_sql(
    macros: Macros, spec: Spec, affected: Sequence[Spec], keys: str, bounds: Sequence[Any]
) -> str:
    """Return an input without the rows of other keys."""
    if spec.get("rows_at_hand"):
        return str(spec["rows_at_hand"])
    if spec.get("via"):
        via = input_of_keys_sql(macros, _via(spec, affected), affected, keys, bounds)
        pairs = _equals_via(spec, "_input")
        return str(macros("hw_input_of_via_sql", input_sql(spec), via, pairs))
    # a stored key that may be NULL in the table may be an empty text in the input
    stored = spec.get("stored", [])
    known = [bound for bound in bounds if not (bound.nulls and bound.column in stored)]
    within = bounding.within_bounds(known, "_input", spec["key"])
    equals = (
        []
        if bounding.lists_all(known)
        else [
            f"{key_value(macros, spec, name, '_input')} <=> _touched.{identifier(name)}"
            for name in spec["key"]
        ]
    )
    return str(macros("hw_input_of_keys_sql", input_sql(spec), keys, equals, within))


def _via(spec: Spec, affected: Sequence[Spec]) -> Spec:
    """Return the input that leads from another one to the key; it may itself be led to it."""
    return next(one for one in affected if one["source"] == spec["via"])


def _equals_via(spec: Mapping[str, Any], alias: str) -> str:
    """Return which rows of an input share with those of `_via` what its `on` names."""
    return " and ".join(
        f"{alias}.{identifier(own)} <=> _via.{identifier(other)}"
        for own, other in spec["on"].items()
    )
