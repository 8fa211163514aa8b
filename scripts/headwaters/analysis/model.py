"""The proof of a dbt model from its marked inputs and the declarations of the project."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot.errors import SqlglotError

from headwaters.analysis import dialect, equivalence, query_change, used_names
from headwaters.analysis.declared_keys import keys_of, plain
from headwaters.analysis.derive import Derivation, Question, derive
from headwaters.analysis.exact_types import is_collated
from headwaters.analysis.expectations import expectations_of
from headwaters.analysis.helpful_keys import helpful_key
from headwaters.analysis.proof import prove, prove_derived
from headwaters.analysis.refusal import Refused, unforeseen
from headwaters.analysis.relations import Input
from headwaters.analysis.sql_text import line_in
from headwaters.analysis.stages import Stage
from headwaters.analysis.strategies import strategy_of
from headwaters.analysis.unreadable import unlisted
from headwaters.analysis.written_rows import kept_if, without_stored
from headwaters.platform.nodes import Config, Node, as_tuple, table_name
from headwaters.platform.problems import Problem
from headwaters.platform.spark_version import CHANGING_FUNCTIONS, STABLE_IN_QUERIES

# The longest line of SQL in a message.
_LONGEST = 80
# The prefix of names that stand for inputs.
_NAME = "hw_input_"


def refusal_of(
    sql: str,
    inputs: Sequence[Mapping[str, Any]],
    config: Config,
    graph: Mapping[str, Mapping[str, Node]],
    functions: Mapping[str, str],
    compiled: str | None = None,
) -> Problem | None:
    """Return why the strategy cannot maintain the model, or None.

    `inputs` are the contents of markers, with `text` and `columns` (dbt's `Column`). `functions`
    are the definitions of the SQL functions that the model calls. `compiled` is the text before
    `prepared`, whose lines the reason names.
    """
    strategy = strategy_of(config)
    assert strategy is not None
    if problem := _unused_function(sql, config, functions):
        return problem
    place = _Place(inputs, sql.count("\n") + 1, compiled)
    sql, found = _named(_kept(sql, config), inputs, graph)
    try:
        allowed = as_tuple(config.get("allow_nondeterministic"))
        keys = as_tuple(config.get("unique_key"))
        relation = prove(sql, found, strategy.rules, keys, allowed, bodies(functions))
        if config.get("derived"):
            prove_derived(config["derived"], relation, allowed, bodies(functions))
    except Refused as refused:
        return place.problem(refused)
    except Exception as error:
        return place.problem(unforeseen(error))
    return None


def derivation(
    sql: str,
    inputs: Sequence[Mapping[str, Any]],
    config: Config,
    graph: Mapping[str, Mapping[str, Node]],
    functions: Mapping[str, str],
    compiled: str | None = None,
) -> dict[str, Any] | Problem:
    """Return the maintenance of a model of plain SQL: `strategy`, `unique_key`, `inputs`, `reason`.

    An input with `has_feed` can be followed. `compiled` is the model's text as dbt compiled it;
    messages name its lines. The result has these keys:

    - `inputs`: the arguments of input macros by source: `kind`, with `key`, `via` and `on`.
    - `leads`: None, or the `key` that changed rows are traced to, and for each input its name in
      SQL and the `sql` of the affected keys.
    - `stages`: None, or the `names` that stand for sources in SQL, `rest`, and `tables`, each
      with `sql`, `unique_key`, `inputs` and `leads`.
    - `reason`: None, or why a change of some inputs replaces the table.
    - `ties`: the expressions whose order lets rows of a key tie.
    - `without_feed`: the inputs that a run would follow if they had a change data feed; only if
      there are some.
    - `unread`: None, or why the analysis does not understand the SQL. Spark then has to list the
      tables that it reads; see `problem_of_unread`.
    """
    if problem := _unused_function(sql, config, functions):
        return problem
    lines = sql.count("\n") + 1
    place = _Place(inputs, lines, compiled)
    question = _question(sql, inputs, config, graph, functions)
    try:
        derived = derive(question)
    except Refused as refused:
        return place.problem(refused)
    except Exception as error:
        return place.problem(unforeseen(error))
    reason = place.placed(derived.refused) if derived.refused else None
    if reason and derived.is_unread and str(reason.clause).startswith("expectation: "):
        return place.problem(derived.refused or reason)
    return {
        "strategy": derived.strategy,
        "unique_key": list(derived.unique_key),
        "inputs": _roles(derived.inputs),
        "leads": _leads(derived),
        "stages": {
            "names": {source.name: source.source for source in derived.inputs},
            "rest": derived.rest,
            "tables": [
                {
                    "sql": stage.sql,
                    "unique_key": list(stage.unique_key),
                    "inputs": _roles(stage.inputs),
                    "leads": _leads(stage),
                }
                for stage in derived.stages
            ],
        }
        if derived.stages
        else None,
        "reason": _spoken(place.unanalysed(reason) if derived.is_unread else reason.cause, inputs)
        if reason
        else None,
        "ties": [_spoken(text, inputs) for text in derived.ties],
        "unread": vars(place.problem(derived.refused))
        if derived.refused and derived.is_unread
        else None,
        **({"without_feed": without} if (without := _without_feed(question)) else {}),
    }


def _without_feed(question: Question) -> list[str]:
    lacking = question.without_feed - question.constant
    return [source.source for source in question.inputs if source.name in lacking]


def helpful_declaration(
    sql: str,
    inputs: Sequence[Mapping[str, Any]],
    config: Config,
    graph: Mapping[str, Mapping[str, Node]],
    functions: Mapping[str, str],
) -> str | None:
    """Return the test that would let runs follow more inputs of a model of plain SQL, or None."""
    found = helpful_key(_question(sql, inputs, config, graph, functions))
    if found is None:
        return None
    source, columns, is_unique_enough = found
    if len(columns) > 1:
        return f"unique_combination_of_columns ({', '.join(columns)}) on {source.source}"
    tests = "unique" if is_unique_enough else "unique and not_null"
    return f"{tests} on {source.source}.{columns[0]}"


def _question(
    sql: str,
    inputs: Sequence[Mapping[str, Any]],
    config: Config,
    graph: Mapping[str, Mapping[str, Node]],
    functions: Mapping[str, str],
) -> Question:
    sql, found = _named(_kept(sql, config), inputs, graph)
    seeds = {
        table_name(node).lower()
        for node in graph.get("nodes", {}).values()
        if node["resource_type"] == "seed"
    }
    return Question(
        sql,
        found,
        frozenset(source.name for source in found if plain(source.source) in seeds),
        as_tuple(config.get("unique_key")),
        as_tuple(config.get("allow_nondeterministic")),
        bodies(functions),
        frozenset(name for name, spec in _names_of(inputs).items() if not spec["has_feed"]),
        # hidden tables cannot account for dropped rows or ignored lookups
        bool(config.get("is_whole"))
        or bool(expectations_of(config))
        or config.get("on_lookup_change") == "ignore",
        # the audit step computes the rows once more, and could choose others
        config.get("on_ties") != "replace" and not expectations_of(config),
    )


@dataclass(frozen=True)
class _Place:
    """The lines of a model: of its SQL, and of the text that dbt compiled, if known."""

    inputs: Sequence[Mapping[str, Any]]
    lines: int
    compiled: str | None

    def placed(self, refused: Refused) -> Refused:
        """Return the refusal with its line in the compiled text; an expectation has no line."""
        clause, line = refused.place
        if line and line > self.lines:
            clause, line = f"expectation: {clause}", None
        elif line and self.compiled is not None:
            line = line_in(self.compiled, line)
        return Refused(refused.code, clause, line, refused.reason, refused.remedy)

    def unanalysed(self, refused: Refused) -> str:
        """Return the place that the analysis does not understand, for the output line of a run."""
        clause, line = refused.place
        if line and self.compiled is not None:
            text = re.sub(r"/\* .*? \*/ ", "", self.compiled.splitlines()[line - 1]).strip()
            clause = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        where = f"line {line}: " if line else ""
        return f"{where}`{clause}` is not analysed" if clause else f"{where}{refused.reason}"

    def problem(self, refused: Refused) -> Problem:
        """Return the refusal as an error with the names of the inputs."""
        told = self.placed(refused)
        return Problem(told.code, _spoken(str(told), self.inputs))


def problem_of_unread(plan: str, sql: str, inputs: Sequence[Mapping[str, Any]]) -> Problem | None:
    """Return why a table cannot be replaced from SQL that the analysis does not understand.

    `plan` is the output of `explain extended`.
    """
    other = unlisted(plan, sql, [spec["source"] for spec in inputs])
    if other is None:
        return None
    return Problem(
        "HW_UNDECLARED_INPUT",
        f"reads {other}, which is no input by ref() or source(), so its changes would be missed. "
        "Declare it as a source, or read it in SQL that is analysed.",
    )


def _unused_function(sql: str, config: Config, functions: Mapping[str, str]) -> Problem | None:
    """Return the problem of a name in `allow_nondeterministic` that is not a function, or None.

    A name that Spark does not have is a function of the user, if the SQL contains it.
    """
    rules = (rule.expression for rule in expectations_of(config))
    derived = (config.get("derived") or {}).values()
    text = "\n".join(map(str, (sql, *functions, *functions.values(), *rules, *derived)))
    for name in as_tuple(config.get("allow_nondeterministic")):
        is_known = name.lower() in CHANGING_FUNCTIONS | STABLE_IN_QUERIES | {"today"}
        if not is_known and not re.search(rf"(?i)(?<!\w){re.escape(name)}(?!\w)", text):
            return Problem(
                "HW_SETTING",
                f"allow_nondeterministic: the SQL calls no function '{name}'. Remove it, or "
                "correct its name.",
            )
    return None


def _kept(sql: str, config: Config) -> str:
    """Return the SQL without the rows that expectations drop; its lines keep their numbers."""
    condition = kept_if(config)
    return f"select * from ({sql}\n) where {condition}" if condition else sql


def _leads(derived: Derivation | Stage) -> dict[str, Any] | None:
    """Return the key that changed rows are traced to, and the queries of the affected keys."""
    if not derived.leads:
        return None
    return {
        "key": list(derived.key),
        "inputs": {
            source.source: {"name": source.name, "sql": derived.leads.get(source.name)}
            for source in derived.inputs
        },
    }


def _roles(inputs: Sequence[Input]) -> dict[str, dict[str, Any]]:
    """Return the arguments of input macros, by source."""
    roles: dict[str, dict[str, Any]] = {}
    for source in inputs:
        role: dict[str, Any] = {"kind": source.kind}
        if source.key is not None:
            role["key"] = dict(source.key)
        if source.via is not None:
            role |= {"via": source.via, "on": dict(source.on)}
        roles[source.source] = role
    return roles


def same_inputs(
    built_by: str,
    would_be_built_by: str,
    built_of: Sequence[Mapping[str, Any]],
    would_be_of: Sequence[Mapping[str, Any]],
) -> bool:
    """Return true if two texts have equal settings in their first line and read the same inputs."""
    one, other = ({spec["text"] for spec in inputs} for inputs in (built_of, would_be_of))
    return one == other and built_by.partition("\n")[0] == would_be_built_by.partition("\n")[0]


def without_shifts(sql: str) -> str:
    """Return a query that means the same without `>>`, or the query itself if none is found."""
    try:
        return dialect.without_shifts(sql)
    except (Refused, SqlglotError):
        return sql


def is_same_query(
    built_by: str, would_be_built_by: str, inputs: Sequence[Mapping[str, Any]]
) -> bool:
    """Return true if both texts are the same query. `inputs` have their `columns`."""
    columns = {column.name for spec in inputs for column in spec["columns"]}
    one, other = (
        _with_names(text.partition("\n")[2], inputs) for text in (built_by, would_be_built_by)
    )
    return equivalence.is_same(one, other, columns)


@dataclass(frozen=True)
class Patch:
    """The changes that turn the table of one query into that of another, as SQL over its columns.

    - `columns`: the new columns in order, each with its expression; empty if they do not change.
    - `kept`: the condition that remaining rows meet, or empty.
    - `dropped`: a condition over the new columns that old rows meet and added rows fail, or empty.
    - `text`: the changes in words.
    """

    columns: list[tuple[str, str]]
    kept: str
    dropped: str
    text: str


def patch_of(
    built_by: str,
    would_be_built_by: str,
    inputs: Sequence[Mapping[str, Any]],
    config: Config,
    columns: Sequence[Any],
) -> Patch | str | None:
    """Return the patch for a change of SQL, the reason for a rebuild, or None if nothing changes.

    Both texts have the same settings and `inputs`, which have their `columns`. `columns` are those
    of the table.
    """
    try:
        limits = _limits(inputs, config, columns)
        before, after = (
            _without_stored(text.partition("\n")[2], config)
            for text in (built_by, would_be_built_by)
        )
        change = query_change.change_of(
            _with_names(before, inputs),
            _with_names(after, inputs),
            {
                name: [column.name for column in spec["columns"]]
                for name, spec in _names_of(inputs).items()
            },
            limits,
        )
    except query_change.Rebuild as why:
        return _spoken(str(why), inputs)
    if change == query_change.QueryChange():
        return None
    return Patch(
        [*change.columns],
        " and ".join(f"({text})" for text in change.kept),
        " and ".join(f"({text})" for text in change.dropped),
        _spoken(query_change.described(change), inputs),
    )


# Types whose values a partition's text preserves; an empty text is lost.
_STORED_AS_THEY_ARE = re.compile(r"(?:tinyint|smallint|int|bigint|date|boolean|decimal\(.*\))")


def _limits(
    inputs: Sequence[Mapping[str, Any]], config: Config, columns: Sequence[Any]
) -> query_change.AllowedChanges:
    """Return the changes that the strategy and the settings of a model allow. Raises Rebuild."""
    strategy = strategy_of(config)
    assert strategy is not None
    for name, value in _OTHER_ROWS.items():
        if config.get(name) and value in (None, config.get(name)):
            raise query_change.Rebuild(f"rows need not be what its SQL gives ({name})")
    if (config.get("derivation") or {}).get("ties"):
        raise query_change.Rebuild("its rows may tie, and another query may choose others")
    if expectations_of(config):
        raise query_change.Rebuild("its expectations are evaluated on all rows")
    if strategy.patch == "never":
        raise query_change.Rebuild(f"{strategy.configured_as} applies no change of the SQL")
    keys = as_tuple(config.get("unique_key"))
    partitions = {name.lower() for name in as_tuple(config.get("partition_by"))}
    named = [name for part in _NAMING for name in as_tuple(config.get(part))]
    named += [name for spec in inputs for name in spec.get("key") or {}]
    named += (config.get("leads") or {}).get("key") or []
    return query_change.AllowedChanges(
        fixed=[*dict.fromkeys(name.lower() for name in (*keys, *named))],
        only=None if strategy.patch == "rows" else keys,
        may_compute=strategy.patch != "keys",
        appended_only=strategy.patch == "appended",
        altered=[
            column.name
            for column in columns
            if column.name.lower() in partitions and not _STORED_AS_THEY_ARE.fullmatch(column.dtype)
        ],
    )


# Settings that allow rows other than those of the query; None stands for any value.
_OTHER_ROWS = {
    "allow_nondeterministic": None,
    "incremental_proof": "sample",
    "on_lookup_change": "ignore",
}
# Settings that name columns.
_NAMING = ("partition_by", "cluster_by", "prune_by", "latest_by")


def _without_stored(sql: str, config: Config) -> str:
    """Return the SQL before the run gave its partition columns their stored form."""
    query = without_stored(sql) if as_tuple(config.get("partition_by")) else sql
    if query is None:
        raise query_change.Rebuild("the table cannot follow it")
    return query


def keeps_meaning(sql: str, inputs: Sequence[Mapping[str, Any]], added: Sequence[str]) -> bool:
    """Return true if added columns of its inputs do not change the result of a model."""
    try:
        return used_names.keeps_meaning(dialect.parsed(_with_names(sql, inputs)), added)
    except Refused:
        return False


def used_columns(
    sql: str, inputs: Sequence[Mapping[str, Any]], text: str, columns: Sequence[str]
) -> list[str]:
    """Return the columns of an input, found by its text, that a model needs for the same result."""
    name = next(name for name, spec in _names_of(inputs).items() if spec["text"] == text)
    try:
        return used_names.used_columns(dialect.parsed(_with_names(sql, inputs)), name, columns)
    except Refused:
        return list(columns)


def _spoken(text: str, inputs: Sequence[Mapping[str, Any]]) -> str:
    """Return a message with the names of the inputs."""
    names = _names_of(inputs)
    return re.sub(rf"\b{_NAME}\d+\b", lambda found: str(names[found[0]]["source"]), text)


def _names_of(inputs: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the inputs by the names that stand for them, each text once."""
    by_text = {spec["text"]: spec for spec in reversed(inputs)}
    texts = dict.fromkeys(spec["text"] for spec in inputs)
    return {f"{_NAME}{number}": by_text[text] for number, text in enumerate(texts)}


def _with_names(sql: str, inputs: Sequence[Mapping[str, Any]]) -> str:
    """Return the SQL with names instead of marked inputs."""
    for name, spec in _names_of(inputs).items():
        sql = sql.replace(spec["text"], name)
    return sql


def _named(
    sql: str, inputs: Sequence[Mapping[str, Any]], graph: Mapping[str, Mapping[str, Node]]
) -> tuple[str, list[Input]]:
    """Return the SQL with names instead of marked inputs, and the inputs."""
    unique = keys_of([spec["source"] for spec in inputs], graph)
    found = [
        Input(
            name,
            spec["source"],
            spec["kind"],
            {column.name: column.dtype for column in spec["columns"]},
            unique[spec["source"]].unique,
            spec.get("key") if not spec.get("via") else None,
            spec.get("via"),
            spec.get("on") or {},
            unique[spec["source"]].unique_if_filled,
        )
        for name, spec in _names_of(inputs).items()
    ]
    return _with_names(sql, inputs), found


def bodies(functions: Mapping[str, str]) -> dict[str, str]:
    """Return the expressions of SQL functions, by name without schema, in lower case.

    Functions of collated texts are omitted: they turn plain texts into collated ones.
    """
    found = {}
    for name, definition in functions.items():
        _, has_body, body = definition.partition("Body:")
        if has_body and not is_collated(definition):
            found[name.replace("`", "").split(".")[-1].lower()] = body.split("\n\n")[0].strip()
    return found
