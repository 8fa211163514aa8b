"""The write of a staged change set to the target, in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwaters.platform.sql import identifier
from headwaters.runs import change_set_cache
from headwaters.runs.decisions import way_of_writing
from headwaters.runs.model import Model
from headwaters.runs.recovery import signature
from headwaters.runs.session import DbtColumn, DbtRelation
from headwaters.runs.strategies.base import Look, named, raise_repeated_keys

COLUMNS_CHANGED = "the columns changed"
ROWS_MISSING = "the table did not have all the rows that changed"


@dataclass(frozen=True)
class Written:
    """The result of a write; `refused`: the reason that only a replacement would be right."""

    refused: str | None = None
    why_merge: str = ""


def write(
    model: Model,
    stage: DbtRelation,
    look: Look,
    columns: Sequence[DbtColumn],
    engine: str,
    check_target: bool,
) -> Written:
    """Write the change set that `look` describes. `engine`: that of this run.

    `check_target`: the change set was not compared with the target, so check that new keys of the
    input are new to the target too.

    Raises:
        UserError: a key is repeated. The table is unchanged.
    """
    if not model.keys:
        return _write_without_key(model, stage, look, columns)
    return _write_by_key(model, stage, look, engine, check_target)


def _write_by_key(
    model: Model, stage: DbtRelation, look: Look, engine: str, check_target: bool
) -> Written:
    session, keys = model.session, model.row_keys
    connection, sql = session.connection, session.macros
    if not look.same_columns:
        return Written(COLUMNS_CHANGED)
    if look.rows > look.distinct:
        raise_repeated_keys(model, sql("hw_repeated_keys_sql", keys, stage), stage)
    elif look.rows == 0:
        return Written()
    changed = look.updated + look.deleted
    if look.inserted and check_target:
        arguments = (model.target, stage, keys, look.within_keys)
        there = connection.fetch(sql("hw_keys_present_sql", *arguments))[0]
        if int(there["inserted"]):
            raise_repeated_keys(model, sql("hw_inserted_and_present_sql", *arguments), stage)
        elif int(there["present"]) != changed:
            return Written(ROWS_MISSING)
    served = model.served
    followers = [
        name
        for name in change_set_cache.followers(model.unique_id, session.graph)
        if name not in served
    ]
    way = way_of_writing(vars(look), model.settings.apply_by, engine, len(followers))
    run, beside, present = signature(session.run_id), model.beside_names, changed
    if way.way == "insert":
        connection.execute(sql("hw_insert_sql", model.target, stage, beside, run))
    elif way.way == "replace":
        condition = f"{_is_replaced(stage, keys, look)} and {look.within}"
        connection.execute(sql("hw_replace_keys_sql", model.target, stage, condition, beside, run))
        if check_target and not look.inserted:
            present = _rows_replaced(model, look)
    else:
        pairs = _same_key(keys, look.nulls)
        row = connection.fetch(sql("hw_merge_sql", model.target, stage, pairs, look, run))[0]
        present = int(row["num_affected_rows"]) - look.inserted
    return Written(None if present == changed else ROWS_MISSING, way.reason)


def _is_replaced(stage: DbtRelation, keys: Sequence[str], look: Look) -> str:
    """Return the condition of a row of the target that the write removes.

    `replaceOn` compares it only with the rows that take a place, which excludes deleted keys. If
    the change set has any, the key is looked up in all of it. IN matches no null, but it matches a
    struct that contains one.
    """
    here, there = named(keys, "_target"), named(keys)
    if not look.deleted:
        return _same_key(keys, look.nulls)
    if any(look.nulls):
        return f"(struct({here}), true) in (select struct({there}), true from {stage})"
    return f"({here}) in (select {there} from {stage})"


def _same_key(keys: Sequence[str], nulls: Sequence[bool]) -> str:
    """Return the comparison of keys.

    It uses `=` if the change set has no null, because a null-safe comparison costs a fifth more.
    """
    return " and ".join(
        f"_target.{identifier(key)} {'<=>' if null else '='} _staged.{identifier(key)}"
        for key, null in zip(keys, nulls, strict=True)
    )


def _rows_replaced(model: Model, look: Look) -> int:
    """Return the number of target rows that this run's replacement by keys removed.

    Delta's metrics may be switched off.
    """
    connection = model.session.connection
    run = signature(model.session.run_id)
    for commit in connection.history(model.target, 10):
        if commit.user_metadata != run:
            continue
        if "numDeletedRows" in commit.metrics:
            return int(commit.metrics["numDeletedRows"])
        before, after = (
            int(
                connection.fetch(f"select count(*) from {model.target} version as of {version}")[0][
                    0
                ]
            )
            for version in (commit.version - 1, commit.version)
        )
        return before - after + look.inserted + look.updated
    return 0


def _write_without_key(
    model: Model, stage: DbtRelation, look: Look, columns: Sequence[DbtColumn]
) -> Written:
    session = model.session
    connection, sql, run = session.connection, session.macros, signature(session.run_id)
    if look.rows and not look.same_columns:
        return Written(COLUMNS_CHANGED)
    if look.missing:
        return Written(ROWS_MISSING)
    if look.rows == 0:
        return Written()
    if not look.deleted:
        connection.execute(sql("hw_insert_without_key_sql", model.target, stage, columns, run))
        return Written()
    names = [column.name for column in columns]
    row = connection.fetch(sql("hw_merge_without_key_sql", model.target, stage, names, run))[0]
    if int(row["num_deleted_rows"]) < look.deleted:
        return Written(ROWS_MISSING)
    return Written(why_merge="it has no unique_key")
