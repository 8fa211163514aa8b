"""Test declarations of tables: read, checked and compared without Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbt_headwaters import every_problem
from headwaters.analysis import expectations_of
from headwaters.platform.delta_version import TABLE_PROPERTIES
from headwaters.platform.errors import UserError
from headwaters.platform.names import nearest, not_allowed, or_nearest
from headwaters.platform.units import bytes_of, milliseconds_of
from headwaters.runs.hidden_tables import settings_of_hidden_table
from headwaters.runs.model import Model
from headwaters.tables.checks import graph_problems, node_problems, some
from headwaters.tables.drift import (
    TableDifference,
    bare_expression,
    comment_drift,
    created_checks,
    declared_table,
    drift_lines,
    drift_of,
    plan_lines,
    undo_of,
)
from headwaters.tables.policy import Policy, policy_of
from headwaters.tables.properties import (
    created_properties,
    declared_properties,
    is_same,
    normal_value,
    property_problems,
)

# --- sizes and times ------------------------------------------------------------------------------

SIZES = {"b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "GB": 2**30}
TIMES = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "microseconds": 0.001,
    "millisecond": 1,
    "Seconds": 1_000,
    "minutes": 60_000,
    "hour": 3_600_000,
    "days": 86_400_000,
    "WEEKS": 604_800_000,
}
SPACE = st.sampled_from(["", " ", "  "])


@given(st.integers(0, 10**9), st.sampled_from(list(SIZES)), SPACE, SPACE)
def test_a_size_is_read_in_either_spelling(number: int, unit: str, one: str, other: str) -> None:
    assert bytes_of(f"{other}{number}{one}{unit}{other}") == number * SIZES[unit]


@given(
    st.lists(st.tuples(st.integers(0, 9999), st.sampled_from(list(TIMES))), min_size=1, max_size=4),
    st.sampled_from(["", "interval ", "INTERVAL  "]),
    SPACE,
)
def test_a_time_is_the_sum_of_its_terms(
    terms: list[tuple[int, str]], prefix: str, space: str
) -> None:
    text = prefix + " ".join(f"{number}{space}{unit}" for number, unit in terms)
    assert milliseconds_of(text) == pytest.approx(sum(n * TIMES[unit] for n, unit in terms))


@given(st.text(max_size=12))
def test_any_text_is_a_size_or_time_or_nothing(text: str) -> None:
    for value in (bytes_of(text), milliseconds_of(text)):
        assert value is None or value >= 0


@pytest.mark.parametrize(
    "text", ["", "5", "big", "1 month", "1 year", "-1 day", "1..5 h", "s", "None"]
)
def test_what_is_neither_size_nor_time_is_none(text: str) -> None:
    assert (bytes_of(text), milliseconds_of(text)) == (None, None)


# --- names ----------------------------------------------------------------------------------------


def test_a_hint_names_what_is_alike_and_nothing_else() -> None:
    assert nearest("FORMT", ["path", "format"]) == "format"
    assert nearest("delta.xyz", TABLE_PROPERTIES, "delta.") is None
    meant = nearest("delta.loRgetentionDuratio", TABLE_PROPERTIES, "delta.")
    assert meant == "delta.logRetentionDuration"
    assert (
        or_nearest("silver_order", ["gold.a", "silver_orders"]) == ", did you mean 'silver_orders'"
    )
    assert or_nearest("`", ["b", "a", "b"]) == ", there are a, b"
    in_a_schema = "analytics_of_somebody_silver.silver_orders"
    assert or_nearest("silver_order", [in_a_schema]) == f", did you mean '{in_a_schema}'"
    names = ["silver.orders", "silver.silver_orders"]
    assert or_nearest("silver_order", names) == ", did you mean 'silver.silver_orders'"
    assert or_nearest("silver.order", names) == ", did you mean 'silver.orders'"
    assert not_allowed("zzz", ["a", "b"]) == "'zzz' is not a key here (allowed: a, b)"


# --- values of properties -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("delta.logRetentionDuration", "1 day", "interval 24 hours"),
        ("delta.logRetentionDuration", "interval 1 week", "INTERVAL 6 days 24 hours"),
        ("delta.appendOnly", "TRUE", "true"),
        ("delta.appendOnly", True, "true"),
        ("delta.checkpointInterval", "010", 10),
        ("delta.dataSkippingStatsColumns", "id , Day", "ID,day"),
        ("delta.columnMapping.mode", "Name", "name"),
        ("note", "x", "x"),
    ],
)
def test_values_that_mean_the_same_are_the_same(name: str, one: Any, other: Any) -> None:
    assert is_same(name, one, other)
    assert is_same(name, other, one)


@given(st.sampled_from([*TABLE_PROPERTIES, "note"]), st.text(max_size=8), st.text(max_size=8))
def test_the_same_is_symmetric_and_nothing_else_is(name: str, one: str, other: str) -> None:
    assert is_same(name, one, one)
    assert is_same(name, one, other) == is_same(name, other, one)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("delta.logRetentionDuration", "1 day", "2 days"),
        ("delta.logRetentionDuration", "soon", "later"),
        ("note", "x", "X"),
    ],
)
def test_other_values_are_other_values(name: str, one: str, other: str) -> None:
    assert not is_same(name, one, other)


@pytest.mark.parametrize("text", ["30s", "5h", "1day", "1.5 days ago", "interval", "1 month"])
def test_an_interval_is_what_delta_reads(text: str) -> None:
    assert normal_value("interval", text) is None


def test_properties_of_config_meta_and_set_are_merged() -> None:
    config = {
        "tblproperties": {"a": 1, "b": True, "c": "x"},
        "meta": {"tblproperties": {"B": "y", "c": None}, "property_set": "interop"},
    }
    assert created_properties(config) == {
        "a": "1",
        "b": "true",
        "B": "y",
        "delta.enableDeletionVectors": "false",
        "delta.columnMapping.mode": "none",
        "delta.enableTypeWidening": "false",
        "delta.checkpointPolicy": "classic",
        "headwaters.declared": "a, b, B, delta.checkpointPolicy, delta.columnMapping.mode, "
        "delta.enableDeletionVectors, delta.enableTypeWidening",
    }


def test_writes_are_optimized_where_a_merge_would_not_find_a_partition_column() -> None:
    name = "delta.autoOptimize.optimizeWrite"
    assert declared_properties({"partition_by": ["day", "a.b"]}) == {name: "true"}
    assert declared_properties({"partition_by": "day"}) == {}
    assert declared_properties({"cluster_by": "a.b"}) == {}
    for value in (True, "True", None):
        config = {"partition_by": "a.b", "tblproperties": {name: value}}
        assert not list(property_problems(config))
    refused = {"partition_by": "a.b", "tblproperties": {name: False}}
    assert [str(problem) for problem in property_problems(refused)] == [
        "[HW_PROPERTY_VALUE] tblproperties: 'delta.autoOptimize.optimizeWrite' must be true, since "
        "Delta's MERGE does not find the partition column 'a.b' otherwise: leave it out."
    ]


# --- drift ----------------------------------------------------------------------------------------

ROW: dict[str, Any] = {
    "properties": {},
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "tableFeatures": ["v2Checkpoint"],
    "clusteringColumns": [],
    "partitionColumns": [],
    "description": None,
}
NAMES = st.sampled_from(["a", "B", "delta.appendOnly", "delta.logRetentionDuration", "note"])
PROPERTIES = st.dictionaries(NAMES, st.sampled_from(["true", "FALSE", "1 day", "24 hours"]))
CHECKS = st.dictionaries(
    st.sampled_from(["Sold", "known", "Ünique"]),
    st.sampled_from(["a > 0", "( A>0 )", "b = 'X'", "b = 'x'"]),
)
COLUMNS = st.lists(st.sampled_from(["day", "x, y"]), unique=True)
COMMENTS = st.sampled_from([None, "One row per order.", "it's"])


def node(**more: Any) -> dict[str, Any]:
    """Return a model of gold."""
    config = {"materialized": "table", **more.pop("config", {})}
    path = {"original_file_path": "models/gold/some.sql", "depends_on": {"nodes": []}}
    names = {"name": "some", "schema": "gold", "alias": "some", "resource_type": "model"}
    return {**names, **path, "description": "", "config": config, **more}


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    """Return a node that declares a table in some way, or nothing of it."""
    comment = draw(COMMENTS)
    config = {
        "tblproperties": draw(PROPERTIES),
        "cluster_by": draw(COLUMNS),
        "persist_docs": {"relation": comment is not None},
    }
    checks = [
        {"type": "check", "name": name, "expression": expression}
        for name, expression in draw(CHECKS).items()
    ]
    columns = {name: {"constraints": [{"type": "not_null"}]} for name in draw(COLUMNS)}
    return node(config=config, constraints=checks, columns=columns, description=comment)


@st.composite
def details(draw: st.DrawFn) -> dict[str, Any]:
    """Return a table as DESCRIBE DETAIL shows it: from another declaration, and changed by hand."""
    made = applied(drift_of(declared_table(draw(nodes())), ROW).changes, ROW)
    by_hand = {**made["properties"], **draw(PROPERTIES)}
    columns = {"clusteringColumns": draw(COLUMNS), "description": draw(COMMENTS)}
    return {**made, **columns, "properties": by_hand}


def applied(changes: Sequence[TableDifference], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table after the statements of changes."""
    result = {**row, "properties": dict(row["properties"])}
    keys = {"clustering": "clusteringColumns", "partitioning": "partitionColumns"}
    for change in changes:
        if change.kind in keys:
            result[keys[change.kind]] = list(change.after or ())
        elif change.name == "comment":
            result["description"] = change.after
        else:
            prefix = "delta.constraints." if change.kind == "check" else ""
            name = change.name.lower() if prefix else change.name
            result["properties"].pop(prefix + name, None)
            if change.after is not None:
                result["properties"][prefix + name] = change.after
    return result


def test_a_maintained_table_has_a_change_feed_unless_it_is_declared_otherwise() -> None:
    feed = "delta.enableChangeDataFeed"
    auto = {"materialized": "incremental", "incremental_strategy": "auto"}
    assert declared_properties(auto) == {feed: "true"}
    for other in ({"materialized": "table"}, {"incremental_strategy": "merge"}):
        assert declared_properties(auto | other) == {}
    assert declared_properties(auto | {"file_format": "parquet"}) == {}
    assert declared_properties(auto | {"tblproperties": {feed: None}}) == {}
    assert declared_properties(auto | {"tblproperties": {feed: False}}) == {feed: "false"}
    mapped = {"delta.columnMapping.mode": "name"}
    assert declared_properties(auto | {"tblproperties": mapped}) == mapped


def test_a_table_of_a_cut_query_has_a_change_feed_and_its_hidden_tables_none() -> None:
    feed, retention = "delta.enableChangeDataFeed", "delta.logRetentionDuration"
    config = {
        "materialized": "incremental",
        "incremental_strategy": "staged",
        "derivation": {"strategy": "staged"},
        "tblproperties": {retention: "interval 3 days"},
    }
    assert declared_properties(config) == {feed: "true", retention: "interval 3 days"}
    model = cast(Model, SimpleNamespace(config=config, target="main.shares"))
    hidden = settings_of_hidden_table(model, {"unique_key": ["hw_1"]})
    assert declared_properties(hidden) == {retention: "interval 3 days"}


@given(nodes(), details())
def test_what_was_reconciled_does_not_differ(declared: dict[str, Any], row: dict[str, Any]) -> None:
    table = declared_table(declared)
    after = applied(drift_of(table, row).changes, row)
    assert drift_of(table, after).changes == []


@given(nodes(), details())
def test_the_undo_of_changes_takes_them_back(declared: dict[str, Any], row: dict[str, Any]) -> None:
    changes = drift_of(declared_table(declared), row).changes
    assert applied(undo_of(changes), applied(changes, row)) == row


@given(nodes(), details())
def test_what_others_set_is_left_alone(declared: dict[str, Any], row: dict[str, Any]) -> None:
    row["properties"] |= {"theirs": "stays", "delta.constraints.by_hand": "a > 0"}
    changes = drift_of(declared_table(declared), row).changes
    assert {change.name for change in changes}.isdisjoint({"theirs", "by_hand"})


def test_each_kind_of_change_has_its_line_in_order() -> None:
    row = ROW | {
        "properties": '{"headwaters.declared": "old, delta.constraints.gone", "old": "1", '
        '"delta.constraints.gone": "x", "delta.appendOnly": "false", '
        '"delta.constraints.sold": "(amount >0)"}',
        "clusteringColumns": '["customer", "day"]',
    }
    declared = node(
        config={
            "tblproperties": {
                "note": "it's",
                "delta.appendOnly": True,
                "delta.minReaderVersion": 1,
            },
            "cluster_by": "day",
            "persist_docs": {"relation": True},
        },
        description="One row per order.",
        constraints=[
            {"type": "check", "name": "Sold", "expression": "`amount` > 0"},
            {"type": "check", "expression": "id > 0"},
            {"type": "not_null", "columns": ["id"]},
        ],
        columns={
            "Order Day": {"constraints": [{"type": "unique"}, {"type": "not_null"}]},
            "`customer`": {"constraints": [{"type": "not_null"}]},
            "note": {"constraints": []},
        },
    )
    changes = drift_of(declared_table(declared), row).changes
    lines = drift_lines(changes)
    unnamed = hashlib.md5(b";id > 0;2").hexdigest()  # as dbt-spark names it
    assert lines == [
        "  ~ delta.appendOnly: false -> true",
        "  + note: it's",
        "  - old: 1",
        f"  + constraint {unnamed}: id > 0",
        "  + constraint id_not_null: `id` is not null",
        "  + constraint order day_not_null: `Order Day` is not null",
        "  + constraint customer_not_null: `customer` is not null",
        "  - constraint gone: x",
        "  ~ clustered by: customer, day -> day",
        "  + comment: One row per order.",
    ]
    assert plan_lines({"gold.some": changes, "gold.noted": []}, ["a", "b"], ["c"], ["d"]) == [
        "gold.some",
        *lines,
        "1 as declared, without the note of which properties are ours",
        "no Delta tables, left alone: c",
        "not built yet: d",
        "plan: 10 changes in 1 tables, 2 as declared",
    ]


def test_a_table_is_created_as_it_is_declared() -> None:
    declared = node(
        config={"tblproperties": {"note": "x"}},
        constraints=[{"type": "check", "name": "Sold", "expression": "amount > 0"}],
        columns={"id": {"constraints": [{"type": "not_null"}]}},
    )
    made = {**created_properties(declared["config"]), **created_checks(declared)}
    assert made == {
        "note": "x",
        "delta.constraints.sold": "amount > 0",
        "delta.constraints.id_not_null": "`id` is not null",
        "headwaters.declared": "delta.constraints.id_not_null, delta.constraints.sold, note",
    }
    assert drift_of(declared_table(declared), ROW | {"properties": made}).changes == []
    assert created_checks(node(config={"tblproperties": {"note": "x"}})) == {}


def test_a_clustered_table_cannot_become_partitioned() -> None:
    declared = declared_table(node(config={"partition_by": "day"}))
    assert drift_lines(drift_of(declared, ROW).changes) == [
        "  + partitioned by: day (rewrites the table)"
    ]
    problem = drift_of(declared, ROW | {"clusteringColumns": ["id"]}).problem
    assert problem is not None
    assert problem.startswith("gold.some is clustered, and Delta does not partition")
    assert undo_of(drift_of(declared, ROW).changes) == []


def test_of_a_source_only_what_is_declared_is_compared() -> None:
    row = ROW | {"clusteringColumns": ["day"]}
    source = node(
        resource_type="source", identifier="events", config={"meta": {"stream": {"a": 1}}}
    )
    assert declared_table(source).name == "gold.events"
    assert drift_lines(drift_of(declared_table(source), row).changes) == [
        "  + delta.enableChangeDataFeed: true"
    ]


def test_comments_of_columns_are_their_descriptions() -> None:
    columns = {
        "ID": {"description": "the key"},
        "day": {"description": "its day"},
        "more": {"description": ""},
    }
    rows: list[dict[str, Any]] = [
        {"col_name": "id", "comment": None},
        {"col_name": "day", "comment": "other"},
        {"col_name": "more", "comment": "kept"},
        {"col_name": "", "comment": ""},
        {"col_name": "day", "comment": None},
    ]
    assert drift_lines(comment_drift(columns, rows)) == [
        "  + comment of id: the key",
        "  ~ comment of day: other -> its day",
    ]


def test_conditions_are_compared_without_case_and_brackets_outside_of_texts() -> None:
    assert bare_expression("(A  > 0) and b='It\\'s (X)'") == "a>0andb='It\\'s (X)'"


# --- policy, expectations, retention --------------------------------------------------------------


def test_a_policy_adds_up_over_its_defaults() -> None:
    policy = policy_of(
        {
            "maintenance": {"small_file": "1 MB", "vacuum": False},
            "meta": {"maintenance": {"small_file": "2m", "zorder_by": "id"}},
        }
    )
    assert policy == Policy(small_file="2m", vacuum=False, zorder_by=("id",))
    assert (policy.small_bytes, policy.target_bytes) == (2 * 2**20, 2**28)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"maintenance": {"compact_abov": 3}},
            "[HW_MAINTENANCE_POLICY] models/gold/some.sql: some: maintenance: 'compact_abov' is "
            "not a key here, did you mean 'compact_above'? (allowed: enabled, small_file, ",
        ),
        ({"maintenance": {"small_file": "16"}}, "small_file is '16', it must be a size such as"),
        ({"maintenance": {"vacuum": "yes"}}, "vacuum is 'yes', it must be true or false."),
        ({"maintenance": {"compact_above": 0}}, "is '0', it must be a number of files."),
        ({"maintenance": {"purge_above": 20}}, "is '20', it must be a share of rows, 0.2 for 20 %"),
        ({"maintenance": {"zorder_by": "id"}, "cluster_by": "id"}, "zorder_by beside cluster_by"),
        (
            {
                "tblproperties": {
                    "delta.columnMapping.mode": "name",
                    "delta.enableChangeDataFeed": True,
                },
                "allow_protocol_upgrade": True,
            },
            "[HW_MAPPED_FEED] models/gold/some.sql: some: tblproperties: Delta does not build a "
            "table from a query that has both delta.columnMapping.mode and a change data feed",
        ),
        ({"expectations": [{"name": "a"}]}, "expectations: one has no expression."),
        ({"expectations": ["id > 0"]}, "'id > 0' is no mapping of name, expression and"),
        ({"expectations": {"name": "a"}}, "write a list of"),
        (
            {"expectations": [{"name": "a", "expression": "x", "on": "drop"}]},
            "'on' of a is not a key here (allowed: name, expression, on_failure).",
        ),
        (
            {"expectations": [{"name": "a", "expression": "x", "on_failure": "halt"}]},
            "on_failure of a is 'halt': allowed are warn, drop and fail.",
        ),
        ({"expectations": [{"name": "a", "expression": "x"}] * 2}, "two are named a."),
        (
            {
                "materialized": "incremental",
                "incremental_strategy": "history",
                "unique_key": "id",
                "expectations": [{"name": "a", "expression": "x", "on_failure": "drop"}],
            },
            "a drops rows, and a table of history is maintained from all of them",
        ),
        (
            {"expectations": [{"name": "a", "expression": "x"}]},
            "and of no others: this one is materialized: table. Use data tests here.",
        ),
        ({"tblproperties": {"delta.appendOnl": 1}}, "did you mean 'delta.appendOnly'?"),
    ],
)
def test_a_wrong_declaration_is_named(config: dict[str, Any], words: str) -> None:
    assert words in "\n".join(map(str, node_problems(node(config=config))))


def test_expectations_are_read_from_config_or_meta() -> None:
    rule = {"name": 1, "expression": True}
    (expectation,) = expectations_of({"meta": {"expectations": [rule]}})
    assert (expectation.name, expectation.expression, expectation.on_failure) == (
        "1",
        "true",
        "warn",
    )
    assert expectations_of({}) == []


@pytest.mark.parametrize(
    ("every", "retained", "words"),
    [
        ("3 days", "interval 0 hours", "gold.some runs every 3 days and follows the changes of "),
        ("8 days", None, "gold.base, which keeps them for interval 1 week only"),
        ("soon", None, "models/gold/some.sql: some: runs_every: must be a length of time"),
        ("6 hours", "interval 1 day", ""),
        ("30m", None, ""),
    ],
)
def test_changes_are_retained_until_they_are_read(every: str, retained: Any, words: str) -> None:
    name = "delta.deletedFileRetentionDuration"
    reader = node(
        config={
            "materialized": "incremental",
            "incremental_strategy": "change_feed",
            "meta": {"runs_every": every},
        },
        depends_on={"nodes": ["source.base", "model.elsewhere"]},
    )
    base = node(
        resource_type="source",
        identifier="base",
        config={"meta": {"tblproperties": {name: retained}}},
    )
    problems = graph_problems({"model.some": reader}, {"source.base": base})
    assert (len(problems), words in "".join(map(str, problems))) == (bool(words), True)


@pytest.mark.parametrize(
    ("trigger", "is_wrong"),
    [("5m", True), (61, True), ("30s", False), ("available_now", False), (None, False)],
)
def test_transactions_are_retained_between_two_triggers(trigger: Any, is_wrong: bool) -> None:
    declared = {"delta.setTransactionRetentionDuration": "interval 1 minute"}
    stream = {"stream": {"from": "files", "trigger": trigger}, "tblproperties": declared}
    source = node(resource_type="source", identifier="events", config={"meta": stream})
    assert bool(graph_problems({}, {"source": source})) is is_wrong


# --- while dbt parses -----------------------------------------------------------------------------


def manifest(adapter: str, *macros: str) -> Any:
    """Return a manifest with twelve wrong models and a wrong source."""
    config = SimpleNamespace(
        to_dict=lambda omit_none: {"tblproperties": {"delta.appendOnly": "maybe"}}, meta={}
    )
    models = {str(n): SimpleNamespace(**node(name=f"m{n}") | {"config": config}) for n in range(12)}
    source = node(resource_type="source", identifier="events") | {"config": config}
    return SimpleNamespace(
        metadata=SimpleNamespace(adapter_type=adapter, project_name="shop"),
        macros={name: SimpleNamespace(name=name) for name in macros},
        nodes=models,
        sources={"events": SimpleNamespace(**source)},
        exposures={},
    )


def test_a_project_of_ours_is_checked_and_no_other() -> None:
    assert list(every_problem(manifest("spark"))) == []
    found = [str(problem) for problem in some(every_problem(manifest("headwaters")))]
    assert found[0] == (
        "[HW_PROPERTY_VALUE] models/gold/some.sql: m0: tblproperties: 'delta.appendOnly' is "
        "'maybe', it must be true or false."
    )
    assert (len(found), found[-1]) == (11, "… and 3 more")


def test_a_column_default_needs_no_permission_to_upgrade_the_protocol() -> None:
    def problems(feature: str) -> list[str]:
        found = property_problems({"tblproperties": {f"delta.feature.{feature}": "supported"}})
        return [problem.code for problem in found]

    assert problems("allowColumnDefaults") == []
    assert problems("columnMapping") == ["HW_PROTOCOL_UPGRADE"]


def test_a_check_without_an_expression_is_told() -> None:
    declared = node(constraints=[{"type": "check", "name": "positive", "expresion": "id > 0"}])
    with pytest.raises(UserError, match="the constraint positive of type check has no expression"):
        created_checks(declared)
