"""Draw a history from a seed and a number.

Spark refuses some of the statements, which then do nothing. Values are few, so that keys match
often.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from incremental.fuzz.history import Change, History, Model, Step

# Runs refuse many keys that are not UTF-8, or that are the empty text, which Delta keeps as NULL in
# a partition column. Both are rare here.
WORDS = ["'a'", "'b'", "'it\\'s'", "'null'", "null", "'\u00e9'"]
POOLS: dict[str, list[str]] = {
    "int": ["1", "2", "3", "4", "5", "null", "-5", "21"],
    "bigint": ["1L", "2L", "3L", "4L", "5L", "null", "-5L", "21L"],
    "decimal(10,2)": ["1.50", "2.00", "-5.25", "21.00", "30.10", "null"],
    "decimal(12,2)": ["1.50", "2.00", "-5.25", "21.00", "30.10", "null"],
    "double": ["0.5D", "1.5D", "-0.0D", "0.0D", "double('NaN')", "21.0D", "null"],
    "date": ["date'2026-01-01'", "date'2026-01-02'", "date'2026-10-31'", "null"],
    # 01:30 and 01:30 again, if the session's time zone is New York's, and years before zones
    "timestamp": [f"timestamp_micros({at})" for at in (1793511000000000, 1793514600000000)]
    + ["timestamp_micros(-5364662399876544)", "null"],
    "string": [*WORDS, *WORDS, *WORDS, "''", "cast(x'ff41' as string)"],
}
KEYS = {"int": 5, "bigint": 5, "string": 6}  # this many of the pool are identifiers, and NULL
WIDER = {"int": "bigint", "bigint": "bigint", "decimal(10,2)": "decimal(12,2)"}
COLUMNS = ("id", "grp", "val", "note", "at")


@dataclass
class Table:
    """A table as the drawn statements leave it, if Spark accepts them all."""

    name: str
    columns: dict[str, str]
    keyed: bool
    key: str = "id"


class Draw:
    """A generator of one history."""

    def __init__(self, seed: int, number: int) -> None:
        self.chance = random.Random(f"{seed}:{number}")
        self.tables: dict[str, Table] = {}
        self.read: list[str] = []  # the inputs of the models
        self.group_type = ""
        self.models: dict[str, Model] = {}
        self.new_columns = 0

    def history(self, steps: int, most_models: int) -> History:
        """Return tables, models and steps."""
        self._draw_tables()
        models_drawn = min(self.chance.choice([1, 1, 1, 2, 2, 3]), most_models)
        for number in range(1, models_drawn + 1):
            name = f"m{number}"
            self.models[name] = self._model(name)
        models = tuple(self.models.values())
        read = sorted({name for model in models for name in model.reads.values()} - {*self.models})
        tables = tuple(self._created(self.tables[name]) for name in read)
        self.read = read
        return History(tables, models, tuple(self._step() for _ in range(steps)))

    # Tables

    def _draw_tables(self) -> None:
        columns = {
            "id": self.chance.choice(list(KEYS)),
            "grp": self.chance.choice(["string", "string", "string", "int", "date"]),
            "val": self.chance.choice(["int", "int", "bigint", "decimal(10,2)", "double"]),
            "note": "string",
            "at": "timestamp",
        }
        self.group_type = columns["grp"]
        for name in ("t", "u"):
            self.tables[name] = Table(name, dict(columns), self.chance.random() < 0.6)
        self.tables["l"] = Table("l", {"grp": columns["grp"], "name": "string"}, True, "grp")

    def _created(self, table: Table) -> Change:
        listed = ", ".join(table.columns)
        cast = ", ".join(
            f"cast({name} as {type_}) as {name}" for name, type_ in table.columns.items()
        )
        feed = {"delta.enableChangeDataFeed": "true"} if self.chance.random() < 0.93 else {}
        if self.chance.random() < 0.4:
            feed["delta.enableDeletionVectors"] = "true"
        return Change(
            f"create table [{table.name}] using delta{self._layout(table, 0.25)}"
            f"{_properties(feed)} as select {cast} from values {{rows}} as s ({listed})",
            self._rows(table, self.chance.randint(2, 5)),
        )

    def _layout(self, table: Table, likely: float) -> str:
        if self.chance.random() > likely:
            return ""
        columns = [name for name in table.columns if name in ("grp", "note", "id", "name", "at")]
        if self.chance.random() < 0.5:  # mostly the column that models read
            columns = [name for name in columns if name == "grp"] or columns
        if not columns or len(table.columns) == 1:
            return ""
        if self.chance.random() < 0.25:
            return f" cluster by ({self.chance.choice(columns)})"
        chosen = self.chance.sample(
            columns, min(len(table.columns) - 1, self.chance.choice([1, 1, 1, 2]), len(columns))
        )
        return f" partitioned by ({', '.join(chosen)})"

    def _value(self, table: Table, column: str) -> str:
        type_ = table.columns[column]
        pool = POOLS[type_]
        if column == "id":
            pool = [*pool[: KEYS.get(type_, 5)], "null"]
        return self.chance.choice(pool)

    def _rows(self, table: Table, count: int) -> tuple[str, ...]:
        rows: dict[str, str] = {}
        for place in range(count):
            values = {column: self._value(table, column) for column in table.columns}
            key = values.get(table.key, "") if table.keyed else str(place)
            rows.setdefault(key, f"({', '.join(values.values())})")
        return tuple(rows.values())

    def _condition(self, table: Table, alias: str = "") -> str:
        column = self.chance.choice(list(table.columns))
        value = self._value(table, column)
        if value == "null":
            return f"{alias}{column} is null"
        return f"{alias}{column} {self.chance.choice(['<=>', '=', '=', '<', '>'])} {value}"

    # Models

    def _model(self, name: str) -> Model:
        below = [
            model.name
            for model in self.models.values()
            if model.body.startswith("select id, grp, val, note, at from")
        ]
        reads = {"t": "t", "u": "u", "l": "l"}
        if below and self.chance.random() < 0.8:
            reads["t"] = self.chance.choice(below)
        elif self.chance.random() < 0.15:
            reads["t"] = "u"
        if name == "m1" and self.chance.random() < 0.12:
            return self._plain(name, reads)
        drawn = self.chance.choice(
            [self._auto] * 8
            + [self._change_feed] * 2
            + [self._latest, self._affected, self._affected, self._signed, self._history]
        )
        return drawn(name, reads)

    def _plain(self, name: str, reads: Mapping[str, str]) -> Model:
        """Return a plain dbt table, view or ephemeral model, for other models to read."""
        kind = self.chance.choice(["table", "table", "table", "view", "ephemeral"])
        settings: dict[str, object] = {"materialized": kind}
        if kind == "table":
            settings |= self._target_layout(["grp", "note"])
        return _made(name, settings, self._linear(), reads)

    def _more(self) -> str:
        return self.chance.choice(
            ["", "", "", ", upper(note) as loud", ", val is null as is_empty", ", id as number"]
        )

    def _where(self, alias: str = "") -> str:
        conditions = ["grp is not null", "val > 1", "note <> 'a'", "id is not null"]
        conditions += [f"grp <=> {self.chance.choice(POOLS[self.group_type])}"]
        if self.chance.random() < 0.45:
            return ""
        return f" where {alias}{self.chance.choice(conditions)}"

    def _linear(self) -> str:
        return f"select id, grp, val, note, at from [t] as t{self._where()}"

    def _target_layout(self, columns: Sequence[str]) -> dict[str, object]:
        if columns and self.chance.random() < 0.3:
            setting = self.chance.choice(["partition_by", "partition_by", "cluster_by"])
            return {setting: self.chance.choice(list(columns))}
        return {}

    def _settings(
        self, strategy: str, layout: Sequence[str], key: object = None, **more: object
    ) -> dict[str, object]:
        settings: dict[str, object] = {"incremental_strategy": strategy, **more}
        if key:
            settings["unique_key"] = key
        settings |= self._target_layout(layout)
        if self.chance.random() < 0.15:
            settings["apply_by"] = "merge"
        return settings

    def _is_keyed(self, reads: Mapping[str, str], name: str = "t") -> bool:
        read = reads[name]
        while read in self.models:
            read = self.models[read].reads["t"]
        return self.tables[read].keyed

    def _auto(self, name: str, reads: Mapping[str, str]) -> Model:
        bodies: list[Callable[[], tuple[str, list[str], str]]] = [
            lambda: (self._linear(), ["grp", "note"], "id"),
            lambda: (self._linear(), ["grp", "note"], "id"),
            lambda: (
                f"select id, grp, val{self._more()} from [t] as t{self._where()}",
                ["grp"],
                "id",
            ),
            lambda: ("select * from [t] as t", ["grp"], "id"),
            lambda: (
                "select grp, count(*) as n, sum(val) as total, max(val) as most"
                f" from [t] as t{self._where()} group by grp",
                ["grp"],
                "",
            ),
            lambda: (
                "select grp, note, count(*) as n, min(at) as first_at from [t] as t"
                f"{self._where()} group by grp, note having count(*) > 1",
                ["grp"],
                "",
            ),
            lambda: (
                "select t.id, t.val, l.name from [t] as t left join [l] as l"
                f" on t.grp = l.grp{self._where('t.')}",
                [],
                "id",
            ),
            lambda: (
                "select l.name, count(*) as n, sum(t.val) as total from [t] as t"
                " inner join [l] as l on t.grp = l.grp group by l.name",
                ["name"],
                "",
            ),
            lambda: ("select grp from [t] as t union select grp from [u] as u", [], ""),
            lambda: (
                "select id, grp, val from [t] as t where val is not null"
                " union all select id, grp, val from [u] as u",
                ["grp"],
                "",
            ),
            lambda: (f"select distinct grp, note from [t] as t{self._where()}", ["grp"], ""),
            lambda: ("select count(*) as n, sum(val) as total from [t] as t", [], ""),
            lambda: (
                "select id, val, rank() over (partition by grp order by val desc) as place"
                " from [t] as t",
                [],
                "",
            ),
            lambda: (
                "select t.grp, (select max(u.val) from [u] as u where u.grp = t.grp) as most"
                " from [t] as t",
                [],
                "",
            ),
            lambda: (
                "select t.id, t.grp, t.val from [t] as t where"
                f"{self.chance.choice([' not', ''])} exists"
                " (select 1 from [u] as u where u.grp = t.grp)",
                ["grp"],
                "id",
            ),
            lambda: (
                "select n, count(*) as groups from"
                " (select count(*) as n from [t] as t group by grp) as s group by n",
                [],
                "",
            ),
            lambda: (
                "select grp, sum(val) as total, sum(count(*)) over () as of_all"
                " from [t] as t group by grp",
                [],
                "",
            ),
            lambda: (
                "with g as (select grp, sum(val) as total from [t] as t group by grp)"
                " select grp, total, rank() over (order by total desc) as place from g"
                " where total >= (select min(total) from g)",
                [],
                "",
            ),
            lambda: (
                "select coalesce(t.grp, u.grp) as grp, t.n, u.n as m from"
                " (select grp, count(*) as n from [t] as t group by grp) as t"
                " full join (select grp, count(*) as n from [u] as u group by grp) as u"
                " on t.grp = u.grp",
                ["grp"],
                "",
            ),
            lambda: (
                "select t.id, t.note, u.val from [t] as t left join [u] as u on t.id = u.id",
                ["note"],
                "",
            ),
            lambda: (
                "select date_trunc('day', at) as day, count(*) as n, count(distinct grp) as m"
                " from [t] as t group by date_trunc('day', at)",
                [],
                "",
            ),
            lambda: (
                "select upper(note) as note, max(val) as most from [t] as t"
                f"{self._where()} group by upper(note)",
                ["note"],
                "",
            ),
            lambda: (
                "select grp from [t] as t where grp not in"
                " (select grp from [u] as u where grp is not null)",
                [],
                "",
            ),
        ]
        body, layout, keys = self.chance.choice(bodies)()
        keyed = keys if keys and self._is_keyed(reads) and self.chance.random() < 0.6 else None
        settings = self._settings("auto", layout, keyed)
        if self.chance.random() < 0.05:
            settings["on_lookup_change"] = "rebuild"
        return _made(name, settings, body, reads)

    def _change_feed(self, name: str, reads: Mapping[str, str]) -> Model:
        if self.chance.random() < 0.4:
            body = (
                "select t.id, t.grp, t.val, l.name from [t] as t left join [l] as l"
                f" on t.grp = l.grp{self._where('t.')}"
            )
        elif self.chance.random() < 0.5:
            body = f"select id, grp, val{self._more()} from [t] as t{self._where()}"
        else:
            body = self._linear()
        key = "id" if self._is_keyed(reads) and self.chance.random() < 0.7 else None
        settings = self._settings("change_feed", ["grp"], key)
        macros = {"t": "changes({})", "l": "lookup({})"}
        return _made(name, settings, body, reads, macros)

    def _latest(self, name: str, reads: Mapping[str, str]) -> Model:
        latest = self.chance.choice(["val", "at", "note"])
        body = f"select grp, id, val, note, at from [t] as t{self._where()}"
        rest = [column for column in ("id", "val", "note", "at") if column != latest]
        order = ", ".join(f"{column} desc nulls last" for column in [latest, *rest])
        reference = (
            "select grp, id, val, note, at from (select *, row_number() over (partition by grp"
            f" order by {order}) as place from ({body}) as s) as s where place = 1"
        )
        settings = self._settings("change_feed", ["grp"], "grp", latest_by=latest)
        return _made(name, settings, body, reads, {"t": "changes({})"}, reference)

    def _affected(self, name: str, reads: Mapping[str, str]) -> Model:
        by_grp = "affected({}, key='grp')"
        grouped: list[Callable[[], tuple[str, dict[str, str], str | None]]] = [
            lambda: (
                "select grp, count(*) as n, sum(val) as total, max(note) as last_note"
                f" from [t] as t{self._where()} group by grp",
                {"t": by_grp},
                "grp",
            ),
            lambda: (
                "select t.grp, count(*) as n, count(u.id) as m from [t] as t"
                " left join [u] as u on t.grp = u.grp group by t.grp",
                {"t": by_grp, "u": by_grp},
                "grp",
            ),
            lambda: (
                "select id, grp, val, rank() over (partition by grp order by val) as place"
                " from [t] as t",
                {"t": by_grp},
                "id" if self._is_keyed(reads) else None,
            ),
            lambda: (
                "select t.grp, count(*) as n, max(l.name) as name from [t] as t"
                " left join [l] as l on t.grp = l.grp group by t.grp",
                {"t": by_grp, "l": self.chance.choice(["lookup({})", by_grp])},
                "grp",
            ),
        ]
        body, macros, key = self.chance.choice(grouped)()
        return _made(name, self._settings("affected_keys", ["grp"], key), body, reads, macros)

    def _signed(self, name: str, reads: Mapping[str, str]) -> Model:
        where = self._where()
        # sums of floating-point numbers are refused
        is_float = self.tables["t"].columns.get("val") == "double"
        measure = "cast(length(note) as bigint)" if is_float else "cast(val as decimal(12, 2))"
        body = (
            f"select grp, sum(_weight) as n, sum({measure} * _weight) as total from [t] as t"
            f"{where} group by grp"
        )
        weighed = "(select *, 1 as _weight from [t])"
        reference = (
            f"select grp, n, coalesce(total, 0) as total from ({body.replace('[t]', weighed)}) as s"
        )
        settings = self._settings("signed_sum", ["grp"], "grp")
        return _made(name, settings, body, reads, {"t": "signed({})"}, reference)

    def _history(self, name: str, reads: Mapping[str, str]) -> Model:
        body = f"select id, grp, val, _image from [t] as t{self._where()}"
        settings = {"incremental_strategy": "history", "unique_key": "id", "on_gap": "rebuild"}
        return _made(name, settings, body, reads, {"t": "images({})"})

    # Steps

    def _step(self) -> Step:
        changes: list[Change] = []
        for _ in range(self.chance.choice([1, 1, 2, 2, 3])):
            changes += self._changes()
        edits: list[Model] = []
        if self.chance.random() < 0.15:
            model = self._edited(self.chance.choice(list(self.models.values())))
            self.models[model.name] = model
            edits.append(model)
            if self.chance.random() < 0.4:
                changes = []
        stop = self.chance.randint(1, 12) if self.chance.random() < 0.1 else None
        return Step(tuple(changes), tuple(edits), stop)

    def _edited(self, model: Model) -> Model:
        """Return the model with other SQL or another setting."""
        if "incremental_strategy" not in model.settings or self.chance.random() < 0.4:
            settings = dict(model.settings)
            for setting in ("partition_by", "cluster_by"):
                settings.pop(setting, None)
            if "grp" in model.body.split(" from ")[0] and model.settings == settings:
                settings["partition_by"] = "grp"
            return replace(model, settings=settings)
        is_auto = model.settings["incremental_strategy"] == "auto"
        if is_auto and "unique_key" in model.settings and self.chance.random() < 0.3:
            kept = {k: v for k, v in model.settings.items() if k != "unique_key"}
            return replace(model, settings=kept)
        drawn: dict[str, Callable[[str, Mapping[str, str]], Model]] = {
            "auto": self._auto,
            "change_feed": self._latest if "latest_by" in model.settings else self._change_feed,
            "affected_keys": self._affected,
            "signed_sum": self._signed,
            "history": self._history,
        }
        reads = {"u": "u", "l": "l", **model.reads}
        known = {*self.read, *self.models}
        for _ in range(6):  # until every table that a text reads is in the history
            found = drawn[str(model.settings["incremental_strategy"])](model.name, reads)
            base = model.body.startswith("select id, grp, val, note, at from")
            keeps = not base or found.body.startswith("select id, grp, val, note, at from")
            if keeps and {*found.reads.values()} <= known:
                return found
        return model

    def _changes(self) -> list[Change]:
        table = self.tables[self.chance.choice(self.read)]
        kinds: list[tuple[int, Callable[[Table], list[Change]]]] = [
            (12, self._insert),
            (8, self._merge),
            (6, self._delete),
            (8, self._update),
            (2, self._overwrite),
            (2, self._replace_where),
            (2, self._dynamic_overwrite),
            (2, self._commit_without_change),
            (6, self._replace),
            (5, self._frame),
            (5, self._restore),
            (3, self._clone),
            (3, self._recreate),
            (2, self._add_column),
            (1, self._drop_column),
            (2, self._rename_column),
            (1, self._widen),
            (1, self._reorder),
            (1, self._nullability),
            (3, self._properties),
            (2, self._maintain),
            (4, self._target),
        ]
        weights = [weight for weight, _ in kinds]
        return self.chance.choices(kinds, weights)[0][1](table)

    def _insert(self, table: Table) -> list[Change]:
        rows = self._rows(table, self.chance.randint(1, 3))
        listed = ", ".join(table.columns)
        if not table.keyed:
            return [Change(f"insert into [{table.name}] ({listed}) values {{rows}}", rows)]
        return [
            Change(
                f"insert into [{table.name}] ({listed}) select s.* from values {{rows}} as s"
                f" ({listed}) left anti join [{table.name}] as t"
                f" on t.{table.key} <=> s.{table.key}",
                rows,
            )
        ]

    def _merge(self, table: Table) -> list[Change]:
        keyed = replace(table, keyed=True)
        if table.key not in table.columns:
            return self._insert(table)
        rows, listed = self._rows(keyed, self.chance.randint(1, 3)), ", ".join(table.columns)
        others = [column for column in table.columns if column != table.key] or [table.key]
        updated = ", ".join(f"t.{column} = s.{column}" for column in others)
        inserted = ", ".join(f"s.{column}" for column in table.columns)
        deleted = ""
        if self.chance.random() < 0.3:
            deleted = f" when matched and {self._condition(table, 's.')} then delete"
        return [
            Change(
                f"merge into [{table.name}] as t using (select * from values {{rows}} as s"
                f" ({listed})) as s on t.{table.key} <=> s.{table.key}{deleted}"
                f" when matched then update set {updated}"
                f" when not matched then insert ({listed}) values ({inserted})",
                rows,
            )
        ]

    def _delete(self, table: Table) -> list[Change]:
        where = f" where {self._condition(table)}" if self.chance.random() < 0.9 else ""
        return [Change(f"delete from [{table.name}]{where}")]

    def _update(self, table: Table) -> list[Change]:
        columns = [name for name in table.columns if not table.keyed or name != table.key]
        column = self.chance.choice(columns or list(table.columns))
        return [
            Change(
                f"update [{table.name}] set {column} = {self._value(table, column)}"
                f" where {self._condition(table)}"
            )
        ]

    def _values(self, table: Table, count: int) -> tuple[str, tuple[str, ...]]:
        """Return a query of new rows in the types of the table, and the rows."""
        listed = ", ".join(table.columns)
        cast = ", ".join(
            f"cast({name} as {type_}) as {name}" for name, type_ in table.columns.items()
        )
        return f"select {cast} from values {{rows}} as s ({listed})", self._rows(table, count)

    def _overwrite(self, table: Table) -> list[Change]:
        query, rows = self._values(table, self.chance.randint(1, 4))
        if self.chance.random() < 0.4:
            query, rows = f"select * from [{table.name}] where {self._condition(table)}", ()
        return [Change(f"insert overwrite [{table.name}] {query}", rows)]

    def _replace_where(self, table: Table) -> list[Change]:
        condition = self._condition(table)
        return [
            Change(
                f"insert into [{table.name}] replace where {condition}"
                f" select * from [{table.name}] where {condition} and {self._condition(table)}"
            )
        ]

    def _dynamic_overwrite(self, table: Table) -> list[Change]:
        query = f"select * from [{table.name}] where {self._condition(table)}"
        return [
            Change(
                f'spark.sql(r"{query}").write.format("delta").mode("overwrite")'
                f'.option("partitionOverwriteMode", "dynamic").saveAsTable("[{table.name}]")'
            )
        ]

    def _commit_without_change(self, table: Table) -> list[Change]:
        column = self.chance.choice(list(table.columns))
        return [
            Change(
                self.chance.choice(
                    [
                        f"update [{table.name}] set {column} = {column}",
                        f"insert into [{table.name}] select * from [{table.name}] where false",
                    ]
                )
            )
        ]

    def _selected(self, table: Table) -> str:
        """Return the select list of a replacement, mostly of the same columns."""
        columns = {name: name for name in table.columns}
        if self.chance.random() < 0.25:
            kind = self.chance.choice(["retype", "reorder", "add", "drop", "change", "change"])
            column = self.chance.choice(list(columns))
            if kind == "retype":
                type_ = self.chance.choice(["string", "bigint", "double", "int"])
                columns[column] = f"try_cast({column} as {type_}) as {column}"
                table.columns[column] = type_
            elif kind == "reorder":
                columns[column] = columns.pop(column)
                table.columns[column] = table.columns.pop(column)
            elif kind == "add":
                self.new_columns += 1
                columns["new"] = f"1 as x{self.new_columns}"
                table.columns[f"x{self.new_columns}"] = "int"
            elif kind == "drop" and (column.startswith("x") or self.chance.random() < 0.3):
                if len(columns) > 1:
                    del columns[column], table.columns[column]
            else:
                value = self._value(table, column)
                columns[column] = f"cast({value} as {table.columns[column]}) as {column}"
        return ", ".join(columns.values())

    def _replace(self, table: Table) -> list[Change]:
        where = f" where not ({self._condition(table)})" if self.chance.random() < 0.4 else ""
        feed = {"delta.enableChangeDataFeed": "true"} if self.chance.random() < 0.9 else {}
        return [
            Change(
                f"create or replace table [{table.name}] using delta{self._layout(table, 0.5)}"
                f"{_properties(feed)} as select {self._selected(table)} from [{table.name}]{where}"
            )
        ]

    def _frame(self, table: Table) -> list[Change]:
        where = f" where {self._condition(table)}" if self.chance.random() < 0.3 else ""
        layout = ""
        columns = [name for name in table.columns if name in ("grp", "note", "id", "name")]
        columns += [name for name in columns if name == "grp"] * 3
        if columns and self.chance.random() < 0.6:
            layout = f'.partitionBy("{self.chance.choice(columns)}")'
        feed = ""
        if self.chance.random() < 0.8:
            feed = '.option("delta.enableChangeDataFeed", "true")'
        return [
            Change(
                f'spark.sql(r"select {self._selected(table)} from [{table.name}]{where}")'
                f'.write.format("delta").mode("overwrite").option("overwriteSchema", "true")'
                f'{feed}{layout}.saveAsTable("[{table.name}]")'
            )
        ]

    def _restore(self, table: Table) -> list[Change]:
        back = self.chance.randint(0, 5)
        return [Change(f"restore table [{table.name}] to version as of [newest-{back}]")]

    def _clone(self, table: Table) -> list[Change]:
        name = table.name
        if table.name != "l" and {"t", "u"} <= set(self.read) and self.chance.random() < 0.4:
            other = "u" if name == "t" else "t"
            table.columns = dict(self.tables[other].columns)
            table.keyed = self.tables[other].keyed
            return [Change(f"create or replace table [{name}] shallow clone [{other}]")]
        kept = dict(table.columns)
        changes = [
            Change(f"create or replace table [{name}]_old shallow clone [{name}]"),
            *self.chance.choice([self._insert, self._update, self._replace])(table),
            Change(f"create or replace table [{name}] shallow clone [{name}]_old"),
        ]
        table.columns = kept
        return changes

    def _recreate(self, table: Table) -> list[Change]:
        """Return another table of the same name: a clone, or one of new or earlier rows."""
        name = table.name
        feed = _properties({"delta.enableChangeDataFeed": "true"})
        if self.chance.random() < 0.3:
            return [
                Change(f"drop table if exists [{name}]_old"),
                Change(f"alter table [{name}] rename to [{name}]_old"),
                Change(f"create table [{name}] shallow clone [{name}]_old"),
            ]
        if self.chance.random() < 0.5:
            return [Change(f"drop table [{name}]"), self._created(table)]
        return [
            Change(f"create or replace table [{name}]_old using delta as select * from [{name}]"),
            Change(f"drop table [{name}]"),
            Change(
                f"create table [{name}] using delta{self._layout(table, 0.4)}{feed}"
                f" as select * from [{name}]_old"
            ),
        ]

    def _add_column(self, table: Table) -> list[Change]:
        self.new_columns += 1
        name = f"x{self.new_columns}"
        type_ = self.chance.choice(["int", "string", "double"])
        place = self.chance.choice(["", "", " first", f" after {next(iter(table.columns))}"])
        if place == "":
            table.columns[name] = type_
        return [Change(f"alter table [{table.name}] add columns ({name} {type_}{place})")]

    def _mapped(self, table: Table) -> Change:
        return Change(
            f"alter table [{table.name}] set tblproperties ('delta.columnMapping.mode' = 'name')"
        )

    def _drop_column(self, table: Table) -> list[Change]:
        extras = [name for name in table.columns if name.startswith("x")]
        if extras or len(table.columns) < 3:
            column = self.chance.choice(extras or list(table.columns))
        else:
            column = self.chance.choice(["note", "at"] if "note" in table.columns else ["name"])
        if len(table.columns) > 2:
            table.columns.pop(column, None)
        return [self._mapped(table), Change(f"alter table [{table.name}] drop column {column}")]

    def _rename_column(self, table: Table) -> list[Change]:
        column = self.chance.choice(list(table.columns))
        if column.startswith("x") or self.chance.random() < 0.3:
            new = f"x_{column}"
            table.columns = {
                (new if name == column else name): type_ for name, type_ in table.columns.items()
            }
            return [
                self._mapped(table),
                Change(f"alter table [{table.name}] rename column {column} to {new}"),
            ]
        # there and back, with a change between
        between = self._delete(table) if self.chance.random() < 0.5 else []
        return [
            self._mapped(table),
            Change(f"alter table [{table.name}] rename column {column} to x_there"),
            *between,
            Change(f"alter table [{table.name}] rename column x_there to {column}"),
        ]

    def _widen(self, table: Table) -> list[Change]:
        columns = [name for name, type_ in table.columns.items() if type_ in WIDER]
        if not columns:
            return self._add_column(table)
        column = self.chance.choice(columns)
        table.columns[column] = WIDER[table.columns[column]]
        widening = "'delta.enableTypeWidening' = 'true'"
        return [
            Change(f"alter table [{table.name}] set tblproperties ({widening})"),
            Change(
                f"alter table [{table.name}] alter column {column} type {table.columns[column]}"
            ),
        ]

    def _reorder(self, table: Table) -> list[Change]:
        column = self.chance.choice(list(table.columns))
        return [Change(f"alter table [{table.name}] alter column {column} first")]

    def _nullability(self, table: Table) -> list[Change]:
        column = self.chance.choice(list(table.columns))
        return [
            Change(f"delete from [{table.name}] where {column} is null"),
            Change(f"alter table [{table.name}] alter column {column} set not null"),
            *(
                [Change(f"alter table [{table.name}] alter column {column} drop not null")]
                if self.chance.random() < 0.5
                else []
            ),
        ]

    def _properties(self, table: Table) -> list[Change]:
        name, value = self.chance.choice(
            [
                ("delta.enableChangeDataFeed", "false"),
                ("delta.enableChangeDataFeed", "true"),
                ("delta.enableDeletionVectors", "true"),
                ("delta.enableDeletionVectors", "false"),
                ("note", "'"),
            ]
        )
        value = value.replace("'", "\\'")
        changes = [Change(f"alter table [{table.name}] set tblproperties ('{name}' = '{value}')")]
        if name == "delta.enableChangeDataFeed" and value == "false" and self.chance.random() < 0.7:
            changes += self._update(table)
            changes.append(Change(str(changes[0]).replace("'false'", "'true'")))
        return changes

    def _maintain(self, table: Table) -> list[Change]:
        return [
            Change(
                self.chance.choice(
                    [
                        f"optimize [{table.name}]",
                        f"optimize [{table.name}] zorder by (id)",
                        f"reorg table [{table.name}] apply (purge)",
                        f"vacuum [{table.name}] retain 1000 hours",
                        f"vacuum [{table.name}] retain 0 hours",
                        f"alter table [{table.name}] cluster by (val)",
                        f"alter table [{table.name}] cluster by none",
                    ]
                )
            )
        ]

    def _target(self, table: Table) -> list[Change]:
        name = self.chance.choice(list(self.models))
        return [
            Change(
                self.chance.choice(
                    [
                        f"insert into [{name}] select * from [{name}] limit 1",
                        f"delete from [{name}]",
                        f"restore table [{name}] to version as of [newest-1]",
                        f"restore table [{name}] to version as of [newest-3]",
                        f"drop table [{name}]",
                        f"alter table [{name}] set tblproperties ('note' = 'x')",
                        f"optimize [{name}]",
                        f"alter table [{name}] add column extra string",
                        f"alter table [{name}] alter column id first",
                        f"create or replace table [{name}] using delta as select * from [{name}]",
                        f"create or replace table [{name}] using delta"
                        f" tblproperties ('delta.enableChangeDataFeed' = 'true')"
                        f" as select * from [{name}] limit 1",
                    ]
                )
            )
        ]


def _properties(properties: Mapping[str, str]) -> str:
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    return f" tblproperties ({listed})" if listed else ""


def _made(
    name: str,
    settings: Mapping[str, object],
    body: str,
    reads: Mapping[str, str],
    macros: Mapping[str, str] | None = None,
    reference: str = "",
) -> Model:
    used = {place: read for place, read in reads.items() if f"[{place}]" in body}
    return Model(name, settings, body, used, macros or {}, reference)


def drawn(seed: int, number: int, steps: int, most_models: int = 3) -> History:
    """Return the history of a seed and a number."""
    return Draw(seed, number).history(steps, most_models)
