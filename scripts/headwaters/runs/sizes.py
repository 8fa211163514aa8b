"""The size of a table: its rows and those of its inputs, which decide whether it is computed whole.

A table notes its size, so that a later run and the runs of its inputs need not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headwaters.platform.nodes import setting, table_name
from headwaters.runs import change_set_cache
from headwaters.runs.decisions import Size, limit_of_whole, may_be_whole
from headwaters.runs.inputs import Spec, input_sql, is_pinned
from headwaters.runs.model import Model
from headwaters.runs.plan import Plan
from headwaters.runs.session import Session
from headwaters.runs.state import TableState
from headwaters.tables.commits import Commit, as_mapping
from headwaters.tables.settings import ModelSettings

_NOTE = "headwaters.size"


def noted_size(state: TableState, commits: Sequence[Commit]) -> Size | None:
    """Return the size that the table notes, with the rows and bytes that a replacement wrote."""
    size = Size.parse(state.properties.get(_NOTE))
    for commit in commits:
        if _NOTE not in as_mapping(commit.parameters.get("properties")):
            continue
        if size is None or not commit.replaces_all:
            return size
        rows, written = (commit.metrics.get(f"numOutput{one}") for one in ("Rows", "Bytes"))
        return replace(size, rows=int(rows), bytes=int(written or 0)) if rows else size
    return size


def limit_of(model: Model, plan: Plan) -> int:
    """Return the rows below which a run computes the table in full; 0 if it must not."""
    settings, strategy = model.settings, model.strategy.name
    if plan.patch or model.is_hidden:
        return 0
    if not may_be_whole(strategy, settings, model.has_expectations):
        return 0
    return limit_of_whole(settings, plan.size, is_auto="derivation" in model.config)


def with_size(model: Model, plan: Plan) -> Plan:
    """Return the plan with the size of the table.

    Run a statement if the table does not note it, and the logs do not tell.
    """
    sources = {spec["source"]: spec for spec in plan.inputs}
    if plan.size and plan.size.inputs.keys() == sources.keys():
        return plan
    rows = model.session.rows_by_log(str(model.target))
    counts = _counted(model.session, sources, "" if rows is not None else str(model.target))
    return replace(plan, size=Size(counts, counts.pop("", 0) if rows is None else rows))


def size_to_note(model: Model, plan: Plan) -> Size | None:
    """Return the size that a replacement notes. Its own commit has the rows of the table.

    Run a statement if neither the logs nor earlier models of the invocation tell. The result is
    None for a sample, and if no run will compute the table in full for its size.
    """
    if plan.size or not is_pinned(plan.inputs) or not limit_of(model, plan):
        return plan.size
    return Size(_counted(model.session, {spec["source"]: spec for spec in plan.inputs}), 0)


def _counted(session: Session, inputs: Mapping[str, Spec], target: str = "") -> dict[str, int]:
    """Return the rows of each input at its version, and those of the target under an empty name."""
    known, counts, missing = session.row_counts, dict[str, int](), dict[str, str]()
    for source, spec in inputs.items():
        rows = known.get((source, spec["version"], spec["at"]))
        rows = session.rows_by_log(source) if rows is None else rows
        if rows is None:
            missing[source] = input_sql(spec)
        else:
            counts[source] = rows
    if target:
        missing[""] = target
    if missing:
        # Delta counts without reading rows
        parts = ",\n".join(f"(select count(*) from {text})" for text in missing.values())
        row = session.connection.fetch(f"select {parts}")[0]
        counts |= {source: int(row[n]) for n, source in enumerate(missing)}
    for source, spec in inputs.items():
        known[source, spec["version"], spec["at"]] = counts[source]
    return counts


def has_large_followers(model: Model) -> bool:
    """Return true if a model that follows the table will not compute its own in full.

    It would read each row of a replacement as changed, as would a stream of the table.
    """
    session = model.session
    if _is_read_by_stream(model):
        return True
    for name in change_set_cache.followers(model.unique_id, session.graph):
        node = session.graph["nodes"][name]
        properties = session.noted_properties(node)
        if properties is None:
            continue  # its first run computes everything
        size = Size.parse(properties.get(_NOTE)) or _size_by_logs(session, node)
        is_auto = node["config"].get("incremental_strategy") == "auto"
        settings = ModelSettings.of(node["config"])
        limit = limit_of_whole(settings, size, is_auto=is_auto)
        if size is None or not size.is_below(limit):
            return True
    return False


def _is_read_by_stream(model: Model) -> bool:
    """Return true if a stream of the project reads the model's table."""
    schema, _, table = str(model.target).replace("`", "").lower().rpartition(".")
    folder = f"/{schema}.db/{table}"
    streams = (
        setting(node["config"], "stream") for node in model.session.graph["sources"].values()
    )
    return any(
        isinstance(stream, Mapping)
        and f"/{stream.get('path') or ''}".lower().rstrip("/").endswith(folder)
        for stream in streams
    )


def _size_by_logs(session: Session, node: Mapping[str, Any]) -> Size | None:
    """Return the size of a model's table by the logs of the tables, or None if one is not known.

    A view has no log, so a model that reads one has no known size.
    """
    nodes, sources = session.graph["nodes"], session.graph["sources"]
    inputs = [nodes.get(name) or sources.get(name) for name in node["depends_on"]["nodes"]]
    if not all(inputs):
        return None
    rows, counts = session.rows_by_log(table_name(node)), dict[str, int]()
    for source in map(table_name, inputs):
        count = session.rows_by_log(source)
        if count is None:
            return None
        counts[source] = count
    return None if rows is None else Size(counts, rows)
