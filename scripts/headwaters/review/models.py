"""The facts of each model, for the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from headwaters.analysis import strategy_of
from headwaters.platform.nodes import Node, table_name
from headwaters.review import changes as changing
from headwaters.review import costs
from headwaters.review.changes import Changes
from headwaters.review.compare_sides import Rows
from headwaters.review.costs import Past
from headwaters.review.dbt_runs import BuildOutcome
from headwaters.review.facts import Cost, Finding, ModelReview
from headwaters.review.lint import Linted
from headwaters.review.results import Results
from headwaters.review.sides import Side, inputs, tables_above

OneOff = Literal["rebuild", "patch", "nothing"]
_ONE_OFF: dict[str, OneOff] = {
    "skip": "nothing",
    "incremental": "patch",
    "patch": "patch",
}


def model_of(
    key: str, base: Side, head: Side, found: Changes, results: Results, linted: Linted
) -> ModelReview:
    """Return all facts of one model."""
    before, after = base.nodes.get(key), head.nodes.get(key)
    node: Node = after or before or {}
    own = found.changed.get(key)
    made = ModelReview(
        unique_id=key,
        name=node["name"],
        layer=node["fqn"][1] if len(node["fqn"]) > 2 else node["schema"],
        relation=table_name(node),
        causes=found.causes(key),
        what_changed=own.what if own else (),
        not_compared=own.not_compared if own else (),
        stays=proof.stays if (proof := results.proofs.get(key)) else None,
        findings=(
            *(own.broken if own else ()),
            *_findings(key, results),
            *([results.maintenance[key]] if key in results.maintenance else []),
            *linted.of(node["original_file_path"]),
        ),
        diff_of_sql=changing.diff_of_sql(before, after) if own else "",
    )
    if key not in {*found.built, *found.built_before}:
        return made
    rows = results.rows.get(key)
    if rows is None:
        return replace(made, why_not=f"not compared: {results.problem}")
    if key in results.moments:
        shapes = tuple(replace(column, changed=0) for column in rows.columns)
        rows = Rows(shapes, why_not=f"not compared: {results.moments[key]}")
    cost = _cost(key, head, found, results)
    if cost and rows.difference and "upstream" in made.causes and not rows.difference.rows:
        cost = replace(cost, one_off="nothing", one_off_reason="no row differs")
    more = ["the order of its columns differs"] if rows.is_reordered else []
    more += [
        f"column {name} has the time or chance of its run: not compared" for name in rows.momentary
    ]
    if rows.difference and rows.difference.rows and (calls := changing.of_the_moment(node)):
        more.append(f"calls {', '.join(calls)}: it gives other rows in each run, of the same text")
    return replace(
        made,
        what_changed=(*made.what_changed, *more),
        columns=rows.columns,
        difference=rows.difference,
        why_not=rows.why_not,
        cost=cost,
        pinned=_pins(key, head if after else base, results),
    )


def moments(head: Side, found: Changes, results: Results) -> dict[str, str]:
    """Return, by id, why some tables have differing rows that are not due to the branch.

    If neither the SQL nor any input of a recomputed table differs, two builds gave different rows,
    as two runs do. Its readers differ for the same reason.
    """
    told: dict[str, str] = {}
    for key in found.order:
        rows, node = results.rows.get(key), head.nodes.get(key)
        if key in found.changed or node is None or rows is None or rows.difference is None:
            continue
        read = tables_above(key, found.built, head)
        apart = [results.rows[one] for one in read if one in results.rows and one not in told]
        if not rows.difference.rows or not all(map(_is_same, apart)):
            continue
        if others := sorted(table_name(head.nodes[one]) for one in read if one in told):
            told[key] = f"it reads {others[0]}, of which each run makes other rows"
        elif strategy_of(node["config"]) is None:
            told[key] = "nothing that it reads differs: two runs of the same SQL give other rows"
    return told


def _is_same(rows: Rows) -> bool:
    found = rows.difference
    is_whole = found is not None and not found.rows and found.extent == "all"
    return is_whole and not any(column.differs for column in rows.columns)


def _findings(key: str, results: Results) -> list[Finding]:
    found = list(results.tests.get(key, ()))
    outcome = results.after.get(key)
    if outcome is not None and outcome.status in ("error", "fail", "runtime error"):
        before = results.before.get(key)
        is_contract = "enforced contract that failed" in outcome.message
        was_so = before is not None and not before.is_built and before.message == outcome.message
        text = (
            f"{'the base does not build either' if was_so else 'does not build'}: {outcome.message}"
        )
        if is_contract:
            text = "; ".join(_contract_mismatches(outcome.message)) or text
        found.insert(0, Finding("contract" if is_contract else "build", text, fails=not was_so))
    return found


# A row of dbt's table of mismatches: the column, both types, and the reason.
_MISMATCH = re.compile(
    r"\|\s*([^|]+?)\s*\|\s*([^|]*?)\s*\|\s*([^|]*?)\s*"
    r"\|\s*(data type mismatch|missing in contract|missing in definition)\s*(?=\|)"
)


def _contract_mismatches(message: str) -> Iterator[str]:
    """Yield a sentence for each column of the table in dbt's message."""
    for name, defined, contracted, reason in _MISMATCH.findall(message):
        if reason == "missing in definition":
            yield f"column {name} is missing"
        elif reason == "missing in contract":
            yield f"column {name} is not in the contract"
        else:
            yield f"column {name} is {defined.lower()}, the contract says {contracted.lower()}"


def _pins(key: str, side: Side, results: Results) -> dict[str, int]:
    tables = [side.table(parent) for parent in inputs([key], side)]
    return {table: version["version"] for table in tables if (version := results.pinned.of(table))}


def _cost(key: str, head: Side, found: Changes, results: Results) -> Cost | None:
    node, outcome = head.nodes.get(key), results.after.get(key)
    if node is None or outcome is None:
        return None
    one_off, reason, next_run = _one_off(key, node, found, results)
    past, rows = results.past.get(key, Past()), results.rows[key].difference
    usual = costs.of_a_run(past)
    if one_off == "nothing":
        return Cost(one_off, reason, next_run, next_predicted=usual)
    rebuilt = costs.of_a_rebuild(past, rows, _full_seconds(node, results.before.get(key)))
    return Cost(
        one_off,
        reason,
        next_run,
        outcome.effort.seconds,
        outcome.effort.bytes_written,
        rebuilt if one_off == "rebuild" else costs.of_a_run(past, rows.rows if rows else None),
        rebuilt if next_run == "rebuild" else usual,
        proof.effort if (proof := results.proofs.get(key)) else None,
    )


def _full_seconds(node: Node, outcome: BuildOutcome | None) -> float | None:
    """Return the seconds of the base's build if it computed the whole table."""
    if outcome is None or (strategy_of(node["config"]) and outcome.did != "replace"):
        return None
    return outcome.effort.seconds


def _one_off(key: str, node: Node, found: Changes, results: Results) -> tuple[OneOff, str, str]:
    """Return the operation that gives production's table the branch's rows, and why.

    The third part describes the runs after it.
    """
    if node["resource_type"] != "model" or not strategy_of(node["config"]):
        kind = node["config"].get("materialized") or node["resource_type"]
        return "rebuild", f"a {kind} is built by every run", "rebuild"
    if key in found.changed and not found.changed[key].rows:
        return "nothing", "neither its SQL nor a setting of its rows differs", "incremental"
    if key not in found.changed:
        return "patch", "its SQL is the same: it follows what changes upstream", "incremental"
    if (following := results.next_runs.get(key)) is None:
        return "rebuild", "first run, or not known", "incremental"
    return _ONE_OFF.get(following.action, "rebuild"), following.reason, "incremental"
