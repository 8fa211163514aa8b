"""The settings of models, seeds, snapshots and sources: their types, values, names and reference.

A setting is in a node's config, or in its `meta`, where dbt puts unknown names. An empty setting
(`null`, `''`, `[]`, `{}`) counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

from pydantic import ValidationError

from headwaters.analysis import StrategyFacts, strategy_of
from headwaters.platform.fields import explained
from headwaters.platform.names import did_you_mean
from headwaters.platform.nodes import Config, merged_setting, setting
from headwaters.platform.problems import Problem, first_name
from headwaters.tables.setting_types import (
    FOLLOWING,
    INCREMENTAL,
    AnyMapping,
    Columns,
    Duration,
    Expressions,
    Functions,
    Owner,
    Rows,
    Scalars,
    Settings,
    Share,
    Switch,
    Text,
    declared,
    is_empty,
)

_BUT_REPLACE = [name for name in FOLLOWING if name != "replace"]
_BUT_AUTO = [name for name in FOLLOWING if name != "auto"]


class ModelSettings(Settings):
    """The settings of headwaters, typed; None if the project omits one."""

    incremental_strategy: Text | None = declared(
        "`auto`, or the name of [a strategy](#choosing-a-strategy) or of "
        "[one of dbt's own](#dbts-own-strategies)",
        "an incremental model without one, and without `is_incremental()`, is an error",
        of=INCREMENTAL,
    )
    unique_key: Columns | None = declared(
        "the columns that identify a row; NULL is a value",
        "required by `signed_sum`, `history` and `latest_by`; derived by `auto`. `append` ignores "
        "it when it writes; reviews and publications still use it. Without one, all "
        "columns identify a row, and equal rows are "
        "[counted](analysis.md#rows-without-a-key)",
        of=("append", "merge", *FOLLOWING, "snapshot"),
    )
    latest_by: Columns | None = declared(
        "the columns whose greatest row wins (`change_feed`)", of=("change_feed",)
    )
    prune_by: Columns | None = declared(
        "columns that the key determines, such as a transaction's date. A run reads only the rows "
        "of the table within the bounds of their values in the batch. If a key is outside these "
        "bounds, the run reads the whole table",
        of=_BUT_REPLACE,
    )
    derived: Expressions | None = declared(
        "`{column: expression}` over the sums, such as averages (`signed_sum`)",
        of=("signed_sum",),
    )
    on_gap: Literal["rebuild", "fail"] | None = declared(
        "`rebuild`, `fail`: the action if the feed lacks changes",
        "`rebuild`; `fail` for `history`",
        of=FOLLOWING,
    )
    on_lookup_change: Literal["rebuild", "ignore"] | None = declared(
        "`rebuild`, `ignore`: see [Lookups that change](#lookups-that-change)",
        "`rebuild`",
        of=FOLLOWING,
    )
    on_foreign_write: Literal["rebuild", "fail", "warn"] | None = declared(
        "`rebuild`, `fail`, `warn`: the action if a writer other than a run of the model changed "
        "rows of its table",
        "as `on_gap`",
        of=FOLLOWING,
    )
    refresh: Literal["auto", "incremental", "strict"] | None = declared(
        "the action if a run would [replace the table](#strict-models): `auto` replaces it, "
        "`incremental` replaces it with a warning, `strict` fails before it writes",
        "`auto`",
        of=FOLLOWING,
    )
    apply_by: Literal["keys", "merge"] | None = declared(
        "`keys` [replaces changed rows by their keys](decisions/0019-replace-by-keys.md), and "
        "merges if replacing is impossible or costs more. `merge` always merges, for readers of "
        "the table's change feed that need updates as pre- and post-images",
        "`keys`",
        of=FOLLOWING,
    )
    replace_above: Share | None = declared(
        "the run replaces the table if a larger share changed: of its keys (`affected_keys`), of "
        "the input's rows (`signed_sum`), of its rows (`change_feed`). It applies if more than "
        "10,000 rows changed",
        "0.3, 0.5, 0.08; `change_feed`: 0.4 if rows were only inserted",
        of=("change_feed", "affected_keys", "signed_sum", "auto"),
    )
    on_ties: Literal["follow", "replace"] | None = declared(
        "`follow`, `replace`: the action of `auto` if an order [lets rows tie](analysis.md). "
        "`follow`: a run orders the rows again when it computes their key. `replace`: every "
        "change replaces the table",
        "`follow`",
        of=("auto",),
    )
    whole_below: Rows | None = declared(
        "if the table and its inputs have fewer rows, a run "
        "[computes the whole table](#small-tables)",
        "2,000,000 for `auto`. 0 (never) for other strategies, and if the model sets `refresh`, "
        "`replace_above`, `apply_by`, `on_gap` or `on_foreign_write`",
        of=FOLLOWING,
    )
    allow_nondeterministic: Functions | None = declared(
        "functions that the model may use although their results change, such as `current_date` "
        "or `row_number`; rows keep the results of the run that wrote them",
        of=FOLLOWING,
    )
    incremental_proof: Literal["rules", "sample"] | None = declared(
        "`rules`, `sample`: `sample` compares 1,000 rows instead of "
        "[the proof](analysis.md#without-a-proof)",
        "`rules`",
        of=_BUT_AUTO,
    )
    expectations: Any = declared(
        "a list of `{name, expression, on_failure}`: [expectations](tables.md#expectations)"
    )
    tblproperties: Scalars | None = declared(
        "`{property: value}`: properties of the table. Properties of layer, folder and model are "
        "merged, and `null` removes one",
        part="table",
    )
    property_set: Text | None = declared(
        "`interop`: [a named set of properties](tables.md#other-engines)", part="table"
    )
    allow_protocol_upgrade: Switch | None = declared(
        "`true`: properties may change the table's protocol", "`false`", part="table"
    )
    partition_by: Columns | None = declared("columns, as in dbt-spark", part="table")
    cluster_by: Columns | None = declared("columns of liquid clustering", part="table")
    maintenance: AnyMapping | None = declared(
        "the [policy](tables.md#maintenance) of `maintain`; policies of layer, folder and model "
        "are merged",
        part="table",
    )
    runs_every: Duration | None = declared(
        "the time between two runs, such as `6 hours`: inputs must retain their changes for longer",
        part="table",
    )
    owner: Owner | None = declared(
        "the owner of the table", "the property `catalog.team_name`", part="table"
    )
    review_examples: Switch | None = declared(
        "`true`: a [review](review.md) may show rows that differ", "`false`", part="table"
    )
    stream: Any = declared(
        "of a source: the [contract](streams.md#the-contract) of a stream", part="table"
    )

    @classmethod
    def of(cls, config: Config) -> Self:
        """Parse the settings of a node. Raises ValidationError if `value_problems` yields any."""
        return cls.model_validate(given_settings(config))

    @classmethod
    def of_run(cls, config: Config) -> Self:
        """Return the settings in the config of a run, which does not read `meta`."""
        return cls.model_validate(config)

    @property
    def keeps_results(self) -> bool:
        """Return true if rows keep the results of the run that wrote them."""
        return bool(self.allow_nondeterministic) or self.on_lookup_change == "ignore"


# Names that count only in a config: dbt's, and a word that people use in `meta`.
OF_CONFIG = frozenset({"incremental_strategy", "unique_key", "refresh"})
# Settings that merge a config and its `meta`.
ADDED_UP = ("tblproperties", "maintenance")
_OF_RUNS = [name for name in ModelSettings.model_fields if ModelSettings.part_of(name) == "run"]


def given_settings(config: Config) -> dict[str, Any]:
    """Return the settings in a config and its `meta`, without empty ones."""
    found = {
        name: config.get(name) if name in OF_CONFIG else setting(config, name)
        for name in ModelSettings.model_fields
    }
    if isinstance(found["derived"], bool):  # a common word in `meta`
        found["derived"] = config.get("derived")
    for name in ADDED_UP:
        parts = [config.get(name), (config.get("meta") or {}).get(name)]
        wrong = [part for part in parts if not is_empty(part) and not isinstance(part, Mapping)]
        found[name] = wrong[0] if wrong else merged_setting(config, name)
    return {name: value for name, value in found.items() if not is_empty(value)}


def run_config(config: Config) -> dict[str, Any]:
    """Return a model's config for macros: typed settings of runs, without empty ones.

    A setting of another strategy, which the model inherits from its folder, is left out.
    """
    typed, owners = ModelSettings.of(config), ModelSettings.owners()
    strategy = config.get("incremental_strategy")
    kept = {name: value for name, value in config.items() if name not in _OF_RUNS}
    for name in _OF_RUNS:
        value = getattr(typed, name)
        if strategy in FOLLOWING and strategy not in owners.get(name, FOLLOWING):
            continue
        if name in OF_CONFIG or name == "expectations":  # dbt's, and those read by name
            if name in config:
                kept[name] = config[name] if value is not None else None
        elif value is not None:
            kept[name] = list(value) if isinstance(value, tuple) else value
    return kept


def value_problems(config: Config) -> Iterator[Problem]:
    """Yield the settings of headwaters whose values are not of their type."""
    try:
        ModelSettings.of(config)
    except ValidationError as error:
        for text in explained(error, ModelSettings):
            is_duration = text.startswith("runs_every")
            yield Problem("HW_DURATION" if is_duration else "HW_SETTING", text, first_name(text))


def strategy_problems(config: Config) -> Iterator[Problem]:
    """Yield the settings that an incremental model's strategy does not allow."""
    if config.get("materialized", "incremental") != "incremental":
        return
    settings, strategy = ModelSettings.of(config), strategy_of(config)
    if strategy is None:
        given = settings.incremental_strategy
        if given is not None and given not in INCREMENTAL:
            hint = did_you_mean(given, INCREMENTAL).removesuffix("?")
            text = f"incremental_strategy is '{given}'{hint}: allowed are {', '.join(INCREMENTAL)}"
            yield Problem("HW_UNKNOWN_STRATEGY", text, "incremental_strategy")
        elif config.get("file_format") not in (None, "", "delta"):
            text = f"file_format is {config['file_format']}: incremental models are Delta tables, "
            yield Problem("HW_FILE_FORMAT", f"{text}set file_format: delta", "file_format")
        return
    for problem in _combination_problems(strategy, settings, config.get("file_format")):
        yield problem.at(f"incremental_strategy {strategy.configured_as}")


def _combination_problems(
    strategy: StrategyFacts, settings: ModelSettings, file_format: str | None
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


def _misplaced(strategy: StrategyFacts, settings: ModelSettings) -> Iterator[str]:
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
