"""The derivation of a plain SQL model's strategy, input roles and keys.

A run of `incremental_strategy: auto` then equals one of the derived strategy, over the SQL with
marked inputs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwaters.analysis import (
    expectations_of,
    kept_if,
    kept_sql,
    noted_proof,
    parts_of,
    prepared,
    relations_in,
    with_names,
    with_relations,
)
from headwaters.platform.errors import UserError
from headwaters.platform.nodes import is_other_catalog, table_name
from headwaters.platform.problems import Problem
from headwaters.runs.checks import (
    Unproven,
    declared_tables,
    describe_inputs,
    has_feed,
    raise_reads_itself,
    raise_undeclared,
)
from headwaters.runs.inputs import inputs_of, marked, with_inputs
from headwaters.runs.model import names_in
from headwaters.runs.pinned_inputs import text_of_view, view_of
from headwaters.runs.session import Config, Session
from headwaters.runs.state import digest


@dataclass(frozen=True)
class SettledModel:
    """The SQL of a model with its inputs marked, and its settings."""

    code: str
    config: Config


def settle(
    session: Session, node: Mapping[str, Any], code: str, properties: Mapping[str, str]
) -> SettledModel:
    """Return a model's SQL and settings; for plain SQL both are derived.

    `properties`: those of its table. Its derivation is valid if it is of the same SQL.

    Raises:
        UserError: the model cannot be maintained.
    """
    if node["config"].get("incremental_strategy") != "auto":
        return SettledModel(_without_shifts(code), session.run_config(node))
    where = f"{node['name']} ({node['original_file_path']}, incremental_strategy: auto)"
    _check(where, code)
    config = session.run_config(node)
    versions: dict[str, dict[str, int]] = {}
    neutral = _neutral_sql(session, where, node, code, versions)
    if session.is_empty or session.is_sample:
        return SettledModel(neutral, {**config, "incremental_strategy": "replace"})
    derivation = _derivation(session, where, neutral, config, properties, versions)
    roles = derivation["inputs"]
    replacements = {
        spec["text"]: marked(
            roles[spec["source"]] | {"source": spec["source"]} | versions[spec["source"]]
        )
        for spec in inputs_of(neutral)
    }
    settings = {
        **config,
        "incremental_strategy": derivation["strategy"],
        "unique_key": derivation["unique_key"],
        "derivation": derivation,
        "leads": derivation["leads"],
        "stages": derivation["stages"],
    }
    return SettledModel(with_inputs(neutral, replacements), settings)


def _check(where: str, code: str) -> None:
    for spec in inputs_of(code):
        raise UserError(
            "HW_OTHER_INPUT_MACRO",
            f"{where} reads {spec['source']} with {spec['kind']}(). auto derives what its inputs "
            "are: write ref() and source() alone, or name the strategy.",
        )


def _neutral_sql(
    session: Session,
    where: str,
    node: Mapping[str, Any],
    code: str,
    versions: dict[str, dict[str, int]],
) -> str:
    """Return the SQL with every table marked as a lookup of no version, reading through views.

    Fill in the newest version of each.
    """
    nodes, replacements = declared_tables(session), {}

    def neutral_input(source: str) -> str:
        newest = versions.get(source) or session.newest_version("auto", source)
        if newest:
            versions[source] = newest
            return marked({"kind": "lookup", "source": source, "version": None, "at": None})
        view = view_of(session, "auto", source)
        texts = {name: neutral_input(name) for name in dict.fromkeys(view.relations)}
        return text_of_view(source, view, texts)

    for source in relations_in(code):
        if len(parts_of(source)) < 2:
            continue
        declared = nodes.get(parts_of(source))
        if not declared:
            raise_undeclared(where, source, "source(…) in its place")
        elif declared["unique_id"] == node["unique_id"]:
            raise_reads_itself(where)
        replacements[source] = neutral_input(_as_declared(source, declared))
    return _without_shifts(with_relations(code, replacements))


def _as_declared(source: str, node: Mapping[str, Any] | None) -> str:
    """Return the name of a table. Another catalog may tell `APP` from `app`."""
    return table_name(node) if node and is_other_catalog(node.get("database")) else source


def _without_shifts(sql: str) -> str:
    # importing the parser takes an eighth of a second, and most models have no shift
    if ">>" not in sql:
        return sql
    from headwaters.analysis import without_shifts

    return without_shifts(sql)


def _derivation(
    session: Session,
    where: str,
    neutral: str,
    config: Config,
    properties: Mapping[str, str],
    versions: Mapping[str, Mapping[str, int]],
) -> dict[str, Any]:
    """Return the derivation, with a digest of its inputs as `of`. The table stores it.

    A new derivation may run two statements for each input, to read its columns at its version and
    whether it has a change data feed.
    """
    sql = prepared(neutral)
    inputs, graph = inputs_of(sql), session.graph
    functions = session.fingerprint(sql)["functions"]
    what = [
        neutral,
        names_in(config, "unique_key"),
        config.get("allow_nondeterministic"),
        [config.get("on_ties"), bool(expectations_of(config))],
        noted_proof({}, inputs, graph),
        functions,
        kept_if(config),
    ]
    of = digest(json.dumps(what))
    noted = _mapping(properties.get("headwaters.proof"))
    if noted.get("of") == of and not _has_a_new_feed(session, noted, versions):
        return noted
    # importing the parser takes an eighth of a second, and most runs derive nothing
    from headwaters.analysis import derivation

    describe_inputs(session, inputs, versions)
    derived = derivation(sql, inputs, config, graph, functions, neutral)
    if isinstance(derived, dict) and derived["stages"] and not _may_be_kept(session, derived):
        whole = {**config, "is_whole": True}
        derived = derivation(sql, inputs, whole, graph, functions, neutral)
    if not isinstance(derived, dict):
        raise unproven(derived, where)
    if derived["unread"]:
        problem = session.problem_of_unread(kept_sql(neutral, config), inputs)
        if problem:
            raise unproven(problem, where)
    return derived | {"of": of}


def _has_a_new_feed(
    session: Session, noted: Mapping[str, Any], versions: Mapping[str, Mapping[str, int]]
) -> bool:
    """Return true if an input that had no change data feed at the derivation may have one now.

    Runs a statement for each such input.
    """
    lacking = noted.get("without_feed")
    if lacking is None:  # an earlier release noted the reason alone
        return "has no change data feed" in str(noted.get("reason"))
    return any(has_feed(session, source, versions[source]) for source in lacking)


def _mapping(text: str | None) -> dict[str, Any]:
    try:
        noted = json.loads(text or "null")
    except ValueError:
        return {}
    return noted if isinstance(noted, dict) else {}


def _may_be_kept(session: Session, derivation: Mapping[str, Any]) -> bool:
    """Return true if a table preserves all columns of the hidden tables, and they compare exactly.

    Runs a statement for each.
    """
    from headwaters.analysis import are_exact

    stages = derivation["stages"]
    return all(
        are_exact([column.dtype for column in session.connection.columns(text)])
        for text in (with_names(stage["sql"], stages["names"]) for stage in stages["tables"])
    )


def unproven(problem: Problem, where: str) -> Unproven:
    """Return the error of a model whose SQL proves nothing."""
    return Unproven(str(problem.at(where)))
