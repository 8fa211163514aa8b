"""Both sides of a review, built by dbt itself into schemas of the review's own.

A manifest says where each node's table is. Here the nodes that are built get schemas of the
review's, and the tables that they read stand for shallow clones at the versions that were newest
when the review began; so materializations, contracts and expectations run as in production.
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

from headwaters.errors import UserError, WorkError, first_line
from headwaters.incremental.commits import Commit, commits_of, retains
from headwaters.manifest import copied, run_dbt
from headwaters.project import Project
from headwaters.review.facts import Effort
from headwaters.review.schemas import RECORDS, Part, shortened
from headwaters.sql import identifier, literal

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

_MARK = "headwaters.review"
# By this tag dbt finds what it is to build. Other methods of selection also take what is in a
# folder of a node's name, and would build it in production.
_CHOSEN = "headwaters.review"
COMMITS = 1000  # of a table's history that are looked at
_LONGEST = 120  # characters of a schema's name; Hive's metastore takes 128
_RECORDS = "source.dbt_headwaters.ops."
# Review schemas are dropped by the first review after this time, in seconds.
KEPT = 7 * 86_400


class Spark:
    """Statements in the session that dbt uses as well."""

    def __init__(self, project: Project) -> None:
        """The session of a project's target. Raises UserError for one without sessions."""
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
        """The rows of a statement. Raises DbtRuntimeError, one line."""
        with contextlib.chdir(self._root):  # an embedded Spark takes the folder that it starts in
            try:
                return rows_of(self._settings, self._lake, sql)
            except DbtRuntimeError as error:
                raise DbtRuntimeError(without_values(first_line(error))) from None

    def tried(self, sql: str) -> str | None:
        """Run a statement; the line with which it failed, or None."""
        try:
            self.rows(sql)
        except DbtRuntimeError as error:
            return first_line(error)
        return None

    def history(self, table: str, limit: int) -> list[Commit]:
        """The newest commits of a table, newest first. Raises DbtRuntimeError."""
        rows = self.rows(f"describe history {table} limit {limit}")
        return commits_of(row.asDict() for row in rows)

    def newest(self, table: str) -> Commit | None:
        """The newest commit of a table; None where there is no such Delta table."""
        try:
            return self.history(table, 1)[0]
        except (DbtRuntimeError, IndexError):
            return None

    def reads(self, table: str, noted: Mapping[str, int], commits: Sequence[Commit]) -> bool:
        """Whether a noted commit is one of a table's newest, and its rows can still be read.

        Files that something else deleted are seen only where it is the first that is missing.
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
        """Columns and their types, in order. Raises DbtRuntimeError."""
        found: dict[str, str] = {}
        for row in self.rows(f"describe table {table}"):
            if not row[1]:  # the columns end, and what follows has a head
                break
            found.setdefault(row[0], row[1])
        return found

    def properties(self, table: str) -> dict[str, str]:
        """The properties of a table."""
        return {row[0]: row[1] for row in self.rows(f"show tblproperties {table}")}

    def derived_key(self, table: str) -> tuple[str, ...]:
        """The key that was derived from the SQL that built a table; empty where none was."""
        try:
            noted = json.loads(self.properties(table).get("headwaters.proof") or "null")
        except (DbtRuntimeError, ValueError):
            return ()
        return tuple(noted.get("unique_key") or ()) if isinstance(noted, dict) else ()


@dataclass(frozen=True)
class Schemas:
    """The schemas of one review: `review_<branch>__<part>_<schema>`."""

    slug: str
    _made: set[str] = field(default_factory=set)

    def name(self, part: Part, schema: str) -> str:
        """The schema that stands for one of production's."""
        return shortened(f"{self.prefix}{part}_{schema}", _LONGEST)

    @property
    def records(self) -> str:
        """The schema in which the review's runs note what they did."""
        return f"{self.prefix}{RECORDS}"

    @property
    def prefix(self) -> str:
        """What the names of all of them begin with."""
        return f"review_{self.slug}__"

    def make(self, spark: Spark, name: str) -> None:
        """Make one that is empty, with the mark by which it is known later."""
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
    """Drop review schemas: of a prefix, or older than seconds. Only those with a review's mark.

    The answer are those that could not be dropped, and why: they are somebody else's, say.
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
    """When a review made a schema, in seconds since 1970; None of a schema that none made."""
    try:
        rows = spark.rows(f"describe schema extended {identifier(schema)}")
    except DbtRuntimeError:
        return None  # another review has dropped it meanwhile
    for row in rows:
        if row[0] == "Properties":
            found = re.search(rf"\({re.escape(_MARK)}\.at,\s*(\d+)\)", str(row[1]))
            return int(found[1]) if found else None
    return None


@dataclass(frozen=True)
class Pinned:
    """The tables that a review reads, and why some are not pinned.

    `versions`: by their names in production in lower case, as the var `headwaters_pins` has them.
    """

    versions: Mapping[str, Mapping[str, int]]
    problems: Mapping[str, str]

    def of(self, table: str) -> Mapping[str, int] | None:
        """The version at which a table is read; None of one that is not pinned."""
        return self.versions.get(table.lower())


def pin(
    spark: Spark, tables: Iterable[str], applied: Mapping[str, Sequence[Mapping[str, int]]]
) -> Pinned:
    """The version of each table that production's tables have applied; else the newest.

    `applied`: what each of those that read a table has applied, by its name in lower case.
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
    """Shallow clones of nodes' tables at their versions: the schema of each, by the node's id.

    What cannot be cloned is left out, and read where it is; `problems` says why, by table.
    `cloned`: the clones that are there, to which those that are made are added.
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
    """A copy of a manifest with nodes in other schemas, by their ids; without hooks.

    A hook or a `location_root` would write to production. `records`: the schema in which runs note
    what they did, such as the rows that do not meet an expectation.
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
            extra = getattr(node.config, "_extra", {})
            extra.pop("location_root", None)
            if hasattr(node.config, "location_root"):
                node.config.location_root = None
    made.build_flat_graph()  # type: ignore[no-untyped-call]  # what macros see as `graph`
    return made


def moved(table: str, schema: str) -> str:
    """The name of a table in another schema, quoted as before."""
    head, dot, name = table.rpartition(".")
    quote = "`" if head.endswith("`") else ""
    return f"{quote}{schema}{quote}{dot}{name}"


@dataclass(frozen=True)
class Outcome:
    """What dbt said of one node: `message` is its line, `seconds` the time that it took."""

    status: str
    message: str
    seconds: float
    response: Mapping[str, Any]

    @property
    def is_built(self) -> bool:
        """Whether the node did what it should."""
        return self.status in ("success", "pass", "warn", "no-op")

    @property
    def effort(self) -> Effort:
        """What it took."""
        written = self.response.get("bytes_written")
        return Effort(
            round(self.seconds, 1) if self.is_built else None,
            None if written is None else int(written),
        )

    @property
    def did(self) -> str:
        """What a run of a strategy of ours did: `skip`, `append`, `merge`, `patch` or `replace`."""
        return str(self.response.get("code") or "")


def told(message: str) -> str:
    """What dbt says of a node, in one line, without what a reader of a comment has already."""
    plain = _COLOURS.sub("", message)  # of dbt's unit tests
    text = " ".join(line.strip() for line in plain.splitlines() if not _MORE.search(line))
    return without_values(_WHERE.sub("", " ".join(text.split())))


_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_MORE = re.compile(r"^\s*(?:\(more in .*\)|> in macro .*|> called by .*|compiled code at .*)$")
_WHERE = re.compile(r"^\w+ Error in \w+ \S+ \([^)]*\) ")


def without_values(message: str) -> str:
    """What Spark or a strategy says, without values of rows: a comment would show them to all.

    Conditions of SQL's classes 22 (data exception) and 23 (violated constraint), and what SQL
    raises itself, tell of rows; all others tell of statements.
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
    """The options of a dbt that writes its files where nobody looks for them."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(project.root):
        yield ["--target-path", folder, "--log-path", folder]


def run(
    project: Project,
    manifest: Manifest,
    command: Sequence[str],
    keys: Iterable[str],
    pins: Mapping[str, Any] | None = None,
) -> dict[str, Outcome]:
    """Run dbt over some nodes of a manifest; what became of each node that it ran, by id.

    Raises UserError where dbt did not get as far as its nodes.
    """
    chosen = set(keys)
    if not chosen:
        return {}
    for key, node in manifest.nodes.items():
        others = [tag for tag in node.tags if tag != _CHOSEN]
        node.tags = [*others, _CHOSEN] if key in chosen else others
    pinned = ["--vars", json.dumps({"headwaters_pins": pins})] if pins else []
    with _aside(project) as options:
        # of the schemas of all other nodes dbt would list every table, each time
        options += ["--cache-selected-only"]
        arguments = [*command, "--select", f"tag:{_CHOSEN}", *options, *pinned]
        result = run_dbt(project, arguments, manifest)
    if result.exception is not None and result.result is None:
        said = " ".join(str(result.exception).split())
        raise UserError("HW_PROJECT", f"dbt {command[0]} in the review: {said}")
    return {
        one.node.unique_id: Outcome(
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
    """What `explain_refresh` prints of a model over production; None where it says nothing."""
    printed: list[str] = []

    def listen(event: Any) -> None:
        if event.info.name == "PrintEvent":
            printed.append(event.info.msg)

    arguments = ["run-operation", "explain_refresh", "--args", json.dumps({"model": model})]
    with _aside(project) as options:
        result = run_dbt(project, [*arguments, *options], manifest, listen)
    return "\n".join(printed) if result.success else None
