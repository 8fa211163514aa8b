"""Test that dbt refuses each wrong setting by name while it parses, and takes all others."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from projects import run_dbt

from dbt_headwaters import every_problem
from headwaters.platform.names import misspelt
from headwaters.tables.checks import node_problems
from headwaters.tables.vars_and_targets import output_problems

SQL = "select 1 as id, 2 as v, date'2024-01-01' as d, timestamp'2024-01-01' as ts"
PLACE = "models/m.sql: m: "
FOLLOWING = "headwaters' strategies"


def config_of(strategy: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of a model; without a strategy it has these settings alone."""
    if strategy is None:
        return dict(settings)
    return {"materialized": "incremental", "incremental_strategy": strategy, **settings}


def problems(config: Mapping[str, Any], **more: Any) -> list[str]:
    """Return the lines of a model's problems, without its place."""
    names = {"name": "m", "alias": "m", "schema": "main", "original_file_path": "models/m.sql"}
    node = {"resource_type": "model", "config": config, "is_published": False, **names, **more}
    found = [str(problem) for problem in node_problems(node)]
    assert all("\n" not in line for line in found)
    return [line.replace(PLACE, "") for line in found]


def useless(name: str, owners: str, strategy: str, remedy: str = "remove it") -> str:
    """Return the line of a setting of another strategy."""
    return f"[HW_SETTING] {name} belongs to {owners} and does nothing with {strategy}: {remedy}"


def unknown(given: str, name: str) -> str:
    """Return the line of a name that misspells a setting."""
    return f"[HW_UNKNOWN_SETTING] there is no setting '{given}', did you mean '{name}'?"


KEY = {"unique_key": "id"}
OR_NAME = "remove it, or name the strategy"
ALL_BUT_REPLACE = "change_feed, affected_keys, signed_sum, history and auto"
WITH_KEY = "append, merge, snapshots and headwaters' strategies"

# --- settings of another strategy -----------------------------------------------------------------

OF_ANOTHER_STRATEGY: list[tuple[str, dict[str, Any], str]] = [
    ("merge", {**KEY, "on_gap": "fail"}, useless("on_gap", FOLLOWING, "merge")),
    ("merge", {**KEY, "apply_by": "keys"}, useless("apply_by", FOLLOWING, "merge")),
    ("merge", {**KEY, "latest_by": "ts"}, useless("latest_by", "change_feed", "merge")),
    ("merge", {**KEY, "derived": {"a": "b"}}, useless("derived", "signed_sum", "merge")),
    ("merge", {**KEY, "prune_by": "d"}, useless("prune_by", ALL_BUT_REPLACE, "merge")),
    ("merge", {**KEY, "on_foreign_write": "fail"}, useless("on_foreign_write", FOLLOWING, "merge")),
    (
        "merge",
        {**KEY, "incremental_proof": "sample"},
        useless(
            "incremental_proof",
            "change_feed, affected_keys, signed_sum, history and replace",
            "merge",
        ),
    ),
    (
        "merge",
        {**KEY, "on_lookup_change": "ignore"},
        useless("on_lookup_change", FOLLOWING, "merge"),
    ),
    (
        "merge",
        {**KEY, "allow_nondeterministic": ["rand"]},
        useless("allow_nondeterministic", FOLLOWING, "merge"),
    ),
    (
        "merge",
        {**KEY, "replace_above": 0.5},
        useless("replace_above", "change_feed, affected_keys, signed_sum and auto", "merge"),
    ),
    ("merge", {**KEY, "meta": {"on_gap": "fail"}}, useless("on_gap", FOLLOWING, "merge")),
    ("append", {"on_gap": "fail"}, useless("on_gap", FOLLOWING, "append")),
    (
        "insert_overwrite",
        {"apply_by": "keys"},
        useless("apply_by", FOLLOWING, "insert_overwrite"),
    ),
    (
        "insert_overwrite",
        {"latest_by": "ts"},
        useless("latest_by", "change_feed", "insert_overwrite"),
    ),
    (
        "auto",
        {"merge_update_columns": ["v"]},
        useless("merge_update_columns", "merge", "auto"),
    ),
    (
        "auto",
        {"incremental_predicates": "v>1"},
        useless("incremental_predicates", "merge", "auto"),
    ),
    ("auto", {"predicates": "v>1"}, useless("predicates", "merge", "auto")),
    (
        "auto",
        {"on_schema_change": "fail"},
        useless("on_schema_change", "dbt's strategies", "auto"),
    ),
    ("auto", {"batch_size": "day"}, useless("batch_size", "microbatch", "auto")),
    ("auto", {"latest_by": "ts"}, useless("latest_by", "change_feed", "auto", OR_NAME)),
    ("auto", {"derived": {"a": "b"}}, useless("derived", "signed_sum", "auto", OR_NAME)),
    (
        "signed_sum",
        {**KEY, "prune_by": "d", "merge_update_columns": ["v"]},
        useless("merge_update_columns", "merge", "signed_sum"),
    ),
    ("merge", {**KEY, "batch_size": "day"}, useless("batch_size", "microbatch", "merge")),
    ("merge", {**KEY, "begin": "2024-01-01"}, useless("begin", "microbatch", "merge")),
    ("merge", {**KEY, "lookback": 3}, useless("lookback", "microbatch", "merge")),
    (
        "insert_overwrite",
        {**KEY, "partition_by": "d"},
        useless("unique_key", WITH_KEY, "insert_overwrite"),
    ),
    (
        "microbatch",
        {**KEY, "event_time": "ts", "batch_size": "day", "begin": "2024-01-01"},
        useless("unique_key", WITH_KEY, "microbatch"),
    ),
    (
        "append",
        {"delete_condition": "true"},
        useless("delete_condition", "merge", "append"),
    ),
]

# --- settings that are useless or contradict each other -------------------------------------------

MERGE_NEEDS_KEY = "needs a unique_key: without one no row of the table is matched"
LAYOUT = (
    "[HW_SETTING] partition_by and cluster_by exclude each other: Delta clusters or partitions a "
    "table"
)

COMBINED: list[tuple[str | None, dict[str, Any], str]] = [
    (
        "merge",
        {**KEY, "skip_matched_step": True, "skip_not_matched_step": True},
        "[HW_SETTING] skip_matched_step and skip_not_matched_step leave a merge that changes no "
        "row: remove one, or write a delete_condition or a not_matched_by_source_action",
    ),
    (
        "merge",
        {"merge_update_columns": ["v"]},
        f"[HW_SETTING] merge_update_columns {MERGE_NEEDS_KEY}",
    ),
    (
        "merge",
        {**KEY, "tblproperties": {"delta.appendOnly": "true"}},
        "[HW_SETTING] tblproperties: delta.appendOnly allows new rows alone, and merge changes "
        "rows: remove it",
    ),
    (
        "merge",
        {"unique_key": "id, v"},
        "[HW_SETTING] unique_key: must be a list of columns: [id, v] (given: 'id, v')",
    ),
    (
        "merge",
        {"incremental_predicates": "v > 1"},
        f"[HW_SETTING] incremental_predicates {MERGE_NEEDS_KEY}",
    ),
    (
        "merge",
        {"predicates": "v > 1"},
        f"[HW_SETTING] incremental_predicates {MERGE_NEEDS_KEY}",
    ),
    (
        "merge",
        {"not_matched_by_source_action": "delete"},
        "[HW_SETTING] not_matched_by_source_action needs a unique_key: without one no row of the "
        "table is matched, and the action would change all of them",
    ),
    (
        "merge",
        {**KEY, "merge_with_schema_evolution": True, "on_schema_change": "fail"},
        "[HW_SETTING] merge_with_schema_evolution adds new columns, and on_schema_change: fail "
        "refuses them: keep one of them",
    ),
    (
        "merge",
        {**KEY, "merge_update_columns": ["a"], "merge_exclude_columns": ["b"]},
        "[HW_SETTING] merge_update_columns and merge_exclude_columns exclude each other: keep one "
        "of them",
    ),
    (
        "merge",
        {**KEY, "matched_condition": "true", "skip_matched_step": True},
        "[HW_SETTING] matched_condition does nothing with skip_matched_step: remove one",
    ),
    (
        "merge",
        {**KEY, "not_matched_condition": "true", "skip_not_matched_step": True},
        "[HW_SETTING] not_matched_condition does nothing with skip_not_matched_step: remove one",
    ),
    (
        "merge",
        {**KEY, "not_matched_by_source_condition": "true"},
        "[HW_SETTING] not_matched_by_source_condition does nothing without "
        "not_matched_by_source_action: delete, or update set <column> = <expression>",
    ),
    (
        "merge",
        {**KEY, "source_alias": "a", "target_alias": "A"},
        "[HW_SETTING] source_alias and target_alias are both a: rename one",
    ),
    (
        "auto",
        {"on_gap": "rebuild", "meta": {"on_gap": "fail"}},
        "[HW_SETTING] on_gap is 'rebuild' in config and 'fail' in meta: keep one of them",
    ),
    ("auto", {"partition_by": "d", "cluster_by": "d"}, LAYOUT),
    (None, {"materialized": "table", "partition_by": ["d"], "cluster_by": ["id"]}, LAYOUT),
    (
        "microbatch",
        {"event_time": "ts", "batch_size": "day", "begin": "2024-01-01", "lookback": -1},
        "[HW_SETTING] lookback: must be a whole number, 0 or more (given: -1)",
    ),
    (
        "auto",
        {"allow_nondeterministic": ["curent_date"]},
        "[HW_SETTING] allow_nondeterministic: there is no function 'curent_date', did you mean "
        "'current_date'? (given: ['curent_date'])",
    ),
    (
        None,
        {"materialized": "table", "buckets": 4},
        "[HW_SETTING] buckets does nothing without clustered_by: write both, or remove it",
    ),
    (
        None,
        {"materialized": "table", "clustered_by": "id"},
        "[HW_SETTING] clustered_by does nothing without buckets: write both, or remove it",
    ),
    (
        None,
        {"materialized": "table", "clustered_by": "id", "buckets": 4},
        "[HW_SETTING] clustered_by and buckets are buckets of Hive, which Delta does not have: "
        "write cluster_by",
    ),
    (
        "auto",
        {"partitioned_by": "day"},
        "[HW_SETTING] partitioned_by has no effect here: write partition_by",
    ),
    (
        "auto",
        {"strategy": "merge"},
        "[HW_SETTING] strategy has no effect here: write incremental_strategy",
    ),
    (
        "auto",
        {"liquid_clustered_by": "id"},
        "[HW_SETTING] liquid_clustered_by is a setting of dbt-databricks and has no effect here: "
        "write cluster_by",
    ),
    (
        None,
        {"materialized": "table", "row_filter": {"function": "f", "columns": ["id"]}},
        "[HW_SETTING] row_filter is a setting of dbt-databricks and has no effect here: grant a "
        "view that filters the rows",
    ),
    (
        None,
        {"materialized": "materialized_view"},
        "[HW_SETTING] materialized: Spark has no materialized_view: write incremental, with "
        "incremental_strategy: auto",
    ),
    (
        None,
        {"materialized": "table", "database": "other"},
        "[HW_SETTING] database: other: headwaters writes to one catalog, spark_catalog: remove it, "
        "and name the schema alone",
    ),
    (
        "merge",
        {**KEY, "on_schema_change": "sync_all"},
        "[HW_SETTING] on_schema_change: 'sync_all' is not allowed here, did you mean "
        "'sync_all_columns'? (allowed: ignore, fail, append_new_columns, sync_all_columns)",
    ),
    (
        "merge",
        {**KEY, "skip_matched_step": "yes"},
        "[HW_SETTING] skip_matched_step: must be true or false (given: 'yes')",
    ),
    (
        "merge",
        {**KEY, "source_alias": "new rows"},
        "[HW_SETTING] source_alias: must be a name of letters, digits and underscores (given: "
        "'new rows')",
    ),
    (
        "merge",
        {**KEY, "not_matched_by_source_action": "remove"},
        "[HW_SETTING] not_matched_by_source_action: must be delete, or update set <column> = "
        "<expression> (given: 'remove')",
    ),
]

# --- misspelt settings ----------------------------------------------------------------------------

DBT_SLIPS = {
    "materialised": "materialized",
    "persist_doc": "persist_docs",
    "contracts": "contract",
    "enable": "enabled",
    "pre_hooks": "pre_hook",
    "not_matched_by_source_acton": "not_matched_by_source_action",
    "unqiue_key": "unique_key",
    "Matched_Condition": "matched_condition",
    "Materialized": "materialized",
    "on_gop": "on_gap",
}
MISSPELT: list[tuple[str | None, dict[str, Any], str]] = [
    *((None, {given: "x"}, unknown(given, name)) for given, name in DBT_SLIPS.items()),
    (
        None,
        {"persist_docs": {"relatoin": True}},
        "[HW_UNKNOWN_SETTING] persist_docs: 'relatoin' is not a key here, did you mean "
        "'relation'? (allowed: columns, relation)",
    ),
    (
        None,
        {"contract": {"enforce": True}},
        "[HW_UNKNOWN_SETTING] contract: 'enforce' is not a key here, did you mean 'enforced'? "
        "(allowed: alias_types, enforced)",
    ),
    (None, {"meta": {"streem": {"from": "files"}}}, unknown("meta.streem", "meta.stream")),
    (
        None,
        {"event_time": 5},
        "[HW_SETTING] event_time: must be a column (given: 5)",
    ),
]


@pytest.mark.parametrize(
    ("strategy", "settings", "line"), [*OF_ANOTHER_STRATEGY, *COMBINED, *MISSPELT]
)
def test_a_wrong_setting_is_one_line(
    strategy: str | None, settings: dict[str, Any], line: str
) -> None:
    assert problems(config_of(strategy, settings)) == [line]


@pytest.mark.parametrize(("strategy", "settings", "line"), OF_ANOTHER_STRATEGY)
def test_a_setting_of_a_folder_may_belong_to_another_strategy(
    strategy: str, settings: dict[str, Any], line: str
) -> None:
    config = config_of(strategy, settings)
    own = {"materialized": "incremental"}
    assert problems(config, config_call_dict=own) == []
    assert problems(config, config_call_dict=config, is_of_package=True, written=frozenset()) == []
    name = line.split()[1]
    if name != "unique_key":  # which states a fact about the rows, under any strategy
        own |= {key: value for key, value in settings.items() if key in (name, "meta")}
        assert problems(config, config_call_dict=own) == [line]


def test_a_published_model_has_a_key_under_any_strategy() -> None:
    for strategy in ("append", "insert_overwrite"):
        assert problems(config_of(strategy, KEY), is_published=True) == []


def test_a_model_with_a_contract_states_its_schema_changes_under_any_strategy() -> None:
    config = config_of("auto", {"on_schema_change": "fail", "contract": {"enforced": True}})
    assert problems(config) == []
    assert len(problems({**config, "contract": {"enforced": False}})) == 1


def test_a_model_may_overrule_the_meta_of_its_folder() -> None:
    config = config_of("auto", {"on_gap": "rebuild", "meta": {"on_gap": "fail", "a": 1}})
    assert problems(config, config_call_dict={"on_gap": "rebuild", "meta": {"a": 1}}) == []
    assert len(problems(config, config_call_dict={"meta": {"on_gap": "fail"}})) == 1
    assert problems({"partition_by": ["d"], "meta": {"partition_by": "d"}}) == []


def test_what_hides_rows_is_an_error_wherever_it_stands() -> None:
    folder = {"materialized": "table", "row_filter": "f", "liquid_clustered_by": "id"}
    line = "row_filter is a setting of dbt-databricks and has no effect here: grant a view that "
    assert problems(folder, config_call_dict={}) == [f"[HW_SETTING] {line}filters the rows"]
    columns = {"id": {"name": "id", "column_mask": {"function": "f"}}}
    line = "column id: column_mask is a setting of dbt-databricks and has no effect here: grant a "
    assert problems({"materialized": "table"}, columns=columns) == [
        f"[HW_SETTING] {line}view that masks the columns"
    ]


def test_what_is_written_is_in_one_catalog() -> None:
    source = {"resource_type": "source", "database": "other"}
    assert problems({}, **source) == []
    assert problems({"meta": {"stream": {"from": "files"}}}, **source) == [
        "[HW_SETTING] models/m.sql: other.main.m: database: other: headwaters writes to one "
        "catalog, spark_catalog: remove it, and name the schema alone"
    ]
    for same in ("spark_catalog", None, ""):
        assert problems({"materialized": "table", "database": same}) == []


@pytest.mark.parametrize("name", ["anna-lee", "anna.lee", "Änne", "a b", "a`b"])
def test_names_that_spark_reads_in_quotes_alone_are_refused(name: str) -> None:
    why = f"'{name}' is no name that Spark reads: write letters from a to z, digits and _"
    table = {"materialized": "table"}
    assert problems(table, schema=name) == [f"[HW_SETTING] schema: {why}"]
    assert problems(table, identifier=name) == [f"[HW_SETTING] alias: {why}"]
    assert problems({"materialized": "ephemeral"}, schema=name) == []
    target = {"type": "headwaters", "schema": name}
    assert list(map(str, output_problems(target, target))) == [f"[HW_SETTING] schema: {why}"]
    for good in ("2fast", "select", "main_1"):
        assert problems(table, schema=good, identifier=good) == []


# Settings of other adapters and of packages, and words of projects.
OF_OTHERS = """
    alias_prefix automatic_clustering backup base_location_root base_location_subpath begin_at
    bind bucket catalog contact copy_grants copy_partitions data_owner dist domain
    enable_refresh engine event_name event_type external external_volume format grant_access_to
    group_name hours_to_expiration indexes initialize inserts_only kms_key_name labels lf_tags
    location max_staleness on_table_exists option order_by owners package partition
    partition_expiration_days primary_key priority properties query_settings query_tag
    refresh_interval_minutes refresh_mode require_partition_filter s3_data_dir schema_name
    scheme secure session_properties sharding_key sla snowflake_warehouse sort sort_type steam
    streams strategy_owner table_type tag target_lag team tier tmp_relation_type transient ttl
    unlogged updated_by unique_id view_security
    """


def test_names_of_other_adapters_and_projects_are_taken() -> None:
    given = dict.fromkeys(OF_OTHERS.split(), "x")
    for kind in ("model", "seed", "snapshot", "source"):
        assert problems({**given, "meta": given}, resource_type=kind) == []


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("onwer", "owner"), ("ownr", "owner"), ("streem", "stream"), ("strem", "stream"),
        ("tbl_properties", "tblproperties"), ("tgas", "tags"), ("lak", "lake"),
        ("maintainance", "maintenance"), ("incremental_predicat", "incremental_predicates"),
        ("incremental_strategies", "incremental_strategy"), ("sql_headers", "sql_header"),
        ("owned", None), ("own", None), ("team", None), ("latest_at", None), ("stream_id", None),
        ("updated_by", None), ("lane", None), ("partition_at", None),
    ],
)  # fmt: skip
def test_a_slip_is_near_a_name_by_its_length(given: str, name: str | None) -> None:
    names = ["owner", "stream", "tblproperties", "tags", "lake", "maintenance", "latest_by"]
    names += ["updated_at", "partition_by", "incremental_predicates", "incremental_strategy"]
    names += ["sql_header"]
    assert misspelt(given, names) == name


# --- the project as dbt reads it ------------------------------------------------------------------

YAML: dict[str, Any] = {
    "models": [
        {"name": "beside", "on_gp": "fail", "config": {"materialized": "view"}},
        {"name": "beside_too", "on_gap": "fail", "materialized": "table", "tags": ["a"]},
        {"name": "confg", "confg": {"materialized": "table"}, "owner": "us", "acces": "public"},
        {"name": "in_yaml", "config": {"merge_update_columns": ["v"]}},
        {"name": "parts", "config": {"contract": {"enforce": True}}},
        {
            "name": "versioned",
            "versions": [{"v": 1, "config": {"apply_by": "keys"}}, {"v": 2}],
        },
    ],
    "sources": [
        {
            "name": "slip",
            "config": {"evnt_time": "ts"},
            "tables": [{"name": "events"}],
        },
        {
            "name": "raw",
            "tables": [
                {"name": "late", "config": {"event_time": 5}},
                {"name": "streem", "config": {"meta": {"streem": {"from": "files"}}}},
                {"name": "beside", "stream": {"from": "files"}},
                {"name": "formt", "config": {"meta": {"stream": {"from": "files", "formt": "x"}}}},
                {"name": "file", "config": {"meta": {"stream": {"from": "file"}}}},
                {
                    "name": "types",
                    "config": {
                        "meta": {"stream": {"from": "files", "path": "x", "format": "json"}}
                    },
                    "columns": [
                        {"name": "id", "data_type": "bigintt", "constraint": [{"type": "check"}]},
                        {"name": "at", "data_typ": "date"},
                        {"name": "born", "data_type": "date", "from": "b", "pii": "customer"},
                    ],
                },
            ],
        },
    ],
    "snapshots": [
        {"name": "s1", "relation": "ref('plain')", "config": {"hard_deletes": "new_records"}},
        {"name": "s2", "relation": "ref('plain')", "config": {"check_col": "all"}},
        {
            "name": "s3",
            "relation": "ref('plain')",
            "config": {"snapshot_meta_columns_names": {}, "target_schem": "x"},
        },
        {
            "name": "s4",
            "relation": "ref('plain')",
            "config": {"snapshot_meta_column_names": {"dbt_valid_frm": "a"}},
        },
        {
            "name": "s5",
            "relation": "ref('plain')",
            "config": {"hard_deletes": "new_record", "invalidate_hard_deletes": True},
        },
        {
            "name": "s6",
            "relation": "ref('plain')",
            "config": {"incremental_strategy": "merge", "on_schema_change": "fail"},
        },
        {"name": "s7", "relation": "ref('plain')", "config": {"strategy": "timestamps"}},
    ],
}
MODELS = {
    "plain": "",
    "beside": "",
    "beside_too": "",
    "confg": "",
    "in_yaml": "",
    "parts": "",
    "appends": "{{ config(incremental_strategy='append', somebodys='own') }}",
    "merges": "{{ config(incremental_strategy='merge', unique_key='id') }}",
    "incremantal": "{{ config(materialized='incremantal') }}",
    "tabel": "{{ config(materialized='tabel') }}",
    "custom": "{{ config(materialized='my_own') }}",
    "versioned_v1": "{{ config(incremental_strategy='append') }}",
    "versioned_v2": "{{ config(incremental_strategy='append') }}",
}
PROJECT = {
    "name": "wrong",
    "version": "1.0.0",
    "profile": "headwaters",
    "models": {
        "wrong": {
            "+materialized": "incremental",
            "+incremental_strategy": "auto",
            "+incremental_predicates": "v > 1",
            "+on_schema_change": "append_new_columns",
            "+apply_by": "keys",
            "tabel": {"+on_gpa": "fail"},
            "incremantal": {"+on_gpa": "fail"},  # one line for both
        }
    },
    "snapshots": {"+strategy": "check", "+check_cols": "all", "+unique_key": "id"},
}


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the lines of every problem of a project with one mistake a node."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "models").mkdir()
    (folder / "dbt_project.yml").write_text(json.dumps(PROJECT))
    (folder / "models" / "all.yml").write_text(json.dumps(YAML))
    for name, config in MODELS.items():
        (folder / "models" / f"{name}.sql").write_text(f"{config}\n{SQL}\n")
    manifest = run_dbt(folder, "parse", project_dir=folder).result
    return sorted(set(map(str, every_problem(manifest))))


ALLOWED = "(allowed: ephemeral, incremental, materialized_view, table, view)"
BESIDE = "is beside config, where dbt does not read it: write it in config"
COLUMN_NAMES = "dbt_is_deleted, dbt_scd_id, dbt_updated_at, dbt_valid_from, dbt_valid_to"
OF_STREAMS = (
    "from, path, topics, servers, client, start, data_loss, on_change, rows_per_second, format, "
    "layout, options, registry, schemas, schemas_user, changes, batch, trigger, schema, "
    "bad_records, deduplicate, writers"
)


def at(place: str, line: str) -> str:
    """Return a line with the place of its node."""
    code, _, text = line.partition(" ")
    return f"{code} {place}: {text}"


def of_column(name: str, line: str) -> str:
    return at(f"column {name}", line)


def test_dbt_refuses_each_by_name(parsed: list[str]) -> None:
    yaml = "models/all.yml"
    assert parsed == sorted(
        [
            f"[HW_CONTRACT] {yaml}: raw.file: config.meta.stream.from: 'file' is not allowed here, "
            "did you mean 'files'? (allowed: files, kafka, delta, delta_changes, rate)",
            f"[HW_CONTRACT] {yaml}: raw.formt: config.meta.stream: 'formt' is not a key here, did "
            f"you mean 'format'? (allowed: {OF_STREAMS})",
            f"[HW_CONTRACT] {yaml}: raw.types: column at: data_type is missing",
            f"[HW_CONTRACT] {yaml}: raw.types: column id: data_type 'bigintt' is not a type here, "
            "did you mean 'bigint'? (allowed: string, boolean, tinyint, smallint, int, bigint, "
            "float, double, decimal, date, timestamp, timestamp_ntz, binary, variant, array, map, "
            "struct)",
            f"[HW_SETTING] {yaml}: beside_too: materialized {BESIDE}",
            f"[HW_SETTING] {yaml}: beside_too: on_gap {BESIDE}",
            f"[HW_SETTING] {yaml}: raw.beside: stream {BESIDE}",
            *(
                f"[HW_SETTING] {yaml}: raw.types: column born: {key} is beside config, where "
                f"nothing reads it: write config: {{meta: {{{key}: …}}}}"
                for key in ("from", "pii")
            ),
            f"[HW_SETTING] {yaml}: raw.late: event_time: must be a column (given: 5)",
            f"[HW_SETTING] {yaml}: s1: hard_deletes: 'new_records' is not allowed here, did you "
            "mean 'new_record'? (allowed: ignore, invalidate, new_record)",
            f"[HW_SETTING] {yaml}: s5: hard_deletes and invalidate_hard_deletes exclude each "
            "other: keep hard_deletes",
            at(f"{yaml}: s6", useless("incremental_strategy", "incremental models", "a snapshot")),
            at(f"{yaml}: s6", useless("on_schema_change", "dbt's strategies", "a snapshot")),
            f"[HW_SETTING] {yaml}: s7: strategy: 'timestamps' is not allowed here, did you mean "
            "'timestamp'? (allowed: check, timestamp)",
            "[HW_SETTING] models/incremantal.sql: incremantal: materialized: 'incremantal' is not "
            f"allowed here, did you mean 'incremental'? {ALLOWED}",
            "[HW_SETTING] models/tabel.sql: tabel: materialized: 'tabel' is not allowed here, did "
            f"you mean 'table'? {ALLOWED}",
            at(
                "models/versioned_v1.sql: versioned",
                useless("apply_by", "headwaters' strategies", "append"),
            ),
            at("models/in_yaml.sql: in_yaml", useless("merge_update_columns", "merge", "auto")),
            at("dbt_project.yml", unknown("on_gpa", "on_gap")),
            at(f"{yaml}: beside", unknown("on_gp", "on_gap")),
            at(f"{yaml}: confg", unknown("acces", "access")),
            at(f"{yaml}: confg", unknown("confg", "config")),
            at(f"{yaml}: slip.events", unknown("evnt_time", "event_time")),
            at(f"{yaml}: raw.types", of_column("at", unknown("data_typ", "data_type"))),
            at(f"{yaml}: raw.types", of_column("id", unknown("constraint", "constraints"))),
            at(f"{yaml}: raw.streem", unknown("meta.streem", "meta.stream")),
            at(f"{yaml}: s2", unknown("check_col", "check_cols")),
            at(f"{yaml}: s3", unknown("snapshot_meta_columns_names", "snapshot_meta_column_names")),
            at(f"{yaml}: s3", unknown("target_schem", "target_schema")),
            f"[HW_UNKNOWN_SETTING] {yaml}: s4: snapshot_meta_column_names: 'dbt_valid_frm' is not "
            f"a key here, did you mean 'dbt_valid_from'? (allowed: {COLUMN_NAMES})",
            "[HW_UNKNOWN_SETTING] models/parts.sql: parts: contract: 'enforce' is not a key here, "
            "did you mean 'enforced'? (allowed: alias_types, enforced)",
        ]
    )


def test_a_wrong_value_of_dbt_project_yml_is_one_line_for_all_its_models(tmp_path: Path) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "strategy": {"+incremental_strategy": "atuo"},
        "value": {"+on_gap": "rebuilt"},
        "meta": {"+meta": {"on_gap": "rebuilt"}},
        "length": {"+runs_every": "soon"},
        "stock": {"+incremental_strategy": "append", "+on_schema_change": "fial"},
        "synonym": {"+incremental_strategy": "merge", "+unique_key": "id", "+predicates": 5},
        "property": {"+tblproperties": {"delta.appendOnyl": True}},
        "build": {"+materialized": "incremantal"},
        "named_set": {"+property_set": "intrep"},
        "policy": {"+maintenance": {"vacum": "daily"}},
    }
    own = {  # the model's own values, which take precedence
        "value": "{{ config(on_gap='rebuild_it') }}",
        "meta": "{{ config(meta={'on_gap': 'rebuild_it'}) }}",
        "synonym": "{{ config(predicates=6) }}",
        "property": "{{ config(tblproperties={'delta.appendOnyl': false}) }}",
    }
    defaults = {"+materialized": "incremental", "+incremental_strategy": "auto"}
    project = {**PROJECT, "models": {"wrong": {**defaults, **wrong}}, "snapshots": {}}
    (tmp_path / "dbt_project.yml").write_text(json.dumps(project))
    for folder in wrong:
        (tmp_path / "models" / folder).mkdir(parents=True)
        for number in (1, 2):
            (tmp_path / "models" / folder / f"{folder}_{number}.sql").write_text(SQL)
        if folder in own:
            path = tmp_path / "models" / folder / f"{folder}_3.sql"
            path.write_text(f"{own[folder]}\n{SQL}")
    manifest = run_dbt(tmp_path, "parse", project_dir=tmp_path).result
    found = sorted(str(problem) for problem in dict.fromkeys(every_problem(manifest)))
    places = [tuple(re.split(r"(?<=\]) |: ", line)[:2]) for line in found]
    assert places == [
        *[(f"[HW_{code}]", "dbt_project.yml") for code in ("DURATION", "MAINTENANCE_POLICY")],
        *[("[HW_SETTING]", "dbt_project.yml")] * 4,  # `value` and `meta` are the same line
        *[("[HW_SETTING]", f"models/{it}/{it}_3.sql") for it in ("meta", "synonym", "value")],
        ("[HW_UNKNOWN_PROPERTY]", "dbt_project.yml"),
        ("[HW_UNKNOWN_PROPERTY]", "models/property/property_3.sql"),
        ("[HW_UNKNOWN_PROPERTY_SET]", "dbt_project.yml"),
        ("[HW_UNKNOWN_STRATEGY]", "dbt_project.yml"),
    ]
