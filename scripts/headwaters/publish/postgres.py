"""PostgreSQL tables as a target: one transaction writes the changes and the version."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
import pyarrow as pa
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Composable, Composed, Identifier

from headwaters.platform.errors import CodedError, UserError, WorkError
from headwaters.publish.changes import Change, Field, Position, PublishedTable, repeated_keys
from headwaters.publish.target import FIRST, Done, Target, TargetDifference
from headwaters.publish.values import csv_expressions, csv_lines
from headwaters.tables.publications import LONGEST_NAME, postgres_type

STATE = "headwaters_published"
STAGING, DELETED = Identifier("headwaters_staging"), Identifier("headwaters_deleted")
_PAUSE = 0.5  # seconds
_MOMENT = 5  # seconds, for a connection

Cursor = psycopg.Cursor[Any]
Result = TypeVar("Result")


class PostgresTarget(Target):
    """A table of a PostgreSQL server, which is created if it is missing."""

    def __init__(self, table: str, variable: str, url: Callable[[], str], patience: float) -> None:
        """Set the target table, `schema.name`. `url` returns a password and is not stored."""
        self.schema, self.name = table.split(".")
        self.place, self.variable, self._url = table, variable, url
        self.patience = patience
        self.table = Identifier(self.schema, self.name)
        self.state = Identifier(self.schema, STATE)

    def publish(self, source: PublishedTable) -> Done:
        """Publish a table. If the server is away, retry until the patience ends."""
        for field in source.fields:
            if len(field.name.encode()) > LONGEST_NAME:
                raise UserError(
                    "HW_PUBLISH_TABLE",
                    f"{source.name}.{field.name}: a name of over {LONGEST_NAME} bytes, which "
                    "PostgreSQL would cut; rename it in the model",
                )
        return self._patiently(source, lambda cursor: self._publish(cursor, source))

    def compare(self, source: PublishedTable) -> TargetDifference | None:
        """Compare row by row, in the server, with the rows of the published version."""
        return self._patiently(source, lambda cursor: self._compare(cursor, source))

    # -- one transaction -------------------------------------------------------------------------

    def _publish(self, cursor: Cursor, source: PublishedTable) -> Done:
        self._lock(cursor)
        before = self._published(cursor)
        if before == source.position:
            self._check_table(cursor, source, add=False)
            if self._rows(cursor) == source.count:
                return Done(source.position.version, already=True)
            before = self._changed_by_others
        done = self._apply(cursor, source, before)
        count = self._rows(cursor)
        if done.whole is None and count != source.count:
            done = done + self._apply(cursor, source, self._changed_by_others)
            count = self._rows(cursor)
        if count != source.count:
            source.check_keys()
            raise WorkError(
                "HW_PUBLISH_TABLE",
                f"{self.place} has {count:,} rows after {source.count:,} of {source.name} were "
                "written: triggers of the table, or tables that inherit from it, may write or hide "
                "rows. Nothing was published",
            )
        now = source.position
        cursor.execute(
            SQL(
                "insert into {} values (%s, %s::regclass, %s, %s, %s, %s, %s, now()) "
                "on conflict (target) do update set relation = excluded.relation, model = "
                "excluded.model, table_id = excluded.table_id, version = excluded.version, commit "
                "= excluded.commit, columns = excluded.columns, published_at = now()"
            ).format(self.state),
            (
                *(self.name, self._quoted, source.name),
                *(now.table_id, now.version, now.commit, now.columns),
            ),
        )
        return done

    @property
    def _changed_by_others(self) -> str:
        return f"rows of {self.place} were changed by others"

    def _rows(self, cursor: Cursor) -> int:
        return int(_one(cursor, SQL("select count(*) from {}").format(self.table)))

    def _apply(self, cursor: Cursor, source: PublishedTable, before: Position | str) -> Done:
        """Write the changes since a position, or the whole table if `before` is a reason."""
        made = not _one(cursor, SQL("select to_regclass({}) is not null"), self._quoted)
        if made:
            self._create(cursor, source.fields)
        else:
            # otherwise a dropped column would return without its old values
            wider = isinstance(before, Position) and before.columns != source.position.columns
            self._check_table(cursor, source, add=wider)
        with source.since(before, csv_expressions(source.fields)) as change:
            return self._write(cursor, source, change, made)

    def _write(self, cursor: Cursor, source: PublishedTable, change: Change, made: bool) -> Done:
        names, key, version = [f.name for f in source.fields], source.key, source.position.version
        held = SQL("select exists (select from {})").format(self.table)
        triggers = not made and self._has_triggers(cursor)
        if change.whole and not triggers and (made or not _one(cursor, held)):
            count = _copy(cursor, self.table, names, change.upserts, source)
            if made:  # faster over existing rows than row by row
                self._index(cursor, key)
            return Done(version, count, 0, change.whole)
        self._stage(cursor, STAGING, names, change.upserts, source)
        if change.whole:
            deletes = self._delete(cursor, STAGING, key, SQL("not exists"))
        else:
            self._stage(cursor, DELETED, key, change.deletes, source)
            deletes = self._delete(cursor, DELETED, key, SQL("exists"))
        upserts = self._upsert(cursor, names, key)
        if triggers:
            self._check_written(cursor, names)
        return Done(version, upserts, deletes, change.whole)

    def _has_triggers(self, cursor: Cursor) -> bool:
        test = (
            "select exists (select from pg_trigger where tgrelid = {}::regclass and not "
            "tgisinternal and tgenabled <> 'D')"
        )
        return bool(_one(cursor, SQL(test), self._quoted))

    def _check_written(self, cursor: Cursor, names: Sequence[str]) -> None:
        """Check that no trigger changed the written rows. Raises WorkError."""
        test = SQL("select exists (select {0} from {1} except select {0} from {2})")
        if _one(cursor, test.format(_listed(names), STAGING, self.table)):
            raise WorkError(
                "HW_PUBLISH_TABLE",
                f"{self.place} has other rows than were written: a trigger of the table changes "
                "them. Nothing was published",
            )

    def _compare(self, cursor: Cursor, source: PublishedTable) -> TargetDifference | None:
        cursor.execute("set transaction isolation level repeatable read")
        before = self._published(cursor)
        if isinstance(before, str):
            return None
        names = [one.name for one in source.fields]
        if before.columns == source.position.columns:
            self._check_table(cursor, source, add=False)
        with source.at(before.version, csv_expressions(source.fields)) as rows:
            self._stage(cursor, STAGING, names, rows, source)
        listed = _listed(names)
        one, other = (SQL("select {} from {}").format(listed, t) for t in (STAGING, self.table))
        counted = SQL("select count(*) from ({} except all {}) as found")
        rows_there = _one(cursor, SQL("select count(*) from {}").format(STAGING))
        missing = _one(cursor, counted.format(one, other))
        return TargetDifference(
            before.version, rows_there, missing, _one(cursor, counted.format(other, one))
        )

    # -- statements ------------------------------------------------------------------------------

    def _lock(self, cursor: Cursor) -> None:
        """Lock out other publishers of the table."""
        held = "select pg_try_advisory_xact_lock(hashtextextended({}, 23))"
        if not _one(cursor, SQL(held), f"{STATE} {self._quoted}"):
            raise WorkError(
                "HW_PUBLISH_IN_USE",
                f"another headwaters publishes to {self.place}: wait for it, or stop it",
            )
        cursor.execute("select pg_advisory_xact_lock(hashtextextended(%s, 23))", (STATE,))
        if not _one(cursor, SQL("select to_regnamespace({}) is not null"), f'"{self.schema}"'):
            cursor.execute(SQL("create schema {}").format(Identifier(self.schema)))
        if not _one(cursor, SQL("select to_regclass({}) is not null"), self._state_name):
            cursor.execute(
                SQL(
                    "create table {} (target text primary key, relation oid not null, "
                    "model text not null, table_id text not null, version bigint not null, "
                    "commit text not null, columns text not null, "
                    "published_at timestamp with time zone not null)"
                ).format(self.state)
            )

    def _published(self, cursor: Cursor) -> Position | str:
        """Return the published position of the table, or the reason if it is unknown."""
        if not _one(cursor, SQL("select to_regclass({}) is not null"), self._state_name):
            return FIRST
        cursor.execute(
            SQL(
                "select relation is not distinct from to_regclass(%s)::oid, table_id, version, "
                "commit, columns from {} where target = %s"
            ).format(self.state),
            (self._quoted, self.name),
        )
        row = cursor.fetchone()
        if row is None:
            return FIRST
        return Position(*row[1:]) if row[0] else f"{self.place} was created again"

    def _create(self, cursor: Cursor, fields: Sequence[Field]) -> None:
        columns = [SQL("{} {}").format(Identifier(f.name), _type(f)) for f in fields]
        made = SQL("create table {} ({})").format(self.table, SQL(", ").join(columns))
        cursor.execute(made)

    def _index(self, cursor: Cursor, key: Sequence[str]) -> None:
        # a key may contain null, which is a distinct value in Delta
        text = "create unique index on {} ({}) nulls not distinct"
        cursor.execute(SQL(text).format(self.table, _listed(key)))

    def _check_table(self, cursor: Cursor, source: PublishedTable, add: bool) -> None:
        """Check that the table has the columns, and a unique index over the key.

        With `add`, for a table that was published before, add the missing columns.
        """
        self._check_writing(cursor)
        cursor.execute(
            "select attname, format_type(atttypid, atttypmod) from pg_attribute "
            "where attrelid = %s::regclass and attnum > 0 and not attisdropped",
            (self._quoted,),
        )
        held = dict(cursor.fetchall())
        wanted = {field.name: postgres_type(field.type) for field in source.fields}
        missing = [field for field in source.fields if field.name not in held]
        if add:
            for field in missing:
                altered = SQL("alter table {} add column {} {}")
                cursor.execute(altered.format(self.table, Identifier(field.name), _type(field)))
                held[field.name] = wanted[field.name]
        if held != wanted:
            differ = sorted(name for name in held | wanted if held.get(name) != wanted.get(name))
            said = ", ".join(
                f"{name} is {held.get(name) or 'missing'} and must be "
                f"{wanted.get(name) or 'dropped'}"
                for name in differ
            )
            raise UserError(
                "HW_PUBLISH_TABLE",
                f"{self.place} has other columns than {source.name}: {said}. Alter the table, or "
                "publish to another",
            )
        cursor.execute(
            "select array(select attname::text from pg_attribute where attrelid = indrelid and "
            "attnum = any(indkey[0:indnkeyatts - 1])) from pg_index where indrelid = %s::regclass "
            "and indisunique and indpred is null and indexprs is null and indisvalid and "
            "indimmediate and (indnullsnotdistinct or not exists (select from pg_attribute where "
            "attrelid = indrelid and attnum = any(indkey[0:indnkeyatts - 1]) and not attnotnull))",
            (self._quoted,),
        )
        if not any(set(row[0]) == set(source.key) for row in cursor.fetchall()):
            listed = _listed(source.key).as_string(cursor)
            raise UserError(
                "HW_PUBLISH_TABLE",
                f"{self.place} has no unique index over the key of {source.name}: create unique "
                f"index on {self.place} ({listed}) nulls not distinct",
            )

    def _check_writing(self, cursor: Cursor) -> None:
        """Check that the table will contain exactly the written rows. Raises UserError."""
        for query, said in (
            (
                "select tgname from pg_trigger where tgrelid = {}::regclass and not tgisinternal "
                "and tgenabled <> 'D' and tgtype & 3 = 3",
                "a BEFORE trigger, which may change what is written ({}): make it an AFTER "
                "trigger, or disable it",
            ),
            (
                "select rulename from pg_rewrite where ev_class = {}::regclass and ev_enabled "
                "<> 'D'",
                "a rule ({}), which changes what is written: drop it",
            ),
            (
                "select attname from pg_attribute where attrelid = {}::regclass and attnum > 0 and "
                "not attisdropped and (attgenerated <> '' or attidentity = 'a')",
                "a column whose values PostgreSQL generates ({}): drop the expression or identity",
            ),
            (
                "select attname from pg_attribute join pg_collation on pg_collation.oid = "
                "attcollation where attrelid = {}::regclass and attnum > 0 and not attisdropped "
                "and not collisdeterministic union select relname from pg_index join pg_class on "
                "pg_class.oid = indexrelid join pg_collation on pg_collation.oid = "
                "any(indcollation) where indrelid = {}::regclass and indisunique and not "
                "collisdeterministic",
                "a nondeterministic collation ({}), to which different texts are equal: use "
                "another for the column or index",
            ),
        ):
            cursor.execute(SQL(query).format(*[self._quoted] * query.count("{}")))
            if found := sorted(row[0] for row in cursor.fetchall()):
                text = f"{self.place} has {said.format(', '.join(found))}"
                raise UserError("HW_PUBLISH_TABLE", text)

    def _stage(
        self,
        cursor: Cursor,
        staging: Identifier,
        names: Sequence[str],
        rows: pa.RecordBatchReader,
        source: PublishedTable,
    ) -> None:
        cursor.execute(
            SQL(
                "drop table if exists pg_temp.{0}; create temporary table {0} on commit drop as "
                "select {1} from {2} with no data"
            ).format(staging, _listed(names), self.table)
        )
        if _copy(cursor, staging, names, rows, source):
            cursor.execute(SQL("analyze {}").format(staging))

    def _upsert(self, cursor: Cursor, names: Sequence[str], key: Sequence[str]) -> int:
        """Upsert the staged rows, without touching equal ones."""
        others = [name for name in names if name not in key]
        action: Composable = SQL("nothing")
        if others:
            sets = SQL(", ").join(SQL("{0} = excluded.{0}").format(Identifier(n)) for n in others)
            test = SQL(" or ").join(
                SQL("held.{0} is distinct from excluded.{0}").format(Identifier(n)) for n in others
            )
            action = SQL("update set {} where {}").format(sets, test)
        cursor.execute(
            SQL("insert into {} as held ({}) select {} from {} on conflict ({}) do {}").format(
                self.table, _listed(names), _listed(names), STAGING, _listed(key), action
            )
        )
        return cursor.rowcount

    def _delete(self, cursor: Cursor, staging: Identifier, key: Sequence[str], there: SQL) -> int:
        """Delete rows whose key is, or is not, in a staging table.

        Equality finds rows by hash or index; a second statement compares keys with nulls.
        """
        deleted = 0
        for test, joined, equal in (
            (SQL("{}.{} is not null"), SQL(" and "), SQL("staged.{0} = held.{0}")),
            (SQL("{}.{} is null"), SQL(" or "), SQL("staged.{0} is not distinct from held.{0}")),
        ):
            held, staged = (
                joined.join(test.format(SQL(table), Identifier(name)) for name in key)
                for table in ("held", "staged")
            )
            same = SQL(" and ").join(equal.format(Identifier(name)) for name in key)
            cursor.execute(
                SQL(
                    "delete from {} as held where ({}) and {} "
                    "(select from {} as staged where ({}) and {})"
                ).format(self.table, held, there, staging, staged, same)
            )
            deleted += cursor.rowcount
        return deleted

    # -- connections and errors ------------------------------------------------------------------

    @property
    def _quoted(self) -> str:
        return f'"{self.schema}"."{self.name}"'

    @property
    def _state_name(self) -> str:
        return f'"{self.schema}"."{STATE}"'

    def _patiently(self, source: PublishedTable, work: Callable[[Cursor], Result]) -> Result:
        """Do work in a transaction. If the server is away, retry until the patience ends.

        The published position shows whether a commit without an answer succeeded.
        """
        until = time.monotonic() + self.patience
        while True:
            try:
                with self._transaction() as cursor:
                    return work(cursor)
            except psycopg.Error as error:
                if not _away(error) or time.monotonic() > until:
                    raise self._said(error, source) from None
                time.sleep(_PAUSE)

    @contextmanager
    def _transaction(self) -> Iterator[Cursor]:
        url = self._url()
        try:
            conninfo_to_dict(url)
        except psycopg.ProgrammingError:  # its text has parts of the password
            raise UserError(
                "HW_NO_POSTGRES",
                f"{self.variable} is no address of PostgreSQL: write "
                "postgresql://user:password@host/database",
            ) from None
        # COPY sends UTF-8, regardless of the client encoding of database, role or address
        connection = psycopg.connect(
            url,
            connect_timeout=_MOMENT,
            application_name="headwaters publish",
            client_encoding="UTF8",
        )
        with connection, connection.cursor() as cursor:
            waits = max(1, int(self.patience * 1000))
            cursor.execute(SQL("set local lock_timeout = {}").format(waits))
            cursor.execute("set local datestyle = 'ISO, YMD'")
            cursor.execute("set local quote_all_identifiers = off")
            # otherwise rows hidden by a policy would remain and compare as equal; this raises an
            # error
            cursor.execute("set local row_security = off")
            yield cursor

    def _said(self, error: psycopg.Error, source: PublishedTable) -> CodedError:
        """Return PostgreSQL's error as one line, without values of rows."""
        state = error.sqlstate or ""
        reason = error.diag.message_primary or (str(error).strip() or "no answer").splitlines()[0]
        if state in ("21000", "23505"):
            return repeated_keys(
                source, f"{reason}, unless {self.place} has another unique constraint"
            )
        if state.startswith("22"):
            return WorkError(
                "HW_PUBLISH_VALUE",
                f"{source.name} has a value that {self.place} cannot take: {reason}. Nothing was "
                "written",
            )
        if state == "55P03":
            return WorkError(
                "HW_PUBLISH_LOCKED",
                f"{self.place} is locked by another session: see pg_locks. Nothing was written",
            )
        if _refused(error):
            return WorkError(
                "HW_POSTGRES",
                f"PostgreSQL ({self.variable}) refuses the connection: {reason}. Correct the user, "
                "the password or the database",
            )
        if _away(error) or not state:
            return WorkError(
                "HW_POSTGRES_AWAY", f"PostgreSQL ({self.variable}) does not answer: {reason}"
            )
        return WorkError("HW_POSTGRES", f"{self.place}: PostgreSQL refuses: {reason}")


# libpq's texts for refusals by the server, which carry no code; in English, the servers' default
_REFUSALS = (
    "authentication failed",
    "does not exist",
    "no password supplied",
    "pg_hba.conf",
    "not permitted to log in",
    "permission denied for database",
)


def _refused(error: psycopg.Error) -> bool:
    """Return true if the server answers and refuses the user."""
    if error.sqlstate:
        return error.sqlstate.startswith("28") or error.sqlstate == "3D000"
    return any(text in str(error) for text in _REFUSALS)


def _away(error: psycopg.Error) -> bool:
    """Return true if a retry may succeed: no connection, a restart, a deadlock."""
    if not isinstance(error, psycopg.OperationalError) or _refused(error):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("08", "40", "57P"))


def _copy(
    cursor: Cursor,
    table: Identifier,
    names: Iterable[str],
    rows: pa.RecordBatchReader,
    source: PublishedTable,
) -> int:
    """Write rows by COPY and return their number."""
    statement = SQL("copy {} ({}) from stdin (format csv)").format(table, _listed(names))
    with cursor.copy(statement) as copy:
        for part in csv_lines(rows, source):
            copy.write(part)
    return cursor.rowcount


def _one(cursor: Cursor, query: SQL | Composed, *values: str) -> Any:
    """Return the single value of a query."""
    cursor.execute(query.format(*values) if isinstance(query, SQL) else query)
    row = cursor.fetchone()
    assert row is not None
    return row[0]


def _listed(names: Iterable[str]) -> Composable:
    return SQL(", ").join(map(Identifier, names))


def _type(field: Field) -> SQL:
    return SQL(postgres_type(field.type))
