"""The settings of models, seeds, snapshots and sources: their types, values, names and reference.

A setting is in a node's config, or in its `meta`, where dbt puts unknown names. An empty setting
(`null`, `''`, `[]`, `{}`) counts as absent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from headwaters.analysis.strategies import Strategy, strategy_names, strategy_of
from headwaters.platform.names import did_you_mean, misspelt
from headwaters.platform.nodes import Config, Node, merged_setting, setting
from headwaters.platform.problems import Problem
from headwaters.platform.units import milliseconds_of

STOCK_STRATEGIES = ("append", "merge", "insert_overwrite", "microbatch")


def _columns(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(map(_is_name, names)):
        raise ValueError("a column, or a list of columns")
    return tuple(names)


def _functions(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(map(_is_name, names)):
        raise ValueError("a list of functions, such as [current_date]")
    return tuple(names)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _expressions(value: Any) -> Any:
    if not isinstance(value, Mapping) or not all(map(_is_scalar, value.values())):
        raise ValueError("a mapping of columns to expressions, such as {mean: total / rows}")
    return {str(name): str(expression) for name, expression in value.items()}


def _scalars(value: Any) -> Any:
    if not isinstance(value, Mapping) or not all(map(_is_scalar, value.values())):
        raise ValueError("a mapping of names to values")
    return dict(value)


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, Mapping | list | tuple | set)


def _mapping(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError("a mapping of names to values")
    return dict(value)


def _share(value: Any) -> Any:
    """Accept a number as text as well: Jinja returns text for an environment variable."""
    try:
        share = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        share = math.nan
    if isinstance(value, bool) or not 0 <= share < math.inf:
        raise ValueError("a share of the rows, 0.3 for 30 %")
    return share


def _rows(value: Any) -> Any:
    """Accept a whole number as text as well."""
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal():
        raise ValueError("a number of rows, such as 200000")
    return int(text)


def _switch(value: Any) -> Any:
    words = {"true": True, "false": False}
    found = words.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise ValueError("true or false")
    return found


def _text(value: Any) -> Any:
    if isinstance(value, bool) or not _is_scalar(value):
        raise ValueError("a text")
    return str(value)


def _duration(value: Any) -> Any:
    if milliseconds_of(value) is None:
        raise ValueError("a length of time, such as 1 day or 6 hours")
    return str(value)


def _owner(value: Any) -> Any:
    """Accept any `meta` of a project: dbt's own pages put names, lists and mappings there."""
    if isinstance(value, Mapping):
        return str(value.get("name") or value.get("email") or "")
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


Columns = Annotated[tuple[str, ...], BeforeValidator(_columns)]
Functions = Annotated[tuple[str, ...], BeforeValidator(_functions)]
Expressions = Annotated[dict[str, str], BeforeValidator(_expressions)]
Scalars = Annotated[dict[str, Any], BeforeValidator(_scalars)]
AnyMapping = Annotated[dict[str, Any], BeforeValidator(_mapping)]
Share = Annotated[float, BeforeValidator(_share)]
Rows = Annotated[int, BeforeValidator(_rows)]
Switch = Annotated[bool, BeforeValidator(_switch)]
Text = Annotated[str, BeforeValidator(_text)]
Duration = Annotated[str, BeforeValidator(_duration)]
Owner = Annotated[str, BeforeValidator(_owner)]

Part = Literal["run", "table"]


def _documented(values: str, default: str = "", part: Part = "run") -> Any:
    """Describe a setting for the reference: its values and its default, as Markdown."""
    return Field(
        default=None, description=values, json_schema_extra={"default": default, "part": part}
    )


class ModelSettings(BaseModel):
    """The settings of a node, typed; None if the project omits one."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    incremental_strategy: Text | None = _documented(
        "`auto`, or the name of [a strategy](#choosing-a-strategy) or of "
        "[one of dbt's own](#dbts-own-strategies)",
        "an incremental model without one, and without `is_incremental()`, is an error",
    )
    unique_key: Columns | None = _documented(
        "the columns that identify a row; NULL is a value",
        "required by `signed_sum`, `history` and `latest_by`; derived by `auto`. Without one, all "
        "columns identify a row, and equal rows are "
        "[counted](analysis.md#rows-without-a-key)",
    )
    latest_by: Columns | None = _documented("the columns whose greatest row wins (`change_feed`)")
    prune_by: Columns | None = _documented(
        "columns that the key determines, such as a transaction's date. A run reads only the rows "
        "of the table within the bounds of their values in the batch. If a key is outside these "
        "bounds, the run reads the whole table"
    )
    derived: Expressions | None = _documented(
        "`{column: expression}` over the sums, such as averages (`signed_sum`)"
    )
    on_gap: Literal["rebuild", "fail"] | None = _documented(
        "`rebuild`, `fail`: the action if the feed lacks changes", "`rebuild`; `fail` for `history`"
    )
    on_lookup_change: Literal["rebuild", "ignore"] | None = _documented(
        "`rebuild`, `ignore`: see [Lookups that change](#lookups-that-change)", "`rebuild`"
    )
    on_foreign_write: Literal["rebuild", "fail", "warn"] | None = _documented(
        "`rebuild`, `fail`, `warn`: the action if a writer other than a run of the model changed "
        "rows of its table",
        "as `on_gap`",
    )
    refresh: Literal["auto", "incremental", "strict"] | None = _documented(
        "the action if a run would [replace the table](#strict-models): `auto` replaces it, "
        "`incremental` replaces it with a warning, `strict` fails before it writes",
        "`auto`",
    )
    apply_by: Literal["keys", "merge"] | None = _documented(
        "`keys` [replaces changed rows by their keys](decisions/0019-replace-by-keys.md), and "
        "merges if replacing is impossible or costs more. `merge` always merges, for readers of "
        "the table's change feed that need updates as pre- and post-images",
        "`keys`",
    )
    replace_above: Share | None = _documented(
        "the run replaces the table if a larger share changed: of its keys (`affected_keys`), of "
        "the input's rows (`signed_sum`), of its rows (`change_feed`). It applies if more than "
        "10,000 rows changed",
        "0.3, 0.5, 0.08; `change_feed`: 0.4 if rows were only inserted",
    )
    on_ties: Literal["follow", "replace"] | None = _documented(
        "`follow`, `replace`: the action of `auto` if an order [lets rows tie](analysis.md). "
        "`follow`: a run orders the rows again when it computes their key. `replace`: every "
        "change replaces the table",
        "`follow`",
    )
    whole_below: Rows | None = _documented(
        "if the table and its inputs have fewer rows, a run computes the whole table and "
        "[writes the rows that differ](#apply-compare-or-replace)",
        "0: never",
    )
    allow_nondeterministic: Functions | None = _documented(
        "functions that the model may use although their results change, such as `current_date` "
        "or `row_number`; rows keep the results of the run that wrote them"
    )
    incremental_proof: Literal["rules", "sample"] | None = _documented(
        "`rules`, `sample`: `sample` compares 1,000 rows instead of "
        "[the proof](analysis.md#without-a-proof)",
        "`rules`",
    )
    expectations: Any = _documented(
        "a list of `{name, expression, on_failure}`: [expectations](tables.md#expectations)"
    )
    tblproperties: Scalars | None = _documented(
        "`{property: value}`: properties of the table. Properties of layer, folder and model are "
        "merged, and `null` removes one",
        part="table",
    )
    property_set: Text | None = _documented(
        "`interop`: [a named set of properties](tables.md#other-engines)", part="table"
    )
    allow_protocol_upgrade: Switch | None = _documented(
        "`true`: properties may change the table's protocol", "`false`", part="table"
    )
    partition_by: Columns | None = _documented("columns, as in dbt-spark", part="table")
    cluster_by: Columns | None = _documented("columns of liquid clustering", part="table")
    maintenance: AnyMapping | None = _documented(
        "the [policy](tables.md#maintenance) of `maintain`; policies of layer, folder and model "
        "are merged",
        part="table",
    )
    runs_every: Duration | None = _documented(
        "the time between two runs, such as `6 hours`: inputs must retain their changes for longer",
        part="table",
    )
    owner: Owner | None = _documented(
        "the owner of the table", "the property `catalog.team_name`", part="table"
    )
    review_examples: Switch | None = _documented(
        "`true`: a [review](review.md) may show rows that differ", "`false`", part="table"
    )
    stream: Any = _documented(
        "of a source: the [contract](streams.md#the-contract) of a stream", part="table"
    )

    @classmethod
    def of(cls, config: Config) -> Self:
        """Parse the settings of a node. Raises ValidationError if `value_problems` yields any."""
        return cls.model_validate(given_settings(config))


# Names of dbt, of dbt-spark and of other adapters, which are never misspelt settings.
_NAMES_OF_OTHERS = """
    access alias batch_size begin buckets bucketed_by catalog_name check_cols cluster_keys
    clustered_by column_types concurrent_batches contract database dbt_valid_to_current
    delete_condition delimiter docs enabled event_time file_format freshness full_refresh
    grants group hard_deletes incremental_predicates invalidate_hard_deletes
    liquid_clustered_by loaded_at_field loaded_at_query location_root lookback
    matched_condition materialized merge_exclude_columns merge_update_columns
    merge_with_schema_evolution meta not_matched_by_source_action
    not_matched_by_source_condition not_matched_condition on_configuration_change
    on_schema_change options packages partitioned_by partitions persist_docs post_hook
    pre_hook predicates quote_columns quoting schema skip_matched_step
    skip_not_matched_step snapshot_meta_column_names source_alias sql_header
    static_analysis strategy submission_method table_properties tags target_alias
    target_database target_schema updated_at
    """
OTHERS = frozenset(_NAMES_OF_OTHERS.split()) | {"post-hook", "pre-hook"}
# Names that count only in a config: dbt's, and a word that people use in `meta`.
_OF_CONFIG = frozenset({"incremental_strategy", "unique_key", "refresh"})
# Settings that merge a config and its `meta`.
_ADDED_UP = ("tblproperties", "maintenance")
_OF_COLUMNS = ("pii", "expression")
_OF_RUNS = tuple(
    name
    for name, field in ModelSettings.model_fields.items()
    if isinstance(field.json_schema_extra, dict) and field.json_schema_extra["part"] == "run"
)


def given_settings(config: Config) -> dict[str, Any]:
    """Return the settings in a config and its `meta`, without empty ones."""
    found = {
        name: config.get(name) if name in _OF_CONFIG else setting(config, name)
        for name in ModelSettings.model_fields
    }
    if isinstance(found["derived"], bool):  # a common word in `meta`
        found["derived"] = config.get("derived")
    for name in _ADDED_UP:
        parts = [config.get(name), (config.get("meta") or {}).get(name)]
        wrong = [part for part in parts if not is_empty(part) and not isinstance(part, Mapping)]
        found[name] = wrong[0] if wrong else merged_setting(config, name)
    return {name: value for name, value in found.items() if not is_empty(value)}


def is_empty(value: Any) -> bool:
    """Return true if a value counts as an absent setting."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, list | tuple | Mapping) and not value)


def run_config(config: Config) -> dict[str, Any]:
    """Return a model's config for macros: typed settings of runs, without empty ones."""
    typed = ModelSettings.of(config)
    kept = {name: value for name, value in config.items() if name not in _OF_RUNS}
    for name in _OF_RUNS:
        value = getattr(typed, name)
        if name in _OF_CONFIG or name == "expectations":  # dbt's, and those read by name
            if name in config:
                kept[name] = config[name] if value is not None else None
        elif value is not None:
            kept[name] = list(value) if isinstance(value, tuple) else value
    return kept


def node_setting_problems(node: Node) -> list[Problem]:
    """Return the problems of the names and values of a node's settings."""
    config = node["config"]
    problems = [*name_problems(config), *value_problems(config)]
    for column in (node.get("columns") or {}).values():
        problems += _column_problems(column)
    if node["resource_type"] != "source" and _is_contract(config):
        problems.append(Problem("HW_SETTING", "stream belongs to a source, and does nothing here"))
    return problems


def _is_contract(config: Config) -> bool:
    stream = setting(config, "stream")
    return isinstance(stream, Mapping) and "from" in stream


def name_problems(config: Config) -> Iterator[Problem]:
    """Yield the names in a config, and in its `meta`, that misspell a setting."""
    names = [*ModelSettings.model_fields]
    for given in config:
        name = None if given in OTHERS else misspelt(given, names)
        if name and not (name in given and "_" not in name):  # `streams` is a word
            yield _unknown(given, name)
    meta = config.get("meta") or {}
    of_meta = [name for name in names if name not in _OF_CONFIG]
    for given in meta:
        yield from _meta_problem(given, of_meta)
    if "incremental_strategy" in meta:
        text = "incremental_strategy is in meta, where dbt does not read it: write it in config"
        yield Problem("HW_SETTING", text)
    if meta.get("refresh") in ("incremental", "strict"):
        yield Problem("HW_SETTING", "refresh is in meta, where no run reads it: write it in config")


def _column_problems(column: Mapping[str, Any]) -> Iterator[Problem]:
    meta = {**(column.get("meta") or {}), **((column.get("config") or {}).get("meta") or {})}
    for given in meta:
        for problem in _meta_problem(given, _OF_COLUMNS):
            yield problem.at(f"column {column['name']}")


def _meta_problem(given: Any, names: Iterable[str]) -> Iterator[Problem]:
    """Yield a name in `meta` that misspells a setting: `ownr`, but not `owners`, a word."""
    name = misspelt(given, names)
    if name and name not in str(given).lower():
        yield _unknown(f"meta.{given}", f"meta.{name}")


def _unknown(given: Any, name: str) -> Problem:
    return Problem("HW_UNKNOWN_SETTING", f"there is no setting '{given}', did you mean '{name}'?")


def value_problems(config: Config) -> Iterator[Problem]:
    """Yield the settings whose values are not of their type."""
    try:
        ModelSettings.of(config)
    except ValidationError as error:
        for problem in error.errors():
            name, given = str(problem["loc"][0]), problem["input"]
            code = "HW_DURATION" if name == "runs_every" else "HW_SETTING"
            if problem["type"] == "literal_error":
                allowed = re.findall(r"'([^']*)'", str(problem["ctx"]["expected"]))
                hint = did_you_mean(given, allowed).removesuffix("?")
                hint = hint if isinstance(given, str) else ""
                text = f"{name} is '{given}'{hint}: allowed are {', '.join(allowed)}"
            else:
                expected = problem.get("ctx", {}).get("error", problem["msg"])
                text = f"{name} is '{given}': write {expected}"
            yield Problem(code, text)


def strategy_problems(config: Config) -> Iterator[Problem]:
    """Yield the settings that an incremental model's strategy does not allow."""
    if config.get("materialized", "incremental") != "incremental":
        return
    settings, strategy = ModelSettings.of(config), strategy_of(config)
    if strategy is None:
        given = settings.incremental_strategy
        names = [*STOCK_STRATEGIES, *strategy_names()]
        if given is not None and given not in names:
            hint = did_you_mean(given, names).removesuffix("?")
            text = f"incremental_strategy is '{given}'{hint}: allowed are {', '.join(names)}"
            yield Problem("HW_UNKNOWN_STRATEGY", text)
        return
    for problem in _combination_problems(strategy, settings, config.get("file_format")):
        yield problem.at(f"incremental_strategy {strategy.configured_as}")


def _combination_problems(
    strategy: Strategy, settings: ModelSettings, file_format: str | None
) -> Iterator[Problem]:
    if file_format not in (None, "delta"):
        text = (
            f"file_format is {file_format}. Change feeds are a feature of Delta tables: "
            "file_format must be delta"
        )
        yield Problem("HW_FILE_FORMAT", text)
    if strategy.needs_key and settings.unique_key is None:
        text = "there is no unique_key: name the column or columns that tell its rows apart"
        yield Problem("HW_NO_UNIQUE_KEY", text)
    yield from (Problem("HW_SETTING", text) for text in _misplaced(strategy, settings))


def _misplaced(strategy: Strategy, settings: ModelSettings) -> Iterator[str]:
    if settings.refresh == "strict" and strategy.name == "replace":
        yield (
            "refresh is strict, and every change replaces the table: use auto, or set refresh: auto"
        )
    if settings.on_lookup_change == "ignore":
        if strategy.marker == "lookup":
            yield (
                "on_lookup_change is ignore. Its inputs are lookups, so no change would reach its "
                "table: leave it out, or name a strategy that follows an input"
            )
        elif not strategy.may_ignore_lookups:
            yield (
                "on_lookup_change is ignore. A deleted row takes away what it added, which a "
                "lookup that changed no longer tells: use affected_keys, or rebuild"
            )
        elif strategy.may_lack_key and settings.unique_key is None:
            yield (
                "on_lookup_change is ignore, and there is no unique_key, so rows with another "
                "value from a lookup could not be found. Name a unique_key"
            )
    if strategy.name == "auto":
        for name in ("latest_by", "derived", "incremental_proof"):
            if getattr(settings, name) is not None:
                yield f"{name} belongs to a strategy that is named: remove it, or name the strategy"
        return
    owners = {"latest_by": "change_feed", "derived": "signed_sum", "on_ties": "auto"}
    for name, owner in owners.items():
        if getattr(settings, name) is not None and strategy.configured_as != owner:
            yield f"{name} belongs to {owner} and would do nothing here"


def settings_table(part: Part) -> str:
    """Return the reference of the settings as Markdown: of a model's runs, or of its table."""
    lines = ["| setting | values | default |", "|---|---|---|"]
    for name, field in ModelSettings.model_fields.items():
        extra = field.json_schema_extra
        if isinstance(extra, dict) and extra["part"] == part:
            cells = [f"`{name}`", str(field.description), str(extra["default"])]
            lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    return "\n".join(lines)
