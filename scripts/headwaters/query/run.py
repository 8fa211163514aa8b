"""`headwaters sql`: statements on the engine of the lake, or on an embedded Spark.

The metastore learns the tables of streams at the start, so that they can be read before the first
`dbt run`.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from dbt.adapters.headwaters.session import OWN, server_ended, shared_session
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from headwaters.platform import engine
from headwaters.platform.engine import OF_THIS_LAKE
from headwaters.platform.errors import UserError, java_ended
from headwaters.platform.manifest import parse
from headwaters.platform.names import did_you_mean, misspelt
from headwaters.platform.project import Project
from headwaters.platform.spark_errors import is_unavailable, one_line
from headwaters.platform.spark_mistakes import of_typed_sql
from headwaters.platform.spark_version import UNKNOWN_TABLE
from headwaters.platform.sql import identifier, literal
from headwaters.query import prompt
from headwaters.query.printing import Form, show
from headwaters.query.statements import reads, split
from headwaters.streams.contract import Contract, parse_contract
from headwaters.streams.stream import Stream
from headwaters.tables.delta_log import exists

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class QueryOptions:
    """The options of the command."""

    form: Form = "table"
    limit: int | None = None
    write: bool = False
    yes: bool = False  # do not ask before a statement that writes


@dataclass(frozen=True)
class DeclaredTables:
    """The tables that the project declares, each with the command that makes it, and its streams.

    `columns` are the names of all declared columns.
    """

    made_by: Mapping[str, str] = field(default_factory=dict)
    columns: frozenset[str] = frozenset()
    contracts: tuple[Contract, ...] = ()


def run(project: Project, statement: str | None, options: QueryOptions) -> None:
    """Run a statement, those of standard input, or those that a person types."""
    if statement is None and not sys.stdin.isatty():
        statement = sys.stdin.read()
    statements = [] if statement is None else split(statement)
    for each in statements:
        check(each, options.write)
    with _opened(project) as shell:
        if statement is None:
            prompt.loop(
                lambda text: shell.each(split(text), options),
                project.local / "sql_history",
                [*shell.declared.made_by, *sorted(shell.declared.columns)],
            )
        else:
            shell.each(statements, options)


def check(statement: str, write: bool) -> None:
    """Raise UserError for a statement that writes, unless `--write` was given."""
    if not write and not reads(statement):
        short = " ".join(statement.split())[:40]
        near = misspelt(statement.split()[0], ["select", "with", "show", "describe"])
        hint = f", did you mean '{near}'?" if near else ":"
        raise UserError(
            "HW_READ_ONLY",
            f"`{short}` may write{hint} `headwaters sql` only reads. Add --write, which "
            "asks before it runs the statement, or quote a column of such a name in backquotes",
        )


@dataclass(frozen=True)
class _Shell:
    """A session, and the declarations that explain its errors."""

    spark: SparkSession
    declared: DeclaredTables
    lake: Path

    def each(self, statements: list[str], options: QueryOptions) -> None:
        """Run statements in order, and print their rows."""
        for statement in statements:
            check(statement, options.write)
            asks = not reads(statement) and not options.yes
            if asks and not typer.confirm(f"{statement}\nRun it?", err=True):
                raise UserError("HW_READ_ONLY", "not run")
            with self._coded(statement):
                frame = self.spark.sql(statement)
                show(frame, options.form, options.limit)

    @contextlib.contextmanager
    def _coded(self, statement: str) -> Iterator[None]:
        try:
            yield
        except (PySparkException, Py4JError, ConnectionError) as error:
            if ended := java_ended():
                raise ended from None
            if is_unavailable(error):
                raise server_ended(self.lake) from None
            if missing := not_found(one_line(error), self.declared):
                raise missing from None
            raise of_typed_sql(error, statement) from None


def not_found(text: str, declared: DeclaredTables) -> UserError | None:
    """Return the error for a table that Spark does not find, or None for another error."""
    found = re.search(UNKNOWN_TABLE, text)
    if found is None:
        return None
    name = found[1].replace("`", "").lower()
    if command := declared.made_by.get(name):
        return UserError("HW_NO_SUCH_TABLE", f"{name} does not exist yet: `{command}` makes it")
    hint = did_you_mean(name, declared.made_by) or ": `show tables in <schema>` lists those of one"
    return UserError("HW_NO_SUCH_TABLE", f"there is no table {name}{hint}")


@contextlib.contextmanager
def _opened(project: Project) -> Iterator[_Shell]:
    """Open a session on the lake's engine, or else an embedded Spark, with all streams."""
    credentials = project.credentials
    if credentials.method != "session":
        raise UserError(
            "HW_PROFILE",
            f"`headwaters sql` works on targets of method session, not {credentials.method}",
        )
    settings = dict(credentials.server_side_parameters)
    is_embedded = "spark.remote" not in settings
    if is_embedded and engine.find(project.local):
        settings, is_embedded = {"spark.remote": OF_THIS_LAKE}, False
    is_own = is_embedded or settings["spark.remote"] in OWN
    if is_embedded:
        typer.echo("starting Spark; `headwaters engine start` keeps one running", err=True)
    with contextlib.chdir(project.root), ThreadPoolExecutor(1) as beside:
        parsing = beside.submit(_declared, project)
        spark = shared_session(settings, credentials.folder)
        declared = parsing.result()
        if is_own:
            _adopt(spark, project, declared.contracts)
        yield _Shell(spark, declared, credentials.folder)


def _declared(project: Project) -> DeclaredTables:
    manifest = parse(project)
    made_by: dict[str, str] = {}
    columns: set[str] = set()
    contracts: list[Contract] = []
    for key, built in manifest.nodes.items():
        if key.startswith(("model.", "seed.", "snapshot.")):
            made_by[f"{built.schema}.{built.alias}".lower()] = f"dbt build --select {built.name}"
            columns |= set(built.columns)
    for source in manifest.sources.values():
        columns |= set(source.columns)
        if source.config.meta.get("stream") is not None and source.config.enabled:
            table = f"{source.schema}.{source.identifier}".lower()
            made = f"headwaters ingest --select {source.name}"
            made_by |= {table: made, f"{table}_quarantine": made}
            try:
                contracts.append(parse_contract(source.to_dict()))
            except UserError as error:
                typer.echo(f"headwaters: {error}", err=True)
    return DeclaredTables(made_by, frozenset(columns), tuple(contracts))


def _adopt(spark: SparkSession, project: Project, contracts: tuple[Contract, ...]) -> None:
    """Register the tables of streams that the metastore lacks, as `dbt run` would."""
    schemas: dict[str, set[str]] = {}
    for stream in (Stream.of(project, contract) for contract in contracts):
        schema = stream.contract.schema_name
        for table in filter(exists, (stream.bronze, stream.quarantine)):
            if schema not in schemas:
                spark.sql(f"create schema if not exists {identifier(schema)}")
                rows: list[Any] = spark.sql(f"show tables in {identifier(schema)}").collect()
                schemas[schema] = {row["tableName"].lower() for row in rows}
            if table.name.lower() not in schemas[schema]:
                name = f"{identifier(schema)}.{identifier(table.name)}"
                place = literal(str(table))
                spark.sql(f"create table if not exists {name} using delta location {place}")
