"""`headwaters explain`: the next run of each model, its reason and its predicted cost."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

from jinja2.filters import do_filesizeformat
from rich.console import Console
from rich.table import Table

from headwaters.analysis import parts_of, strategy_of
from headwaters.platform.errors import UserError
from headwaters.platform.manifest import compiled, parse, run_dbt, selected
from headwaters.platform.names import or_nearest
from headwaters.platform.nodes import Node, table_name
from headwaters.platform.places import Place, is_readable
from headwaters.platform.project import Project
from headwaters.platform.waiting import during
from headwaters.report.facts import prediction
from headwaters.report.tables import runs_of
from headwaters.tables.delta_log import State, state
from headwaters.tables.table_folders import table_folders

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

_UNCUT = 10_000  # columns of a pipe or a file: names are whole there
_MACRO = "hw_planned_runs"
_TABLES = ("model", "seed", "snapshot", "source")
# Actions that change no row of a table.
_STILL = ("no changes", "view", "refused")
States = Callable[[str], State | None]


@dataclass(frozen=True)
class PredictedCost:
    """The predicted cost of a run; None is unknown.

    `reads_rows` and `reads_bytes` are those of the inputs' pending commits, or of all inputs if the
    run computes the whole table. `writes_bytes` is the size of the written rows.
    """

    reads_rows: int | None = None
    reads_bytes: int | None = None
    writes_bytes: int | None = None


@dataclass(frozen=True)
class ExplainedRun:
    """The next run of a model, or the next load of a seed.

    `action` is that of headwaters.report.planned_runs, or `follow`: the model has no changes before
    the runs of the models and seeds in `after`. `changed_rows` counts the rows of the inputs'
    pending commits at most, and `table_rows` those of the model's table. `may_replace`: Spark
    decides between the action and a replacement.
    """

    name: str
    table: str
    strategy: str
    action: str
    reason: str
    after: tuple[str, ...]
    changed_rows: int | None
    table_rows: int | None
    cost: PredictedCost
    may_replace: bool = False


def explain(project: Project, select: Sequence[str], exclude: Sequence[str]) -> list[ExplainedRun]:
    """Return the next runs of the selected models, in their order, with seeds to load.

    Starts no Spark.

    Raises UserError if another Spark has the tables or the selection has no model, WorkError for a
    damaged log.
    """
    _check_readable(project)
    with contextlib.chdir(project.root):  # dbt changes to this folder, and stays
        manifest = parse(project)
        found = compiled(project, manifest)
        chosen = selected(project, manifest, select, exclude) if select or exclude else None
        models = {k: node for k, node in found.nodes.items() if node["resource_type"] == "model"}
        if select and chosen is not None and not chosen & models.keys():
            wanted, names = " ".join(select), [str(node["name"]) for node in models.values()]
            raise UserError("HW_NO_SUCH_MODEL", f"no model in {wanted}{or_nearest(wanted, names)}")
        nodes = [node for node in found.nodes.values() if node["resource_type"] in _TABLES]
        tables = {table_name(node).lower(): node for node in nodes}
        folders = {
            name: folder
            for name, folder in table_folders(project.warehouse, tables).items()
            if (folder / "_delta_log").is_dir()
        }
        states = _reader(folders)
        for name in tables:
            states(name)  # a damaged log is an error before any run is planned
        planned = without_plan(models, found.refused)
        left = sorted(models.keys() - planned.keys())
        seeds = {k: node for k, node in found.nodes.items() if node["resource_type"] == "seed"}
        planned |= _planned(project, manifest, left, sorted(seeds), folders)
    loads = {k: node for k, node in seeds.items() if planned[k]["action"] != "no changes"}
    runs = explained(models, planned, states, loads)
    return [run for key, run in runs.items() if chosen is None or key in chosen]


def _reader(folders: Mapping[str, Place]) -> States:
    """Return the function that reads the state of a table, each once."""

    @functools.cache
    def read(name: str) -> State | None:
        return state(folders[name]) if name in folders else None

    return lambda table: read(".".join(parts_of(table)))


def _check_readable(project: Project) -> None:
    """Raise UserError if another Spark has the tables, in a place that the target does not name."""
    credentials = project.credentials
    settings = credentials.server_side_parameters
    elsewhere = None
    if credentials.method != "session":
        elsewhere = f"a Spark of method {credentials.method}"
    elif not is_readable(named := settings.get("spark.sql.warehouse.dir", "")):
        elsewhere = named
    elif "spark.remote" in settings and not project.warehouse.is_dir():
        elsewhere = settings["spark.remote"]
    if elsewhere:
        raise UserError(
            "HW_TABLES_ELSEWHERE",
            f"explain reads the logs of tables, and the target {project.target_name} has its "
            f"tables in {elsewhere}: put the `lake` of that Spark into the target, choose another "
            "target with --target, or run `dbt run-operation explain_refresh`, which asks Spark "
            "for one model",
        )


def without_plan(
    models: Mapping[str, Node], refused: Mapping[str, str]
) -> dict[str, Mapping[str, Any]]:
    """Return the next runs of the models that no strategy maintains, by id.

    `refused` has the reason for each model without compiled SQL.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for key, node in models.items():
        config = node["config"]
        materialized, strategy = config["materialized"], config.get("incremental_strategy")
        if materialized == "view":
            found[key] = {"action": "view", "reason": "its rows are computed when it is read"}
        elif materialized == "incremental" and not strategy_of(config):
            reason = f"{strategy} is dbt's own strategy" if strategy else "it names no strategy"
            found[key] = {"action": "unknown", "reason": reason}
        elif materialized not in ("incremental", "ephemeral"):
            found[key] = {"action": "replace", "reason": f"materialized: {materialized}"}
        elif node["language"] == "python":
            found[key] = {"action": "replace", "reason": "no rule says what Python code reads"}
        elif key in refused:
            found[key] = {"action": "unknown", "reason": refused[key]}
    return found


def _planned(
    project: Project,
    manifest: Manifest,
    models: Sequence[str],
    seeds: Sequence[str],
    folders: Mapping[str, Place],
) -> dict[str, Mapping[str, Any]]:
    """Return the planned runs of models and seeds by id, by the adapter in dbt's context."""
    printed: list[str] = []

    def listen(event: Any) -> None:
        if event.info.name == "PrintEvent":
            printed.append(event.info.msg)

    tables = {name: str(folder) for name, folder in folders.items()}
    arguments = json.dumps({"models": models, "seeds": seeds, "tables": tables})
    manifest.build_flat_graph()  # type: ignore[no-untyped-call]  # what macros see as `graph`
    with during("planning the runs"):
        result = run_dbt(project, ["run-operation", _MACRO, "--args", arguments], manifest, listen)
    if not result.success:
        raise UserError("HW_PROJECT", f"dbt cannot plan the runs: {result.exception}")
    return {one["unique_id"]: one for one in json.loads("".join(printed))}


def explained(
    models: Mapping[str, Node],
    planned: Mapping[str, Mapping[str, Any]],
    states: States,
    loads: Mapping[str, Node] | None = None,
) -> dict[str, ExplainedRun]:
    """Return the next runs of models with their costs, by id, in the order of their runs.

    An ephemeral model has no run. `planned` has the others by id, and `states` reads the log of a
    table. `loads` are the seeds with a run.
    """
    nodes = {**models, **(loads or {})}
    above = {key: [one for one in _parents(node) if one in nodes] for key, node in nodes.items()}
    order = TopologicalSorter({key: sorted(above[key]) for key in sorted(above)}).static_order()
    moving: dict[str, tuple[str, ...]] = {}  # the models whose runs change the rows that one reads
    found: dict[str, ExplainedRun] = {}
    for key in order:
        node = nodes[key]
        after = tuple(dict.fromkeys(name for parent in above[key] for name in moving[parent]))
        if node["config"]["materialized"] == "ephemeral":
            moving[key] = after
            continue
        run = _with_cost(node, planned[key], after, states)
        if run.action == "follow" and (lookup := _moving_lookup(planned[key], after, found)):
            then = f"if rows of the lookup {lookup} change, the whole table is computed"
            run = replace(run, reason=f"{run.reason}; {then}")
        found[key] = run
        is_view = run.action == "view"
        moving[key] = after if is_view else (run.name,) if run.action not in _STILL else ()
    return found


def _moving_lookup(
    planned: Mapping[str, Any], after: tuple[str, ...], found: Mapping[str, ExplainedRun]
) -> str | None:
    """Return a lookup of the model that a run before it changes."""
    lookups = {parts_of(name) for name in planned.get("lookups", ())}
    moving = (run for run in found.values() if run.name in after)
    return next((run.name for run in moving if parts_of(run.table) in lookups), None)


def _parents(node: Node) -> Sequence[str]:
    return tuple(node.get("depends_on", {}).get("nodes", ()))


def _with_cost(
    node: Node, planned: Mapping[str, Any], after: tuple[str, ...], states: States
) -> ExplainedRun:
    table, action, reason = table_name(node), str(planned["action"]), str(planned["reason"])
    own, pending, rows = states(table), planned.get("pending", ()), planned.get("rows")
    if after and action == "no changes":
        action, reason = "follow", f"after {', '.join(after)}"
    elif after and action not in ("replace", "first build", "view", "refused"):
        reason = f"{reason}; more after {', '.join(after)}"
    is_still = action in (*_STILL, "follow", "unknown", "load") or "pending" not in planned
    if planned.get("is_whole"):
        read_rows, read_bytes = _whole([states(name) for name in planned["reads"]])
    else:
        read_rows = None if is_still else _sum(one["rows"] for one in pending)
        read_bytes = None if is_still else _sum(_pending_bytes(one, states) for one in pending)
    written = None if is_still or own is None else _written(own, action, rows)
    return ExplainedRun(
        name=str(node["name"]),
        table=table,
        strategy=str(planned.get("strategy") or node["config"]["materialized"]),
        action=action,
        reason=reason,
        after=after,
        changed_rows=None if rows is None else _sum(one["rows"] for one in pending),
        table_rows=own.rows if own else None,
        cost=PredictedCost(read_rows, read_bytes, written),
        may_replace=bool(planned.get("may_replace")),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Return the sum, or None if a number is unknown."""
    found = list(numbers)
    return None if None in found else sum(number for number in found if number is not None)


def _whole(states: Sequence[State | None]) -> tuple[int | None, int | None]:
    """Return the rows and bytes of whole tables, or None if a table or its count is unknown."""
    if not states:
        return None, None
    rows = _sum(one.rows if one else None for one in states)
    return rows, _sum(sum(one.sizes) if one else None for one in states)


def _pending_bytes(pending: Mapping[str, Any], states: States) -> int | None:
    """Return the bytes that pending commits have added, or None if the log does not reach back."""
    read = states(pending["source"])
    if read is None or not read.commits or read.commits[-1].commit.version > pending["applied"] + 1:
        return None
    commits = [one for one in read.commits if pending["applied"] < one.commit.version]
    return sum(one.bytes_added for one in commits if one.rows)


def _written(own: State, action: str, rows: int | None) -> int | None:
    """Predict the bytes that a run writes, by earlier runs of the same way."""
    if action == "replace" and own.rows is not None:
        return sum(own.sizes)
    expected = prediction(runs_of(own), action, rows) if rows else None
    return None if expected is None else round(expected)


def refused(runs: Iterable[ExplainedRun]) -> bool:
    """Return true if a run would be refused."""
    return any(run.action == "refused" for run in runs)


def show(runs: Sequence[ExplainedRun], console: Console | None = None) -> None:
    """Print one line for each model."""
    table = Table(box=None, pad_edge=False)
    for title in ("model", "next run"):
        table.add_column(title, overflow="fold")
    for title in ("changed", "reads", "writes", "rows"):
        table.add_column(title, justify="right", overflow="fold")
    table.add_column("why", overflow="fold")
    for run in runs:
        table.add_row(
            run.name,
            run.action,
            _count(run.changed_rows),
            _size(run.cost.reads_bytes),
            _size(run.cost.writes_bytes),
            _count(run.table_rows),
            run.reason,
            style=_STYLES.get(run.action),
        )
    console = console or Console()
    if not console.is_terminal:
        console.width = _UNCUT
    console.print(table)


_STYLES = {"no changes": "bright_black", "view": "bright_black", "refused": "red"}


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _size(number: int | None) -> str:
    return "" if number is None else str(do_filesizeformat(number))


def as_json(runs: Sequence[ExplainedRun]) -> str:
    """Return the runs as a JSON array."""
    return json.dumps([asdict(run) for run in runs], indent=2, ensure_ascii=False)
