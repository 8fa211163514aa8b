"""`affected_keys`: models that can be computed key by key.

The keys of changed rows are recomputed from the pinned inputs, and compared with their rows in the
target.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headwaters.analysis import stored_value
from headwaters.platform.errors import UserError
from headwaters.platform.sql import identifier
from headwaters.runs import bounds as bounding
from headwaters.runs.decisions import is_broadcast
from headwaters.runs.inputs import Spec, followed, input_sql, with_inputs
from headwaters.runs.model import partitions_among
from headwaters.runs.plan import Facts
from headwaters.runs.session import DbtColumn, DbtRelation, Macros
from headwaters.runs.strategies.base import HALVES, Tried, named
from headwaters.runs.strategies.keyed import Keyed
from headwaters.runs.work import Work


class AffectedKeys(Keyed):
    """Recompute the keys of changed rows."""

    repeated_keys = "counted"

    def change_set_sql(
        self, work: Work, sql: str, columns: Sequence[DbtColumn], bounds: Sequence[Any]
    ) -> str:
        """Return the recomputed rows of the affected keys, compared with those of the table."""
        key = self.affected_key_columns(work)
        rows = of_keys_sql(self.sql, sql, work.plan.inputs, "_touched", bounds)
        # a row of another key would not be recomputed after its change
        text = unaffected_key_text(self.model.target, key)
        recomputed = self.sql("hw_rows_of_affected_keys_sql", rows, key, text)
        return self.recomputed_sql(work, sql, key, recomputed, columns, bounds)

    def affected_keys_sql(self, work: Work, sql: str) -> str:
        """Return the affected keys, from the change feeds."""
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

    def check(self, where: str, sql: str, inputs: Sequence[Spec]) -> None:
        """Refuse inputs that name different keys, and one whose path leads through no input."""
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
                    "that is not an affected() input of the model itself.",
                )

    def tried_rows(self, inputs: Sequence[Spec]) -> Tried | None:
        """Return the rows of the first input that has the key."""
        direct = [spec for spec in affected_inputs(inputs) if not spec.get("via")]
        spec = next((one for one in direct if one["version"] is not None), None)
        if self.settings.allow_nondeterministic or spec is None:
            return None
        return Tried(spec, f"xxhash64({named(list(spec['key'].values()))})")

    def differences_sql(
        self,
        sql: str,
        inputs: Sequence[Spec],
        spec: Spec,
        columns: Sequence[DbtColumn],
        sample: DbtRelation,
    ) -> str:
        """Return the SQL that counts differing rows, and `_elsewhere`, rows of unsampled keys.

        Floating-point columns are omitted: a sum of theirs depends on the order of addition.
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
        self, sql: str, inputs: Sequence[Spec], spec: Spec, sample: DbtRelation, rows: str
    ) -> str:
        """Return the SQL over some rows of a sample, with their keys."""
        columns = key_columns(spec, "_input")
        keys = str(self.sql("hw_keys_of_sample_sql", columns, sample, rows))
        side = super().side_sql(sql, inputs, spec, sample, rows)
        restricted = of_keys_sql(self.sql, side, inputs, f"{keys} as _touched")
        return str(self.sql("hw_side_of_keys_sql", restricted, keys, in_order(spec["key"])))

    def difference_text(self, spec: Spec, name: str) -> str:
        """Return the error of a row that depends on rows of other keys, or has none."""
        target = self.model.target
        if name == "_elsewhere":
            return unaffected_key_text(target, in_order(spec["key"]))
        return (
            f"{target} gives other rows for some keys of {spec['source']} at once than for one "
            "half of them and the other: a row of its result depends on rows of other keys, as in "
            "a subquery or a join that looks at all of them, or on chance, as in a rank where "
            "rows tie or a list without an order. Compute what spans keys in a model of its own "
            "and read it with lookup(), and order by columns that tell all rows apart; or say "
            "allow_nondeterministic if rows may keep the answer of the run that wrote them."
        )

    def facts(self, work: Work) -> Facts:
        """Gather the facts of the affected keys.

        Store the rows of inputs that lead others to the key.
        """
        affected = affected_inputs(work.plan.inputs)
        others = [
            f"select {key_columns(spec, '_keyed')} from {input_sql(spec)} as _keyed"
            for spec in affected
            if not spec.get("via")
        ]
        known = self.facts_of_keys(work, others)
        if known.are_stored and known.same_columns and not known.gap:
            self._store_leading_rows(work, affected, known)
        return known

    def _store_leading_rows(self, work: Work, affected: Sequence[Spec], known: Facts) -> None:
        """Store the affected keys' rows of each input that leads others to the key.

        The stored rows have only the used columns. The model's rows and each led input read them:
        they become the input's `rows_at_hand`. Runs a statement for each.
        """
        leading = {spec["via"] for spec in affected if spec.get("via")}
        chosen = (one for one in affected if not one.get("via") and one["source"] in leading)
        for number, spec in enumerate(chosen, 1):
            columns = self._leading_columns(work, spec, affected)
            rows = input_of_keys_sql(self.sql, spec, affected, "_touched", known.bounds)
            sql = self.sql("hw_leading_rows_sql", named(columns), rows, known.known_keys)
            spec["rows_at_hand"] = work.store(f"rows{number}", sql).relation

    def _leading_columns(self, work: Work, spec: Spec, affected: Sequence[Spec]) -> list[str]:
        """Return the columns of the input that the SQL uses.

        They include those that lead to its key and to the keys of others.
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
    """The variant of affected_keys that traces changed rows to columns of the result.

    A query for each input gives the keys of its changed rows. They lead through all rows that the
    other inputs have, or had at their applied versions (analysis.lineage_rules). The inputs are
    read whole, and the result is filtered by the keys.
    """

    repeated_keys = "counted"

    def change_set_sql(
        self, work: Work, sql: str, columns: Sequence[DbtColumn], bounds: Sequence[Any]
    ) -> str:
        """Return the recomputed rows of the affected keys, compared with those of the table."""
        key = self.affected_key_columns(work)
        recomputed = self.sql("hw_rows_of_led_keys_sql", sql, key)
        return self.recomputed_sql(work, sql, key, recomputed, columns, bounds)

    def affected_keys_sql(self, work: Work, sql: str) -> str:
        """Return the affected keys in the form of the table."""
        leads = self.config["leads"]
        stored = partitions_among(leads["key"], self.config)
        names = []
        for name in leads["key"]:
            value = identifier(name)
            if name in stored:
                value = f"{stored_value(value)} as {value}"
            names.append(value)
        ranges = work.plan.ranges
        queries = [
            self._lead_sql(work, lead["sql"])
            for source, lead in leads["inputs"].items()
            if lead["sql"] and source in ranges and ranges[source].rows > 0
        ]
        return str(self.sql("hw_led_keys_sql", names, queries))

    def _lead_sql(self, work: Work, sql: str) -> str:
        """Return a lead with its names replaced by relations."""
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

    def facts(self, work: Work) -> Facts:
        """Gather the facts of the affected keys."""
        return self.facts_of_keys(work)


def affected_inputs(inputs: Iterable[Spec]) -> list[Spec]:
    """Return the inputs that are followed by key."""
    return [spec for spec in inputs if spec["kind"] == "affected"]


def in_order(names: Iterable[str]) -> list[str]:
    """Return names in alphabetical order."""
    return sorted(names, key=str.lower)


def unaffected_key_text(target: DbtRelation, key: Sequence[str]) -> str:
    """Return the error of a row without an input whose changes lead to it."""
    names = ", ".join(key)
    return (
        f"{target} has a row of {names} that comes from no row of an affected() input with that "
        f"value, so no change of theirs leads to it. Select {names} from them as it is, and mark "
        "a table that all keys come from with affected(), not lookup()."
    )


def key_columns(spec: Spec, alias: str) -> str:
    """Return an input's key under the names of the model's columns."""
    return ", ".join(
        f"{key_value(spec, name, alias)} as {identifier(name)}" for name in in_order(spec["key"])
    )


def key_value(spec: Spec, name: str, alias: str) -> str:
    """Return one column of the key, in the form of the model's table.

    Inputs without `stored` are those of a model that is not planned.
    """
    value = f"{alias}.{identifier(spec['key'][name])}"
    return stored_value(value) if name in spec.get("stored", []) else value


def keys_of_rows_sql(
    macros: Macros, spec: Spec, rows: str, affected: Sequence[Spec], few: bool = False
) -> str:
    """Return the keys of an input's rows, through other inputs at pinned versions.

    `few`: Spark broadcasts the rows, because they are few.
    """
    if not spec.get("via"):
        return f"select {key_columns(spec, '_rows')} from {rows} as _rows"
    via = _via(spec, affected)
    pairs = _equals_via(spec, "_rows")
    led = macros("hw_rows_of_via_sql", rows, input_sql(via), pairs, few)
    return keys_of_rows_sql(macros, via, str(led), affected)


def of_keys_sql(
    macros: Macros, sql: str, inputs: Sequence[Spec], keys: str, bounds: Sequence[Any] = ()
) -> str:
    """Return the SQL over some keys: every followed input without the rows of other keys.

    `keys` is a relation of the key's columns, named _touched; its keys lie within `bounds`.
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
    # a stored key that is NULL in the table may be an empty text in the input
    stored = spec.get("stored", [])
    known = [bound for bound in bounds if not (bound.nulls and bound.column in stored)]
    within = bounding.within_bounds(known, "_input", spec["key"])
    equals = (
        []
        if bounding.lists_all(known)
        else [
            f"{key_value(spec, name, '_input')} <=> _touched.{identifier(name)}"
            for name in spec["key"]
        ]
    )
    return str(macros("hw_input_of_keys_sql", input_sql(spec), keys, equals, within))


def _via(spec: Spec, affected: Sequence[Spec]) -> Spec:
    """Return the input that leads another one to the key; an input may lead to it in turn."""
    return next(one for one in affected if one["source"] == spec["via"])


def _equals_via(spec: Mapping[str, Any], alias: str) -> str:
    """Return the condition of an input's rows that equal those of `_via` in the columns of `on`."""
    return " and ".join(
        f"{alias}.{identifier(own)} <=> _via.{identifier(other)}"
        for own, other in spec["on"].items()
    )
