"""Builds of both sides, by dbt itself, in schemas that belong to the review.

A manifest names the table of each node. The review moves the nodes that it builds to schemas of the
review. The tables that they read become shallow clones, at the versions that were newest when the
review began. Materializations, contracts and expectations therefore run as in production.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dbt.adapters.headwaters.session import rows_of
from dbt_common.exceptions import DbtRuntimeError

from headwaters.platform.dbt_compat import copied, forget_setting
from headwaters.platform.errors import UserError, WorkError, first_line
from headwaters.platform.manifest import run_dbt
from headwaters.platform.project import Project
from headwaters.platform.review_schemas import RECORDS, Part, shortened
from headwaters.platform.sql import identifier, literal
from headwaters.platform.waiting import during
from headwaters.review.facts import Effort
from headwaters.tables.commits import Commit, commits_of, retains

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

_MARK = "headwaters.review"
# dbt selects the nodes to build by this tag. Other selection methods also match folders named like
# a node, and would build the nodes of that folder in production.
_CHOSEN = "headwaters.review"
COMMITS = 1000  # the review reads this many commits of a table's history
_LONGEST = 120  # characters of a schema name; Hive's metastore allows 128
_RECORDS = "source.dbt_headwaters.ops."
# Seconds after which the next review drops a review's schemas.
KEPT = 86_400


class Spark:
    """A runner of statements in dbt's own session."""

    def __init__(self, project: Project) -> None:
        """Open the session of a project's target. Raises UserError if the target has no session."""
        credentials = project.credentials
        if credentials.method != "session":
            raise UserError(
                "HW_PROFILE",
                f"a review works on targets of method session, not {credentials.method}",
            )
        self._settings = dict(credentials.server_side_parameters)
        self._lake = credentials.folder
        self._root = project.root

    def rows(self, sql: str) -> list[Any]:
        """Return the rows of a statement. Raises DbtRuntimeError with a one-line message."""
        with contextlib.chdir(self._root):  # embedded Spark uses the current folder
            try:
                return rows_of(self._settings, self._lake, sql)
            except DbtRuntimeError as error:
                raise DbtRuntimeError(without_values(first_line(error))) from None

    def tried(self, sql: str) -> str | None:
        """Run a statement and return None, or the one-line error if it fails."""
        try:
            self.rows(sql)
        except DbtRuntimeError as error:
            return first_line(error)
        return None

    def history(self, table: str, limit: int) -> list[Commit]:
        """Return the newest commits of a table, newest first. Raises DbtRuntimeError."""
        rows = self.rows(f"describe history {table} limit {limit}")
        return commits_of(row.asDict() for row in rows)

    def newest(self, table: str) -> Commit | None:
        """Return the newest commit of a table, or None if no such Delta table exists."""
        try:
            return self.history(table, 1)[0]
        except (DbtRuntimeError, IndexError):
            return None

    def reads(self, table: str, noted: Mapping[str, int], commits: Sequence[Commit]) -> bool:
        """Return true if a noted commit is one of the newest, and its rows can still be read.

        Of files that another program deleted, the check notices only the first one missing.
        """
        if commits[0].is_same(noted):
            return True
        if not any(commit.is_same(noted) for commit in commits):
            return False
        version = noted["version"]
        if not retains(commits, version):
            return False
        return self.tried(f"select 1 from {table} version as of {version} limit 1") is None

    def columns(self, table: str) -> dict[str, str]:
        """Return the columns and their types, in order. Raises DbtRuntimeError."""
        found: dict[str, str] = {}
        for row in self.rows(f"describe table {table}"):
            if not row[1]:  # an empty row ends the columns; the next section has a header
                break
            found.setdefault(row[0], row[1])
        return found

    def properties(self, table: str) -> dict[str, str]:
        """Return the properties of a table."""
        return {row[0]: row[1] for row in self.rows(f"show tblproperties {table}")}

    def derivation(self, table: str) -> dict[str, Any] | None:
        """Return the derivation of the SQL that built a table, or None if it notes none."""
        try:
            noted = json.loads(self.properties(table).get("headwaters.proof") or "null")
        except (DbtRuntimeError, ValueError):
            return None
        return noted if isinstance(noted, dict) else None

    def derived_key(self, table: str) -> tuple[str, ...]:
        """Return the key derived from the SQL that built a table, or an empty tuple."""
        return tuple((self.derivation(table) or {}).get("unique_key") or ())


@dataclass(frozen=True)
class Schemas:
    """The schemas of one review: `review_<branch>__<part>_<schema>`."""

    slug: str
    _made: set[str] = field(default_factory=set)

    def name(self, part: Part, schema: str) -> str:
        """Return the review's counterpart of a production schema."""
        return shortened(f"{self.prefix}{part}_{schema}", _LONGEST)

    @property
    def records(self) -> str:
        """Return the schema for the notes that the review's runs write."""
        return f"{self.prefix}{RECORDS}"

    @property
    def prefix(self) -> str:
        """Return the prefix that the names of all the review's schemas share."""
        return f"review_{self.slug}__"

    def make(self, spark: Spark, name: str) -> None:
        """Create an empty schema, marked so that later reviews recognize it."""
        if name in self._made:
            return
        marks = f"{literal(_MARK)} = {literal(self.slug)}, {literal(f'{_MARK}.at')}"
        failed = spark.tried(
            f"create schema if not exists {identifier(name)}"
            f" with dbproperties ({marks} = '{int(time.time())}')"
        )
        if failed:
            raise WorkError(
                "HW_REVIEW_SCHEMA",
                f"the review cannot create {name}: {failed}. Let the profile's user create "
                "schemas, and see that the lake has room",
            )
        self._made.add(name)


def clean(spark: Spark, prefix: str, older_than: int | None = None) -> dict[str, str]:
    """Drop review schemas with a prefix, or older than some seconds. Unmarked schemas stay.

    Returns the schemas that could not be dropped, each with the reason, for example another owner.
    """
    left: dict[str, str] = {}
    of_all = "review_" if older_than is not None else prefix
    for row in spark.rows(f"show schemas like {literal(of_all + '*')}"):
        name = str(row[0])
        made = _made_at(spark, name)
        if made is None:
            continue
        is_old = older_than is not None and time.time() - made > older_than
        if is_old or (prefix and name.startswith(prefix)):
            failed = spark.tried(f"drop schema if exists {identifier(name)} cascade")
            if failed:
                left[name] = failed
    return left


def _made_at(spark: Spark, schema: str) -> int | None:
    """Return when a review made a schema, in seconds since 1970, or None for any other schema."""
    try:
        rows = spark.rows(f"describe schema extended {identifier(schema)}")
    except DbtRuntimeError:
        return None  # another review has just dropped it
    for row in rows:
        if row[0] == "Properties":
            found = re.search(rf"\({re.escape(_MARK)}\.at,\s*(\d+)\)", str(row[1]))
            return int(found[1]) if found else None
    return None


@dataclass(frozen=True)
class Pinned:
    """The versions at which a review reads tables, and why some tables are not pinned.

    `versions` has lower-case names of production's tables, in the form of the var
    `headwaters_pins`.
    """

    versions: Mapping[str, Mapping[str, int]]
    problems: Mapping[str, str]

    def of(self, table: str) -> Mapping[str, int] | None:
        """Return the pinned version of a table, or None if it is not pinned."""
        return self.versions.get(table.lower())


def pin(
    spark: Spark, tables: Iterable[str], applied: Mapping[str, Sequence[Mapping[str, int]]]
) -> Pinned:
    """Pin each table to the version that production's tables have applied, or to the newest.

    `applied` has, by a table's lower-case name, the applied versions of each of its readers.
    """
    versions: dict[str, Mapping[str, int]] = {}
    problems: dict[str, str] = {}
    for table in sorted(set(tables)):
        try:
            noted = applied.get(table.lower(), ())
            commits = spark.history(table, COMMITS if noted else 1)
            versions[table.lower()] = {"version": commits[0].version, "at": commits[0].at}
            are_one = noted and all(one == noted[0] for one in noted)
            if are_one and spark.reads(table, noted[0], commits):
                versions[table.lower()] = noted[0]
        except (DbtRuntimeError, IndexError) as error:
            problems[table] = first_line(error)
    return Pinned(versions, problems)


def clone_inputs(
    spark: Spark,
    schemas: Schemas,
    nodes: Mapping[str, Any],
    pinned: Pinned,
    problems: dict[str, str],
    cloned: set[str],
) -> dict[str, str]:
    """Clone the tables of nodes at their versions, and return the schema of each clone by node id.

    A table that cannot be cloned is left out and read in production; `problems` gets the reason, by
    table. `cloned` has the existing clones and receives the new ones.
    """
    places: dict[str, str] = {}
    for key, node in nodes.items():
        table = str(node.relation_name)
        version = pinned.of(table)
        if version is None or table in problems:
            continue
        schema = schemas.name("in", node.schema)
        place = moved(table, schema)
        if place not in cloned:
            schemas.make(spark, schema)
            failed = spark.tried(
                f"create table if not exists {place}"
                f" shallow clone {table} version as of {version['version']}"
            )
            if failed:
                problems[table] = failed
                continue
            cloned.add(place)
        places[key] = schema
    return places


def redirected(
    manifest: Manifest, places: Mapping[str, str], records: str | None = None
) -> Manifest:
    """Return a copy of a manifest with nodes in other schemas, by node id, and without hooks.

    A hook or a `location_root` would write to production. `records` is the schema for the notes of
    runs, such as rows that do not meet an expectation.
    """
    made = copied(manifest)
    if records is not None:
        noted = (key for key in made.sources if key.startswith(_RECORDS))
        places = {**dict.fromkeys(noted, records), **places}
    for key in [key for key, node in made.nodes.items() if str(node.resource_type) == "operation"]:
        del made.nodes[key]
    for test in made.nodes.values():
        if str(test.resource_type) == "test":
            vars(test.config).update(store_failures=False, store_failures_as=None)
    for key, schema in places.items():
        node: Any = made.nodes.get(key) or made.sources.get(key)
        if node is None:
            continue
        if node.relation_name:
            node.relation_name = moved(str(node.relation_name), schema)
        node.schema = schema
        if node.resource_type != "source":
            node.config.pre_hook = []
            node.config.post_hook = []
            node.config.grants = {}
            forget_setting(node.config, "location_root")
    made.build_flat_graph()  # type: ignore[no-untyped-call]  # what macros see as `graph`
    return made


def moved(table: str, schema: str) -> str:
    """Return the name of a table in another schema, quoted in the same way."""
    head, dot, name = table.rpartition(".")
    quote = "`" if head.endswith("`") else ""
    return f"{quote}{schema}{quote}{dot}{name}"


@dataclass(frozen=True)
class BuildOutcome:
    """dbt's result for one node: `message` is its line, `seconds` its duration."""

    status: str
    message: str
    seconds: float
    response: Mapping[str, Any]

    @property
    def is_built(self) -> bool:
        """Return true if the node succeeded."""
        return self.status in ("success", "pass", "warn", "no-op")

    @property
    def effort(self) -> Effort:
        """Return the cost of the run."""
        written = self.response.get("bytes_written")
        return Effort(
            round(self.seconds, 1) if self.is_built else None,
            None if written is None else int(written),
        )

    @property
    def did(self) -> str:
        """Return the action of the run: `skip`, `append`, `merge`, `patch` or `replace`."""
        return str(self.response.get("code") or "")


def told(message: str) -> str:
    """Return dbt's message in one line, without the parts that the comment already shows."""
    plain = _COLOURS.sub("", message)  # dbt colours the output of unit tests
    text = " ".join(line.strip() for line in plain.splitlines() if not _MORE.search(line))
    return without_values(_WHERE.sub("", " ".join(text.split())))


_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_MORE = re.compile(r"^\s*(?:\(more in .*\)|> in macro .*|> called by .*|compiled code at .*)$")
_WHERE = re.compile(r"^\w+ Error in \w+ \S+ \([^)]*\) ")


def without_values(message: str) -> str:
    """Return an error message without values of rows, which a public comment must not show.

    Error conditions of SQL classes 22 (data exception) and 23 (violated constraint), and errors
    that SQL itself raises, contain values of rows. All other conditions describe statements.
    """
    said = _REPEATED.sub(r"\1 some keys\2", message)
    if said != message:
        return said
    return _OF_ROWS.sub(
        r"[\1] in a row (SQLSTATE \2; the rest of the message may have values)", message
    )


_REPEATED = re.compile(r"(gives more than one row for) .*(\. The table was left as it is)")
_OF_ROWS = re.compile(r"\[([A-Z][\w.]+)\].*SQLSTATE: ((?:22|23|P0)\w{3})", re.DOTALL)


@contextlib.contextmanager
def _aside(project: Project) -> Iterator[list[str]]:
    """Yield dbt options that send dbt's files to a temporary folder."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(project.root):
        yield ["--target-path", folder, "--log-path", folder]


def run(
    project: Project,
    manifest: Manifest,
    command: Sequence[str],
    keys: Iterable[str],
    pins: Mapping[str, Any] | None = None,
) -> dict[str, BuildOutcome]:
    """Run dbt over some nodes of a manifest. Return the outcome of each node that ran, by id.

    Raises UserError if dbt fails before it runs the first node.
    """
    chosen = set(keys)
    if not chosen:
        return {}
    for key, node in manifest.nodes.items():
        others = [tag for tag in node.tags if tag != _CHOSEN]
        node.tags = [*others, _CHOSEN] if key in chosen else others
    pinned = ["--vars", json.dumps({"headwaters_pins": pins})] if pins else []
    ended: list[str] = []
    with _aside(project) as options, during(f"{command[0]}: 0 of {len(chosen)} done") as tell:
        # otherwise dbt lists all tables in the schemas of all other nodes, on each run
        options += ["--cache-selected-only"]
        arguments = [*command, "--select", f"tag:{_CHOSEN}", *options, *pinned]

        def listen(event: Any) -> None:
            if event.info.name == "NodeFinished":
                ended.append(event.data.node_info.node_name)
                tell(f"{command[0]}: {len(ended)} of {len(chosen)} done, last {ended[-1]}")

        result = run_dbt(project, arguments, manifest, listen)
    if result.exception is not None and result.result is None:
        said = " ".join(str(result.exception).split())
        raise UserError("HW_PROJECT", f"dbt {command[0]} in the review: {said}")
    return {
        one.node.unique_id: BuildOutcome(
            str(one.status),
            told(str(one.message or "")),
            float(one.execution_time),
            dict(one.adapter_response or {}),
        )
        for one in (result.result.results if result.result else ())
    }


BUILD = (
    "build",
    "--resource-type",
    "model",
    "--resource-type",
    "seed",
    "--resource-type",
    "snapshot",
)


def explained(project: Project, manifest: Manifest, model: str) -> str | None:
    """Return the output of `explain_refresh` for a model in production, or None if it is empty."""
    printed: list[str] = []

    def listen(event: Any) -> None:
        if event.info.name == "PrintEvent":
            printed.append(event.info.msg)

    arguments = ["run-operation", "explain_refresh", "--args", json.dumps({"model": model})]
    with _aside(project) as options:
        result = run_dbt(project, [*arguments, *options], manifest, listen)
    return "\n".join(printed) if result.success else None
