"""Checks that refuse models which no strategy can maintain.

They look at a model's text, its columns, and rows of a sample.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from headwaters.analysis import dotted_names
from headwaters.platform.delta_version import FEED
from headwaters.platform.errors import UserError
from headwaters.platform.sql import identifier
from headwaters.platform.text import sql_command
from headwaters.runs.inputs import (
    Spec,
    inputs_of,
    with_inputs,
    without_inputs,
    without_rows,
)
from headwaters.runs.model import Model, names_in
from headwaters.runs.session import DbtColumn, Session
from headwaters.runs.strategies import strategy_for
from headwaters.runs.strategies.base import named
from headwaters.runs.work import Work, drop_staging_table, staging_table
from headwaters.tables.settings import strategy_problems

# Statements of the engine give their own columns these names. Delta reads a target's alias as a
# column of that name.
RESERVED = (
    *("_operation", "_row", "_copies", "_metadata", "_balance", "_side", "_net", "_stray"),
    *("_is_touched", "_replaced", "_target", "_staged"),
    *("_change_type", "_commit_version", "_commit_timestamp"),
)
_ADDED = {"signed": "_weight", "images": "_image"}
# Types whose equal values have equal hashes: neither floating-point numbers nor collated texts.
_HASHED = {"string", "binary", "date", "timestamp", "timestamp_ntz", "boolean"}
_INTEGERS = {"tinyint", "smallint", "int", "bigint"}


class Unproven(Exception):
    """The refusal of a model: its problems, each with the code of a rule."""


# --- by text


def check_model(model: Model) -> None:
    """Refuse a model by its configuration and its text, before the run reads any table.

    Raises:
        UserError: the problem, and the allowed values.
    """
    strategy, node = model.strategy, model.node
    inputs = inputs_of(model.sql)
    where = (
        f"{node['name']} ({node['original_file_path']}, "
        f"incremental_strategy: {strategy.configured_as})"
    )
    problems = [problem.at(where) for problem in strategy_problems(model.config)]
    if problems:
        raise Unproven("\n".join(map(str, problems)))
    _check_inputs(where, model, inputs)
    _check_bare_inputs(where, model, without_inputs(model.sql, inputs))
    strategy_for(model).check(where, model.sql, inputs)


def _check_inputs(where: str, model: Model, inputs: Sequence[Spec]) -> None:
    wanted = model.strategy.marker
    for spec in inputs:
        if spec["kind"] not in (wanted, "lookup"):
            raise UserError(
                "HW_OTHER_INPUT_MACRO",
                f"{where} reads {spec['source']} with {spec['kind']}(). This strategy reads what "
                f"it follows with {wanted}() and the rest with lookup().",
            )
    count = sum(spec["kind"] == wanted for spec in inputs)
    many = model.strategy.many_inputs
    if count == 0 and model.config.get("derivation"):
        return  # `auto` builds a table of no inputs, such as a calendar, once for each text
    if count == 0 or (count > 1 and not many):
        needed = (
            "at least one."
            if many
            else "exactly one. Mark inputs that change rarely with lookup(), or use affected_keys "
            "for several changing inputs."
        )
        raise UserError(
            "HW_NUMBER_OF_INPUTS",
            f"{where} has {count} inputs in {wanted}(); it needs {needed}",
        )


def _check_bare_inputs(where: str, model: Model, code: str) -> None:
    """Refuse unmarked inputs: no run would ever apply their changes.

    An ephemeral model may bring them with a ref(), or the SQL may name them. `code` has no inputs.
    """
    nodes, wanted = declared_tables(model.session), model.strategy.marker
    for name in dotted_names(code):
        parts = name.parts
        if len(parts) < 2:
            continue
        if len(parts) > 2 and not name.is_relation and parts[:2] in nodes:
            raise UserError(
                "HW_COLUMN_WITH_SCHEMA",
                f"{where} names a column {'.'.join(parts)}, and an incremental run reads the rows "
                f"that changed, which have no schema. Write {'.'.join(parts[1:])}, or give the "
                "input an alias.",
            )
        node = nodes.get((parts[-2], parts[-1]))
        if node and node["unique_id"] == model.unique_id:
            raise_reads_itself(where)
        elif node:
            call = f"ref('{node['name']}')"
            if node["resource_type"] == "source":
                call = f"source('{node['source_name']}', '{node['name']}')"
            raise UserError(
                "HW_UNMARKED_INPUT",
                f"{where} reads {call} unmarked, so its changes would be missed. Write "
                f"{{{{ {wanted}({call}) }}}} to follow its changes, or {{{{ lookup({call}) }}}} to "
                f"read "
                "it whole and rebuild the table when it changes.",
            )
        elif name.is_relation:
            raise_undeclared(
                where,
                ".".join(parts),
                f"{{{{ {wanted}(source(…)) }}}} or {{{{ lookup(source(…)) }}}}",
            )


def declared_tables(session: Session) -> dict[tuple[str, ...], Mapping[str, Any]]:
    """Return the tables that the project declares, by schema and name in lower case.

    With `--defer`, a node is also the table of the state that dbt reads in its place.
    """
    graph = session.graph
    nodes = [*graph["sources"].values()]
    nodes += [
        node
        for node in graph["nodes"].values()
        if node["resource_type"] in ("model", "seed", "snapshot")
    ]
    deferred = [(node["defer_relation"], node) for node in nodes if node.get("defer_relation")]
    return {
        (place["schema"].lower(), (place.get("identifier") or place.get("alias")).lower()): node
        for place, node in [*deferred, *zip(nodes, nodes, strict=True)]
    }


def raise_reads_itself(where: str) -> None:
    """Raise the error of a model that reads its own table."""
    raise UserError(
        "HW_READS_ITSELF",
        f"{where} reads its own table. What it has must follow from its inputs alone, or a "
        "full refresh would give another table.",
    )


def raise_undeclared(where: str, source: str, call: str) -> None:
    """Raise the error of an undeclared input."""
    raise UserError(
        "HW_UNDECLARED_INPUT",
        f"{where} reads {source}, which no source and no model declares, so its changes would be "
        f"missed. Declare it as a source, and write {call}.",
    )


# --- by columns


def check_columns(
    model: Model,
    columns: Sequence[DbtColumn],
    inputs: Sequence[Spec],
    unread: Sequence[Spec] | None = None,
) -> None:
    """Refuse missing or forbidden columns, and inputs without a change feed.

    `unread`: the inputs whose change feed is not known, if the plan knows some.

    Raises:
        UserError: the problem, and the correct text.
    """
    target = model.target
    wanted: dict[str, Sequence[str]] = {
        setting: names_in(model.config, setting)
        for setting in ("unique_key", "latest_by", "prune_by")
    }
    wanted |= strategy_for(model).named_columns(model.sql)
    for spec in inputs:
        if spec["kind"] == "affected" and spec.get("key"):
            wanted[f"key of affected({spec['source']})"] = list(spec["key"])
    _check_names_and_types(model, columns)
    given = {column.name.lower() for column in columns}
    for setting, names_ in wanted.items():
        for name in names_:
            if name.lower() not in given:
                raise UserError(
                    "HW_NO_SUCH_COLUMN",
                    f"{target}: {setting} names the column {name}, which the model does not have. "
                    f"It has {', '.join(column.name for column in columns)}.",
                )
    for spec in inputs if unread is None else unread:
        if spec["kind"] != "lookup" and spec["version"] is not None:
            _check_feed(model, spec)


def _check_names_and_types(model: Model, columns: Sequence[DbtColumn]) -> None:
    target, reserved = model.target, {*RESERVED, *model.strategy.reserved}
    taken = [
        column.name
        for column in columns
        if column.name.lower() in reserved or re.fullmatch(r"(?i)_before_\d+", column.name)
    ]
    if taken:
        raise UserError(
            "HW_RESERVED_COLUMN",
            f"{target}: the engine uses the name {', '.join(taken)} itself. Give the column "
            f"another one, as in `{_quoted(taken[0])} as {taken[0].strip('_') or 'value'}`.",
        )
    for column in columns:
        name = _quoted(column.name)
        if column.dtype.startswith("char"):
            raise UserError(
                "HW_CHAR_COLUMN",
                f"{target}: {column.name} is a {column.dtype}. The run that builds the table could "
                "write one, but Delta cannot merge into a table that has one, so later runs could "
                f"not. Select cast({name} as string) as {name}.",
            )
    lacks_key = not model.keys and model.strategy.may_lack_key
    for column in columns:
        if re.search(r"\bcollate\b", column.dtype) and lacks_key:
            raise UserError(
                "HW_NOT_COMPARABLE",
                f"{target}: {column.name} is a {column.dtype}, of which values that differ are "
                "equal, so it cannot tell rows apart. Name a unique_key.",
            )
    for column in columns:
        if re.search(r"\b(map<|variant\b)", column.dtype):
            raise UserError(
                "HW_NOT_COMPARABLE",
                f"{target}: {column.name} is a {column.dtype}, and Spark cannot say whether two "
                "of those are the same. Select map_entries(…) or to_json(…) of it.",
            )


def _quoted(name: str) -> str:
    """Return a name as dbt quotes it, which does not double a backtick."""
    return f"`{name}`"


def _check_feed(model: Model, spec: Spec) -> None:
    source = spec["source"]
    if not has_feed(model.session, source, spec):
        command = sql_command(
            [f"alter table {source} set tblproperties ('delta.enableChangeDataFeed' = 'true')"]
        )
        raise UserError(
            "HW_NO_CHANGE_FEED",
            f"{model.target} follows the changes of {source}, which has no change data feed. Set "
            "tblproperties delta.enableChangeDataFeed: true where it is declared, or type `"
            f"{command}`",
        )


def has_feed(session: Session, source: str, commit: Mapping[str, Any]) -> bool:
    """Return true if a table has a change data feed at a commit."""
    properties = session.properties_at(source, commit)
    return str(properties.get(FEED, "false")).lower() == "true"


def describe_inputs(
    session: Session, inputs: Sequence[Spec], commits: Mapping[str, Mapping[str, Any]]
) -> None:
    """Add the columns of each input at its commit, and whether it has a change data feed."""
    for spec in inputs:
        commit = commits[spec["source"]]
        spec["has_feed"] = has_feed(session, spec["source"], commit)
        spec["columns"] = session.columns_at(spec["source"], commit)


def check_input_columns(model: Model, inputs: Sequence[Spec]) -> None:
    """Refuse inputs of signed() and images() that already have the column which the macro adds."""
    for spec in inputs:
        added, source = _ADDED.get(spec["kind"]), spec["source"]
        if added is None:
            continue
        columns = model.session.connection.columns(f"select * from {source}")
        if added in {column.name.lower() for column in columns}:
            raise UserError(
                "HW_RESERVED_COLUMN",
                f"{model.target} reads {source} with {spec['kind']}(), which adds the column "
                f"{added}, and it has one of that name. Rename it in a model between the two.",
            )


# --- by rows


def refuse_keys_of_lookups(
    model: Model, inputs: Sequence[Spec], work: Work | None = None
) -> str | None:
    """Refuse lookups that decide the rows or keys of a model. Return a gap, if any.

    Under `on_lookup_change: ignore`, rows keep the values that lookups had at the write. After a
    lookup row is deleted, a run could not find its rows to delete them with the input's row. The
    check compares the keys of the SQL with those that it gives with empty lookups. It takes all
    rows of the input, or only the changed ones.
    """
    lookups = [spec for spec in inputs if spec["kind"] == "lookup"]
    ignores = model.settings.on_lookup_change == "ignore"
    if not lookups or not ignores or model.strategy.many_inputs:
        return None
    if any(spec["version"] is None for spec in lookups):
        return None
    session, followed = model.session, {}
    if work is not None:
        strategy = strategy_for(model)
        for spec in inputs:
            if spec["kind"] != "lookup":
                changes = work.range_of(spec["source"])
                followed[spec["text"]] = strategy.changed_rows_sql(spec, changes)
    query = session.macros(
        "hw_keys_of_lookups_sql",
        named(model.keys),
        with_inputs(model.sql, followed),
        with_inputs(model.sql, followed | without_rows(lookups)),
    )
    if work is None:
        rows = session.connection.fetch(query)
    else:
        reading = work.read(query)
        if reading.gap:
            return reading.gap
        rows = reading.rows
    if rows:
        values = ", ".join(map(str, rows[0].values()))
        raise UserError(
            "HW_KEYS_OF_LOOKUP",
            f"{model.target} has on_lookup_change: ignore, and a lookup says which rows or keys "
            f"it has, as for {values}: such a row could not be found when its input row is "
            "deleted. Join the lookup with left join and take unique_key from the input, or write "
            "on_lookup_change: rebuild.",
        )
    return None


def check_by_rows(model: Model, inputs: Sequence[Spec], columns: Sequence[DbtColumn]) -> None:
    """Try the SQL on a thousand rows of an input, before its first table or if it is new."""
    session, strategy = model.session, strategy_for(model)
    tried = strategy.tried_rows(inputs)
    if not tried:
        return
    sample = staging_table(model)
    question = strategy.differences_sql(model.sql, inputs, tried.spec, columns, sample)
    rows = session.macros("hw_sample_sql", tried.spec, tried.half)
    session.connection.execute(session.macros("hw_create_staging_table_sql", sample, rows))
    row = session.connection.fetch(question)[0].dict()
    drop_staging_table(session.connection, sample)
    for name, differs in row.items():
        if differs:
            raise UserError("HW_ROWS_DIFFER", strategy.difference_text(tried.spec, name))


def may_repeat_keys(model: Model, columns: Sequence[DbtColumn]) -> bool:
    """Return true if the costly search for repeated keys is worthwhile.

    Texts are compared by a hash of 64 bits. If a key column is an integer, 64 of its values form
    one group with a bit for each. A group with more rows than bits has a repeated key. Keys that
    lie close together, as most do, make few groups.
    """
    keys = {name.lower() for name in model.keys}
    own = [column for column in columns if column.name.lower() in keys]
    integers = [column.name for column in own if column.dtype in _INTEGERS]
    others = [column for column in own if column.dtype not in _INTEGERS]
    types = {column.dtype for column in others}
    is_hashed = "string" in types and types <= _HASHED
    if not integers and not is_hashed:
        return True
    grouped, at_most = [identifier(column.name) for column in others], "1"
    if is_hashed:
        grouped = [f"xxhash64({', '.join(grouped)})"]
    if integers:
        number = f"cast({identifier(integers[-1])} as bigint)"
        grouped += [*map(identifier, integers[:-1]), f"shiftright({number}, 6)"]
        bits = f"bit_or(shiftleft(1L, cast({number} & 63 as int)))"
        at_most = f"coalesce(bit_count({bits}), 1)"
    session = model.session
    query = session.macros("hw_crowded_keys_sql", model.sql, grouped, at_most)
    return len(session.connection.fetch(query)) > 0
