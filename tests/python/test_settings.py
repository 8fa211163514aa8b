"""Test our typed settings: each wrong one gives one line while dbt parses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.headwaters.connections import HeadwatersCredentials
from dbt_common.exceptions import DbtRuntimeError
from hypothesis import given
from hypothesis import strategies as st

from headwaters.tables.checks import graph_problems, node_problems, setting_problems
from headwaters.tables.dbt_names import known_names
from headwaters.tables.overridden_macros import override_problems
from headwaters.tables.queries_by_run import appending_problems, macros_of, refresh_problems
from headwaters.tables.setting_types import Part
from headwaters.tables.settings import ModelSettings, run_config
from headwaters.tables.vars_and_targets import variable_problems

ROOT = Path(__file__).resolve().parents[2]
PLACE = "models/some.sql: some: "
NOT_OURS = "there is no setting"


def node(config: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a model with a config."""
    names = {"resource_type": "model", "name": "some", "alias": "some", "schema": "gold"}
    return {**names, "original_file_path": "models/some.sql", "config": config, **more}


def problems(config: dict[str, Any], **more: Any) -> list[str]:
    """Return the lines of a node's problems, without its place."""
    found = [str(one) for one in node_problems(node({"materialized": "table", **config}, **more))]
    assert all("\n" not in line for line in found)
    return [line.replace(PLACE, "") for line in found]


def unknown(given: str, name: str) -> str:
    """Return the line of a name that misspells one of ours."""
    return f"[HW_UNKNOWN_SETTING] there is no setting '{given}', did you mean '{name}'?"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("on_gp", "on_gap"),
        ("On-Gap", "on_gap"),
        ("aply_by", "apply_by"),
        ("applyBy", "apply_by"),
        ("uniqe_key", "unique_key"),
        ("unique_keys", "unique_key"),
        ("incremental_startegy", "incremental_strategy"),
        ("on_foreign_writes", "on_foreign_write"),
        ("replace_abov", "replace_above"),
        ("tbl_properties", "tblproperties"),
        ("maintainance", "maintenance"),
        ("ownr", "owner"),
        ("run_every", "runs_every"),
        ("expectation", "expectations"),
    ],
)
def test_a_name_near_one_of_ours_is_a_slip(given: str, name: str) -> None:
    assert problems({given: "x"}) == [unknown(given, name)]


@pytest.mark.parametrize("name", ["owners", "streams", "owner_team", "latest_at", "on_call", "tag"])
def test_other_words_are_the_users_own(name: str) -> None:
    assert problems({name: "x", "meta": {name: "x"}}) == []


def test_in_meta_a_slip_is_what_is_no_other_word() -> None:
    meta = {"ownr": "a", "owners": "b", "unique_keys": "c", "runs_evry": "1 day", "owner": ["a"]}
    assert problems({"meta": meta}) == [
        unknown("meta.ownr", "meta.owner"),
        unknown("meta.runs_evry", "meta.runs_every"),
    ]


def test_refresh_is_a_setting_of_a_config() -> None:
    assert problems({"meta": {"refresh": "daily"}}) == []
    assert problems({"meta": {"refresh": "strict"}}) == [
        "[HW_SETTING] refresh is in meta, where no run reads it: write it in config"
    ]


def test_a_column_may_misspell_its_keys() -> None:
    columns = {"id": {"name": "id", "meta": {"expresion": "1", "pii": "none", "pie": 3}}}
    assert problems({}, columns=columns) == [
        "[HW_UNKNOWN_SETTING] column id: there is no setting 'meta.expresion', did you mean "
        "'meta.expression'?"
    ]


def test_names_of_dbt_are_never_a_slip() -> None:
    valued = {"materialized", "meta", "event_time", "on_schema_change"}
    for kind in ("model", "seed", "snapshot", "source"):
        given = dict.fromkeys(known_names() - valued, "x")
        assert [p for p in problems(given, resource_type=kind, alias="a") if NOT_OURS in p] == []


@given(st.sampled_from([*ModelSettings.model_fields]))
def test_an_empty_setting_is_left_out(name: str) -> None:
    empties: list[Any] = [None, "", "  ", [], {}]
    for empty in empties:
        assert ModelSettings.of({name: empty}) == ModelSettings()
        assert ModelSettings.of({"meta": {name: empty}}) == ModelSettings()


SHARE = "must be a share of the rows, 0.3 for 30 %"
COLUMNS = "must be a column, or a list of columns"


@pytest.mark.parametrize(
    ("setting", "value", "line"),
    [
        ("on_gap", "fial", "not allowed, did you mean 'fail'? (allowed: rebuild, fail)"),
        ("on_gap", ["fail"], "not allowed, did you mean 'fail'? (allowed: rebuild, fail)"),
        ("on_gap", True, "not allowed (allowed: rebuild, fail)"),
        ("on_lookup_change", "no", "not allowed (allowed: rebuild, ignore)"),
        ("refresh", "full", "not allowed (allowed: auto, incremental, strict)"),
        ("on_foreign_write", 1, "not allowed (allowed: rebuild, fail, warn)"),
        ("apply_by", "key", "not allowed, did you mean 'keys'? (allowed: keys, merge)"),
        ("incremental_proof", "none", "not allowed (allowed: rules, sample)"),
        ("replace_above", "much", SHARE),
        ("replace_above", -1, SHARE),
        ("replace_above", "nan", SHARE),
        ("replace_above", True, SHARE),
        ("replace_above", [0.3], SHARE),
        ("latest_by", {"at": 1}, COLUMNS),
        ("prune_by", [1], COLUMNS),
        ("unique_key", ["id", ""], COLUMNS),
        ("allow_nondeterministic", True, "must be a list of functions, such as [current_date]"),
        (
            "allow_nondeterministic",
            ["curent_date"],
            "there is no function 'curent_date', did you mean 'current_date'?",
        ),
        ("derived", ["a"], "must be a mapping of columns to expressions: {mean: total / rows}"),
        ("tblproperties", "x", "must be a mapping of names to values"),
        ("maintenance", ["x"], "must be a mapping of names to values"),
        ("allow_protocol_upgrade", "yes", "must be true or false"),
        ("review_examples", 1, "must be true or false"),
        ("runs_every", "daily", "must be a length of time, such as 1 day or 6 hours"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_right(setting: str, value: Any, line: str) -> None:
    code = "HW_DURATION" if setting == "runs_every" else "HW_SETTING"
    expected = f"[{code}] {setting}: {line} (given: {value!r})"
    if line.startswith("not allowed"):
        expected = f"[{code}] {setting}: '{value}' is {line.replace('allowed', 'allowed here', 1)}"
    assert problems({setting: value}) == [expected]
    if setting not in ("unique_key", "refresh"):  # they have no meaning in meta
        assert problems({"meta": {setting: value}}) == [expected]


def test_a_value_may_be_the_text_that_jinja_gives() -> None:
    given = {"replace_above": "0.3", "allow_protocol_upgrade": "True", "latest_by": "at"}
    found = ModelSettings.of({**given, "meta": {"on_gap": "fail", "owner": {"email": "a@b"}}})
    assert (found.replace_above, found.allow_protocol_upgrade) == (0.3, True)
    assert (found.latest_by, found.on_gap, found.owner) == (("at",), "fail", "a@b")


def test_a_run_reads_settings_that_are_typed_and_none_that_is_empty() -> None:
    config = {
        "materialized": "incremental",
        "unique_key": "id",
        "replace_above": "0.3",
        "on_gap": "",
        "latest_by": "at",
        "apply_by": None,
        "mine": "kept",
        "meta": {"on_foreign_write": "warn", "derived": True},
    }
    assert run_config(config) == {
        "materialized": "incremental",
        "unique_key": "id",
        "replace_above": 0.3,
        "latest_by": ["at"],
        "on_foreign_write": "warn",
        "mine": "kept",
        "meta": config["meta"],
    }


IGNORE = "on_lookup_change is ignore"


@pytest.mark.parametrize(
    ("strategy", "more", "line"),
    [
        ("auto", {}, None),
        ("auto", {"refresh": "strict"}, None),
        (
            "replace",
            {"refresh": "strict"},
            "[HW_SETTING] {} refresh is strict, and every change replaces the table",
        ),
        (
            "merge",
            {"refresh": "strict"},
            "[HW_SETTING] refresh belongs to headwaters' strategies and does nothing with merge",
        ),
        ("auto", {"unique_key": "id", "on_lookup_change": "ignore"}, None),
        ("change_feed", {"unique_key": "id", "latest_by": "at"}, None),
        ("signed_sum", {"unique_key": "id", "derived": {"mean": "a / b"}}, None),
        ("merge", {"unique_key": "id"}, None),
        ("append", {}, None),
        ("signed_sum", {}, "[HW_NO_UNIQUE_KEY] {} there is no unique_key: name the column"),
        ("history", {"unique_key": []}, "[HW_NO_UNIQUE_KEY] {} there is no unique_key"),
        (
            "change_feed",
            {"latest_by": "at"},
            "[HW_NO_UNIQUE_KEY] {} there is no unique_key: name the column",
        ),
        ("auto", {"file_format": "parquet"}, "[HW_FILE_FORMAT] {} file_format is parquet."),
        (
            "insert_overwrite",
            {"file_format": "parquet"},
            "[HW_FILE_FORMAT] file_format is parquet: incremental models are Delta tables",
        ),
        (
            "affected_keys",
            {"latest_by": "at"},
            "[HW_SETTING] latest_by belongs to change_feed and does nothing with affected_keys",
        ),
        (
            "auto",
            {"derived": {"a": "b"}},
            "[HW_SETTING] derived belongs to signed_sum and does nothing with auto: remove it, or",
        ),
        (
            "auto",
            {"incremental_proof": "sample"},
            "[HW_SETTING] incremental_proof belongs to change_feed, affected_keys, signed_sum, ",
        ),
        (
            "replace",
            {"on_lookup_change": "ignore"},
            f"[HW_SETTING] {{}} {IGNORE}. Its inputs are lookups",
        ),
        (
            "signed_sum",
            {"unique_key": "id", "on_lookup_change": "ignore"},
            f"[HW_SETTING] {{}} {IGNORE}. A deleted row takes away what it added",
        ),
        (
            "change_feed",
            {"on_lookup_change": "ignore"},
            f"[HW_SETTING] {{}} {IGNORE}, and there is no unique_key",
        ),
    ],
)
def test_settings_fit_the_strategy(strategy: str, more: dict[str, Any], line: str | None) -> None:
    config = {"materialized": "incremental", "incremental_strategy": strategy, **more}
    found = problems(config)
    assert len(found) == (line is not None)
    if line is not None:
        assert found[0].startswith(line.format(f"incremental_strategy {strategy}:"))
    assert problems({**config, "materialized": "view"}) == []  # the strategy of its folder


def test_an_unknown_strategy_is_named_with_the_nearest() -> None:
    found = problems({"materialized": "incremental", "incremental_strategy": "affected_key"})
    assert found == [
        "[HW_UNKNOWN_STRATEGY] incremental_strategy is 'affected_key', did you mean "
        "'affected_keys': allowed are append, merge, insert_overwrite, microbatch, change_feed, "
        "affected_keys, signed_sum, history, replace, auto"
    ]
    assert problems({"meta": {"incremental_strategy": "auto"}}) == [
        "[HW_SETTING] incremental_strategy is in meta, where dbt does not read it: write it in "
        "config"
    ]


def test_a_stream_is_of_a_source() -> None:
    config = {"meta": {"stream": {"from": "files"}}}
    line = "[HW_SETTING] stream belongs to a source, and does nothing here"
    assert problems(config) == [line]
    assert problems({"meta": {"stream": "finance"}}) == []  # a user's own key
    assert setting_problems(node(config, resource_type="source")) == []


# --- models that append their whole query ---------------------------------------------------------

PLAIN = "select id from {{ ref('orders') }}"
FILTERED = PLAIN + "{% if is_incremental() %} where id > 1 {% endif %}"
OWN = PLAIN + " where id > (select max(id) from {{ this }})"
HIDDEN = "{% if execute and dbt.is_incremental() %} where id > 1 {% endif %}"


def appending(code: str, config: dict[str, Any] | None = None, **more: Any) -> str:
    """Return the problem of an incremental model that chooses no strategy, or nothing."""
    config = {"materialized": "incremental", **(config or {})}
    macros = {
        "macro.shop.newer": SimpleNamespace(
            macro_sql="{% macro newer() %}{{ inner() }}{% endmacro %}",
            depends_on=SimpleNamespace(macros=["macro.shop.inner"]),
        ),
        "macro.shop.inner": SimpleNamespace(
            macro_sql="{% macro inner() %}" + HIDDEN + "{% endmacro %}",
            depends_on=SimpleNamespace(macros=[]),
        ),
        "macro.shop.other": SimpleNamespace(
            macro_sql="{% macro other() %}1{% endmacro %}", depends_on=SimpleNamespace(macros=[])
        ),
    }
    model = node(config, raw_code=code, package_name="shop", language="sql", **more)
    return "".join(map(str, appending_problems(model, "shop", macros_of(macros))))


WHOLE = (
    "[HW_WHOLE_APPEND] every run would append all rows of its query once more: it is incremental, "
    "has no incremental_strategy, and no condition on is_incremental(). Write "
    "incremental_strategy: auto, which keeps the table equal to the query, or "
)


def test_a_model_that_nobody_chose_to_append_is_an_error() -> None:
    calls = {"depends_on": {"macros": ["macro.dbt.ref", "macro.shop.other"]}}
    for config in ({}, {"incremental_strategy": ""}, {"unique_key": ""}):
        assert appending(PLAIN, config, **calls) == WHOLE + "incremental_strategy: append"
    assert appending("-- is_incremental() {# this #}\n" + PLAIN) != ""
    with_key = appending(PLAIN, {"unique_key": "id"})
    assert with_key == WHOLE + "incremental_strategy: merge, or incremental_strategy: append"


@pytest.mark.parametrize("code", [FILTERED, OWN, PLAIN + HIDDEN])
def test_a_model_that_tells_its_runs_apart_is_left_alone(code: str) -> None:
    assert appending(code) == ""


def test_what_is_chosen_is_obeyed() -> None:
    for strategy in ("append", "auto", "insert_overwrite"):
        assert appending(PLAIN, {"incremental_strategy": strategy}) == ""
    merge = {"incremental_strategy": "merge"}
    assert appending(PLAIN, {**merge, "unique_key": "id"}) == appending(FILTERED, merge) == ""
    assert appending(PLAIN, merge) == ""  # from dbt_project.yml
    # dbt inserts every row, and matches none
    assert appending(PLAIN, merge, written={"incremental_strategy"}) == (
        "[HW_WHOLE_APPEND] every run would append all rows of its query once more: it is "
        "incremental, merges without a unique_key, and has no condition on is_incremental(). Write "
        "incremental_strategy: auto, which keeps the table equal to the query, or add a "
        "unique_key, or incremental_strategy: append"
    )
    for config in ({"materialized": "table"}, {"full_refresh": True}):
        assert appending(PLAIN, config) == ""


def test_a_macro_may_tell_the_runs_apart() -> None:
    for name in ("macro.shop.newer", "macro.dbt_headwaters.is_incremental", "macro.lost.one"):
        calls = {"depends_on": {"macros": [name]}}
        call = name.rpartition(".")[2]
        assert appending(f"{PLAIN} {{{{ {call}() }}}}", **calls) == ""
        assert appending(PLAIN + "{{ adapter.dispatch('some')() }}", **calls) == ""


def test_a_hook_does_not_tell_the_runs_of_a_query_apart() -> None:
    calls = {"depends_on": {"macros": ["macro.dbt.is_incremental", "macro.shop.newer"]}}
    hook = "{{ config(pre_hook='' if is_incremental() else this ~ newer()) }}"
    for code in (PLAIN, hook + PLAIN):
        assert appending(code, **calls) == WHOLE + "incremental_strategy: append"


def test_a_model_in_python_is_read_as_text() -> None:
    code = "def model(dbt, session):\n    return {}"
    incremental = code.format("x.filter(y) if dbt.is_incremental else x")
    found = []
    for text in (code.format("dbt.ref('a')"), incremental):
        model = node({"materialized": "incremental"}, raw_code=text, language="python")
        found.append(len(list(appending_problems(model, "shop", macros_of({})))))
    assert found == [1, 0]


def test_a_model_of_a_package_is_configured_in_the_project() -> None:
    model = node({"materialized": "incremental"}, raw_code=PLAIN, package_name="vendor")
    (problem,) = appending_problems(model, "shop", macros_of({}))
    way = "Write models: {vendor: {+incremental_strategy: auto}} in dbt_project.yml, which keeps"
    assert way in problem.text
    # dbt checks `graph` if it does not write the manifest
    (problem,) = graph_problems({"model.vendor.some": model}, {}, "shop")
    assert (problem.code, way in problem.text) == ("HW_WHOLE_APPEND", True)


# as dbt_artifacts declares the tables that its hook fills
UPLOADED = (
    "with dummy as (select 1 as foo)\nselect cast(null as int) as id from dummy\nwhere 1 = 0\n"
)


def test_a_query_without_rows_appends_none() -> None:
    for code in (UPLOADED, UPLOADED + "-- of a hook", "select 1 as id limit 0;"):
        assert appending(code) == ""
    for rows in ("union all select 2 as id where 1 = 0", "where 1 = 0 or id > 1"):
        assert appending(f"{PLAIN} {rows}") != ""
    assert appending("select count(*) as n from t where 1 = 0") != ""


def test_a_strategy_that_keeps_a_table_equal_to_a_query_without_rows_is_refused() -> None:
    config = {"materialized": "incremental", "incremental_strategy": "auto"}
    model = node(config, raw_code=UPLOADED, package_name="vendor")
    assert list(map(str, refresh_problems(model, "shop"))) == [
        "[HW_EMPTY_QUERY] its query gives no rows, so a hook or another program writes them, and "
        "auto would remove them. Write models: {vendor: {+incremental_strategy: append}} in "
        "dbt_project.yml"
    ]
    stock = node({**config, "incremental_strategy": "append"}, raw_code=UPLOADED)
    assert list(refresh_problems(stock)) == []


# --- beyond nodes ---------------------------------------------------------------------------------


def test_variables_of_ours_are_known_by_name_and_type() -> None:
    declared = {"headwaters_hook": False, "ops_tests": "yes", "ops_schema": "o", "day": 1}
    given = {"headwaters_hooks": False, "headwaters_speed": 3, "shop": {"any": 1}}
    assert list(map(str, variable_problems(declared, given))) == [
        "[HW_UNKNOWN_SETTING] dbt_project.yml: vars: there is no variable 'headwaters_hook', did "
        "you mean 'headwaters_hooks'?",
        "[HW_SETTING] dbt_project.yml: vars: ops_tests is 'yes': write true or false",
        "[HW_UNKNOWN_SETTING] --vars: vars: there is no variable 'headwaters_speed': there are "
        "headwaters_hooks, headwaters_pins, headwaters_review, ops_schema, ops_tests",
    ]


def credentials(**more: Any) -> HeadwatersCredentials:
    """Return a target as dbt reads it."""
    data = HeadwatersCredentials.translate_aliases({"schema": "shop", **more})
    HeadwatersCredentials.validate(data)
    found: HeadwatersCredentials = HeadwatersCredentials.from_dict(data)
    return found


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ({"lak": "x"}, "[HW_UNKNOWN_SETTING] there is no key 'lak', did you mean 'lake'?"),
        (
            {"server_side_parameter": {}},
            "[HW_UNKNOWN_SETTING] there is no key 'server_side_parameter', did you mean "
            "'server_side_parameters'?",
        ),
        ({"lake": ["x"]}, "[HW_SETTING] lake is '['x']': write the path of a folder"),
        (
            {"server_side_parameters": ["x"]},
            "[HW_SETTING] server_side_parameters is '['x']': write a mapping of Spark's settings",
        ),
    ],
)
def test_a_target_has_no_slips(output: dict[str, Any], line: str) -> None:
    with pytest.raises(DbtRuntimeError) as error:
        credentials(**output)
    assert line in str(error.value)


def test_settings_of_spark_may_be_numbers_and_left_out() -> None:
    numbers = {"spark.sql.shuffle.partitions": 8, "spark.ui.enabled": False}
    given = credentials(server_side_parameters=numbers, lake="", mine="x").server_side_parameters
    assert {name: given[name] for name in numbers} == {
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.enabled": "false",
    }
    assert credentials(server_side_parameters=None, lake=None).lake is None


# --- the reference --------------------------------------------------------------------------------


def settings_table(part: Part) -> str:
    """Return the reference of the settings as Markdown: of a model's runs, or of its table."""
    lines = ["| setting | values | default |", "|---|---|---|"]
    for name, field in ModelSettings.model_fields.items():
        if ModelSettings.part_of(name) == part:
            cells = [f"`{name}`", str(field.description), ModelSettings.shown(name)]
            lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    return "\n".join(lines)


@pytest.mark.parametrize("part", ["run", "table"])
def test_the_page_has_the_reference_that_the_class_gives(part: Part) -> None:
    assert settings_table(part) + "\n" in (ROOT / "docs" / "models.md").read_text()


def test_two_nodes_of_one_table_are_refused() -> None:
    def of(name: str, alias: str, **more: Any) -> dict[str, Any]:
        return {
            "resource_type": "model",
            "original_file_path": f"models/{name}.sql",
            "name": name,
            "schema": "shop",
            "alias": alias,
            "config": {"materialized": "table"},
        } | more

    nodes = {"a": of("a", "Shared"), "b": of("b", "shared"), "c": of("c", "other")}
    nodes["d"] = of("d", "OTHER", config={"materialized": "ephemeral"})
    assert list(map(str, graph_problems(nodes, {}))) == [
        "[HW_SAME_TABLE] models/b.sql: b writes the table shop.shared, and so does a "
        "(models/a.sql), since names of tables ignore case: give one of them another alias"
    ]


def test_an_override_that_nothing_calls_is_refused() -> None:
    def macro(package: str, name: str, folder: str = "macros/") -> SimpleNamespace:
        path = f"{folder}{name}.sql"
        return SimpleNamespace(package_name=package, name=name, original_file_path=path)

    of_dbt = "macros/materializations/models/incremental/"
    macros = [
        *(macro("dbt", name, of_dbt) for name in ("get_merge_sql", "default__get_merge_sql")),
        *(macro("dbt", name, of_dbt) for name in ("diff_columns", "is_incremental")),
        macro("dbt", "hash"),
        *(macro("shop", name) for name in ("spark__get_merge_sql", "hash", "diff_columns")),
        macro("vendor", "get_merge_sql"),
    ]
    assert list(map(str, override_problems(macros, "shop"))) == [
        "[HW_UNUSED_MACRO] macros/spark__get_merge_sql.sql: spark__get_merge_sql overrides a macro "
        "that no strategy calls here: remove it, and use the settings of the strategy, or a "
        "materialization of your own"
    ]


@pytest.mark.parametrize(
    ("sql", "strategy", "is_refused"),
    [
        ("select 1 {% if not flags.FULL_REFRESH %} where true {% endif %}", "auto", True),
        ("{% set whole = should_full_refresh() %} select 1", "change_feed", True),
        ("select 1 {% if not flags.FULL_REFRESH %} where true {% endif %}", "merge", False),
        ("{{ config(post_hook='{{ should_full_refresh() }}') }} select 1", "auto", False),
        ("select flags from t -- flags.FULL_REFRESH", "auto", False),
        ("{% if is_incremental() and not flags.FULL_REFRESH %}{% endif %} select 1", "auto", False),
    ],
)
def test_sql_that_differs_in_a_full_refresh_is_refused(
    sql: str, strategy: str, is_refused: bool
) -> None:
    config = {"materialized": "incremental", "incremental_strategy": strategy}
    model = {"resource_type": "model", "raw_code": sql, "config": config}
    found = list(map(str, refresh_problems(model)))
    name = "FULL_REFRESH" if "FULL" in sql else "should_full_refresh"
    expected = [f"[HW_OTHER_QUERY] its SQL asks for {name}"] if is_refused else []
    assert [text.partition(",")[0] for text in found] == expected


@pytest.mark.parametrize(
    ("sql", "strategy", "is_refused"),
    [
        ("select 1 {% set seen = run_query('select max(a) from ' ~ this) %}", "auto", True),
        ("select '{{ this.schema }}' as place", "auto", False),
        ("select 1 {% set seen = run_query('select max(a) from ' ~ this) %}", "append", False),
        ("{{ config(post_hook=this ~ '') }} select {{ run_query('select 1') }}", "auto", False),
        ("{% if is_incremental() and x %}{{ run_query(this) }}{% endif %} select 1", "auto", False),
        ("{% if not is_incremental() %}{{ run_query(this) }}{% endif %} select 1", "auto", True),
        ("{{ run_query('select 1 from t') }} select * from {{ this }}", "auto", False),
        ("{% set q %}select * from {{ this }}{% endset %} {{ run_query(q) }}", "auto", True),
        ("{% call statement('s') %}select * from {{ this }}{% endcall %} select 1", "auto", True),
        ("{{ dbt_utils.get_column_values(this, 'a') }} select 1", "auto", True),
    ],
)
def test_sql_that_queries_its_own_table_is_refused(
    sql: str, strategy: str, is_refused: bool
) -> None:
    config = {"materialized": "incremental", "incremental_strategy": strategy}
    model = {"resource_type": "model", "raw_code": sql, "config": config}
    expected = ["[HW_OTHER_QUERY] its SQL queries its own table while dbt compiles it"]
    found = [str(problem).partition(",")[0] for problem in refresh_problems(model)]
    assert found == (expected if is_refused else [])
