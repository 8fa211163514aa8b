"""Test the changes of a branch, found in two parsed states of the project."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from headwaters.review import changes as changing
from headwaters.review import lint
from headwaters.review.facts import Edge, Finding
from headwaters.review.lint import Linted, new_findings, subtracted
from headwaters.review.sides import Side, has_tests, inputs


def model(name: str, sql: str, reads: list[str], **more: Any) -> dict[str, Any]:
    return {
        "resource_type": "model",
        "name": name,
        "schema": "silver",
        "alias": name,
        "raw_code": sql,
        "compiled_code": sql,
        "original_file_path": f"models/{name}.sql",
        "config": {"materialized": "incremental", "unique_key": "id", **more},
        "columns": {},
        "depends_on": {"nodes": [f"model.p.{parent}" for parent in reads], "macros": ["macro.p.m"]},
    }


def project() -> Side:
    nodes = {
        "source.p.raw": {
            "resource_type": "source",
            "name": "raw",
            "schema": "raw",
            "identifier": "raw",
            "config": {},
            "columns": {},
        },
        "model.p.a": model("a", "select id from raw", []),
        "model.p.v": model("v", "select * from a", ["a"], materialized="view"),
        "model.p.b": model("b", "select id from v", ["v"]),
        "model.p.c": model("c", "select id from b", ["b"]),
        "model.p.d": model("d", "select 1 as id", []),
        "test.p.t": {
            "resource_type": "test",
            "name": "unique_b_id",
            "depends_on": {"nodes": ["model.p.b"]},
            "config": {},
        },
    }
    nodes["model.p.a"]["depends_on"]["nodes"] = ["source.p.raw"]
    board = {"name": "board", "depends_on": {"nodes": ["model.p.c"]}}
    return Side(nodes, {"exposure.p.board": board}, {"macro.p.m": "x"})


@pytest.fixture
def sides() -> tuple[Side, Any]:
    """Return the base, and the branch to change."""
    return project(), copy.deepcopy(project())


def test_nothing_changes_by_comments_formatting_and_templates(sides: tuple[Side, Any]) -> None:
    base, head = sides
    head.nodes["model.p.a"]["compiled_code"] = "-- why\nSELECT  id\nfrom raw /* all */"
    head.nodes["model.p.a"]["raw_code"] = "{# why #} select id from raw"
    found = changing.changes(base, head)
    assert (found.changed, found.order, found.built) == ({}, (), ())


def test_a_text_brings_all_that_is_downstream(sides: tuple[Side, Any]) -> None:
    base, head = sides
    for name in ("raw_code", "compiled_code"):
        head.nodes["model.p.b"][name] = "select id + 1 as id from v"
    found = changing.changes(base, head)
    assert [(key, found.causes(key)) for key in found.order] == [
        ("model.p.b", ("text",)),
        ("model.p.c", ("upstream",)),
    ]
    assert found.exposures == ("board",)
    assert found.edges == (Edge("model.p.v", "model.p.b"), Edge("model.p.b", "model.p.c"))
    # a view has no versions: the review builds it over its inputs
    assert found.built == found.built_before == ("model.p.v", "model.p.b", "model.p.c")
    assert inputs(found.built, head) == ("model.p.a",)
    assert inputs(["model.p.a"], head) == ("source.p.raw",)


def test_added_and_removed_models_are_built_on_the_side_that_has_them(
    sides: tuple[Side, Any],
) -> None:
    base, head = sides
    del head.nodes["model.p.c"]
    head.nodes["model.p.e"] = model("e", "select id from b", ["b"])
    found = changing.changes(base, head)
    assert {key: one.causes for key, one in found.changed.items()} == {
        "model.p.c": ("removed",),
        "model.p.e": ("added",),
    }
    assert (found.built, found.built_before) == (("model.p.e",), ("model.p.c",))


def test_a_model_under_another_name_is_told(sides: tuple[Side, Any]) -> None:
    base, head = sides
    head.nodes["model.p.e"] = head.nodes.pop("model.p.d") | {"name": "e"}
    found = changing.changes(base, head).changed
    assert found["model.p.e"].what == ("added", "the SQL of d, which is removed: renamed?")
    assert found["model.p.d"].what == ("removed",)


def test_a_macro_changes_each_model_that_calls_it(sides: tuple[Side, Any]) -> None:
    base, head = sides
    head.macros["macro.p.m"] = "y"
    found = changing.changes(base, head)
    assert {one.causes for one in found.changed.values()} == {("macro",)}
    assert {one.what for one in found.changed.values()} == {("macro m",)}
    assert len(found.changed) == 5


def test_a_materialization_of_the_project_is_a_macro_of_its_models(sides: tuple[Side, Any]) -> None:
    base, head = sides
    head.macros["macro.p.materialization_view_spark"] = "y"
    head.macros["macro.p.materialization_view_of_mine_spark"] = "y"
    (found,) = changing.changes(base, head).changed.values()
    assert (found.unique_id, found.what) == ("model.p.v", ("macro materialization_view_spark",))


def test_a_model_in_another_schema_changes_no_text_of_who_reads_it(
    sides: tuple[Side, Any],
) -> None:
    base, head = sides
    for side, schema in ((base, "silver"), (head, "gold")):
        nodes: Any = side.nodes
        nodes["model.p.a"] |= {"schema": schema, "relation_name": f"`{schema}`.`a`"}
        nodes["model.p.v"]["compiled_code"] = f"select * from `{schema}`.`a`"
    found = changing.changes(base, head)
    assert [(key, found.causes(key)) for key in found.order] == [
        ("model.p.a", ("properties",)),
        *((f"model.p.{name}", ("upstream",)) for name in "vbc"),
    ]
    assert found.changed["model.p.a"].what == ("table: silver.a → gold.a",)
    # another table to read means another text
    head.nodes["model.p.v"]["compiled_code"] = "select * from `other`.`a`"
    assert changing.changes(base, head).causes("model.p.v") == ("macro",)


def test_a_model_that_is_ephemeral_on_one_side_has_no_table_there(
    sides: tuple[Side, Any],
) -> None:
    base, head = sides
    head.nodes["model.p.d"]["config"]["materialized"] = "ephemeral"
    found = changing.changes(base, head)
    assert found.changed["model.p.d"].what == ("removed: it is ephemeral, and has no table",)
    assert (found.causes("model.p.d"), found.built, found.built_before) == (
        ("removed",),
        (),
        ("model.p.d",),
    )
    found = changing.changes(head, base)
    assert found.changed["model.p.d"].what == ("added: it was ephemeral, and had no table",)
    assert (found.causes("model.p.d"), found.built, found.built_before) == (
        ("added",),
        ("model.p.d",),
        (),
    )


@pytest.mark.parametrize(
    ("setting", "before", "after", "of_rows"),
    [
        ("tblproperties", {"delta.appendOnly": "true"}, {}, False),
        ("meta", {"owner": "a"}, {"owner": "b"}, False),
        ("cluster_by", ["id"], None, False),
        ("unique_key", "id", ["id", "day"], True),
        ("partition_by", None, ["id"], True),
        ("materialized", "incremental", "table", True),
    ],
)
def test_settings_are_told_and_only_some_change_rows(
    sides: tuple[Side, Any], setting: str, before: Any, after: Any, of_rows: bool
) -> None:
    base, head = sides
    base.nodes["model.p.d"]["config"][setting] = before
    head.nodes["model.p.d"]["config"][setting] = after
    found = changing.changes(base, head).changed["model.p.d"]
    assert found.causes == ("properties",)
    assert found.rows is of_rows
    assert found.what[0].startswith(setting)


def test_columns_and_tests_are_properties(sides: tuple[Side, Any]) -> None:
    base, head = sides
    base.nodes["model.p.b"]["columns"] = {"id": {"data_type": "int"}, "x": {}}  # type: ignore[index]  # a dict
    head.nodes["model.p.b"]["columns"] = {"id": {"data_type": "bigint"}, "y": {}}
    del head.nodes["test.p.t"]
    assert changing.changes(base, head).changed["model.p.b"].what == (
        "column x: no longer declared",
        "column id: int → bigint",
        "column y: declared",
        "test unique_b_id: removed",
    )


@pytest.mark.parametrize(
    ("contract", "column", "is_built"),
    [
        (True, {"data_type": "int", "description": "What it is."}, False),
        (True, {"data_type": "int", "meta": {"pii": "user"}}, False),
        (True, {"data_type": "bigint"}, True),
        (True, {"data_type": "int", "constraints": [{"type": "not_null"}]}, True),
        (False, {"data_type": "bigint"}, False),
    ],
)
def test_columns_are_built_where_a_contract_checks_them(
    sides: tuple[Side, Any], contract: bool, column: dict[str, Any], is_built: bool
) -> None:
    base, head = sides
    for side, one in ((base, {"data_type": "int"}), (head, column)):
        nodes: Any = side.nodes
        nodes["model.p.d"]["config"]["contract"] = {"enforced": contract}
        nodes["model.p.d"]["columns"] = {"id": one}
    found = changing.changes(base, head)
    assert found.causes("model.p.d") == ("properties",)
    assert (found.built, found.changed["model.p.d"].enforced) == (
        ("model.p.d",) if is_built else (),
        is_built,
    )


def test_a_test_that_is_removed_is_told_and_builds_nothing(sides: tuple[Side, Any]) -> None:
    base, head = sides
    del head.nodes["test.p.t"]
    found = changing.changes(base, head)
    assert found.changed["model.p.b"].what == ("test unique_b_id: removed",)
    assert (found.built, found.built_before) == ((), ())


def test_tests_are_run_where_there_are_some() -> None:
    assert has_tests(["model.p.a", "model.p.b"], project())
    assert not has_tests(["model.p.a"], project())


def test_a_snapshot_that_checks_columns_has_times_of_its_runs() -> None:
    names = {"dbt_valid_to": "Until", "dbt_valid_from": None}
    config = {"strategy": "check", "snapshot_meta_column_names": names}
    node = {"resource_type": "snapshot", "config": config}
    assert changing.of_a_run(node) == {"dbt_scd_id", "dbt_updated_at", "dbt_valid_from", "until"}
    assert changing.of_a_run(node | {"config": {"strategy": "timestamp"}}) == set()
    assert changing.of_a_run(model("a", "select 1", [])) == set()


def test_a_test_that_checks_less_is_told(sides: tuple[Side, Any]) -> None:
    base, head = sides
    head.nodes["test.p.t"]["config"] = {"severity": "warn"}
    found = changing.changes(base, head)
    assert found.changed["model.p.b"].what == ("test unique_b_id: differs",)
    assert found.built == ("model.p.v", "model.p.b")


@pytest.mark.parametrize(
    ("sql", "strategy", "calls"),
    [
        ("select now(), uuid () as id, CURRENT_DATE", None, ["current_date", "now", "uuid"]),
        ("select `now`, 'rand()', user, version -- now()\nfrom a", None, []),
        ("select now()", "change_feed", []),
    ],
)
def test_functions_that_answer_anew_in_each_run_are_known(
    sql: str, strategy: str | None, calls: list[str]
) -> None:
    node = model("a", sql, [], incremental_strategy=strategy)
    assert changing.of_the_moment(node) == calls


def test_columns_are_named_as_the_branch_does_whatever_their_case() -> None:
    found = changing.columns({"ID": "int", "a": "int"}, {"id": "int", "b": "int"}, {}, frozenset())
    assert [(one.name, one.before, one.after) for one in found] == [
        ("id", "int", "int"),
        ("b", None, "int"),
        ("a", "int", None),
    ]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ({"meta": {"review_examples": True}}, {"review_examples": True}, True),
        ({"meta": {}}, {"meta": {"review_examples": True}}, False),
        ({"meta": {"review_examples": True}}, {"meta": {"review_examples": False}}, False),
        ({}, {}, False),
        ({"review_examples": "false"}, {"review_examples": "false"}, False),
    ],
)
def test_rows_are_shown_where_base_and_branch_permit_it(
    before: dict[str, Any], after: dict[str, Any], shown: bool
) -> None:
    found = changing.why_no_examples({"config": before}, {"config": after})
    assert (found is None) is shown


def test_only_findings_of_the_linter_that_the_base_has_not_are_new() -> None:
    known = {"a.sql": [("LT01 blank", 3), ("LT02 indent", 9)]}
    found = {"a.sql": [("LT01 blank", 4), ("LT01 blank", 5)], "b.sql": [("LT02 indent", 9)]}
    assert subtracted(found, known) == {
        "a.sql": (Finding("lint", "LT01 blank", False, "a.sql:5"),),
        "b.sql": (Finding("lint", "LT02 indent", False, "b.sql:9"),),
    }
    assert subtracted(known, known) == {}


def test_the_linter_is_asked_of_both_sides_and_only_what_is_new_is_told(tmp_path: Path) -> None:
    sides = {
        "base": {"a.sql": "SELECT id from orders\n", "gone.sql": "SELECT 1\n"},
        "head": {
            "a.sql": "SELECT id from orders\nwhere id IN (1, 2)\n",
            "b.sql": "select id from orders\n",
        },
    }
    for side, files in sides.items():
        (tmp_path / side).mkdir()
        settings = "[sqlfluff]\ndialect = sparksql\nrules = CP01\n"
        settings += "[sqlfluff:rules:capitalisation.keywords]\ncapitalisation_policy = lower\n"
        (tmp_path / side / ".sqlfluff").write_text(settings)
        for file, text in files.items():
            (tmp_path / side / file).write_text(text)
    folders = tmp_path / "base", tmp_path / "head"
    assert new_findings(*folders, ["a.sql", "b.sql", "gone.sql"]) == Linted(
        {"a.sql": (Finding("lint", "CP01 Keywords must be lower case.", False, "a.sql:2"),)}
    )
    assert new_findings(*folders, ["gone.sql"]) == Linted({})


def test_a_linter_that_is_missing_is_told_where_the_project_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lint, "find_spec", lambda name: None)
    (tmp_path / "a.sql").write_text("SELECT 1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'a'\n")
    assert new_findings(tmp_path, tmp_path, ["a.sql"]) == Linted({})
    (tmp_path / "pyproject.toml").write_text("[tool.sqlfluff.core]\ndialect = 'sparksql'\n")
    assert new_findings(tmp_path, tmp_path, ["a.sql"]) == Linted(
        {},
        "the linter did not run: sqlfluff is not installed. Install it with `pip install sqlfluff`",
    )


def stream(**more: Any) -> dict[str, Any]:
    return {"from": "files", "path": "landing/raw", "format": "json", **more}


def with_stream(side: Side, **more: Any) -> dict[str, Any]:
    """Declare the source as a stream of two columns."""
    source: dict[str, Any] = side.nodes["source.p.raw"]  # type: ignore[assignment]  # to be changed
    source["config"] = {"meta": {"stream": stream(**more), "owner": "shop"}}
    source["columns"] = {
        "id": {"name": "id", "data_type": "int", "constraints": [{"type": "not_null"}]},
        "at": {"name": "at", "data_type": "timestamp", "meta": {"expression": "to_micros(t)"}},
    }
    return source


ANOTHER_WAY = "raw.raw is read in another way: this reaches rows ingested from now on"


@pytest.mark.parametrize(
    ("path", "value", "line", "sentences"),
    [
        (
            ("columns", "at", "meta", "expression"),
            "to_millis(t)",
            "column at: meta.expression: to_micros(t) → to_millis(t)",
            (ANOTHER_WAY,),
        ),
        (
            ("columns", "id", "constraints"),
            [],
            'column id: constraints: [{"type": "not_null"}] → none',
            (ANOTHER_WAY,),
        ),
        (("columns", "id", "data_type"), "long", "column id: int → long", (ANOTHER_WAY,)),
        (
            ("config", "meta", "stream", "path"),
            "landing/new",
            "meta.stream.path: landing/raw → landing/new",
            (ANOTHER_WAY,),
        ),
        (("config", "meta", "owner"), "web", "meta.owner: shop → web", ()),
        (
            ("columns", "id", "description"),
            "The order.",
            "column id: description: none → The order.",
            (),
        ),
    ],
)
def test_a_source_names_what_no_comparison_covers(
    sides: tuple[Side, Any], path: tuple[str, ...], value: Any, line: str, sentences: Any
) -> None:
    base, head = sides
    with_stream(base)
    place: Any = with_stream(head)
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    found = changing.changes(base, head)
    own = found.changed["source.p.raw"]
    assert (own.causes, own.what, own.not_compared) == (("properties",), (line,), sentences)
    assert (found.built, found.not_compared) == ((), ())


def test_a_stream_that_comes_or_goes_and_tests_of_a_source_are_named(
    sides: tuple[Side, Any],
) -> None:
    base, head = sides
    with_stream(base)
    del head.nodes["source.p.raw"]
    assert changing.changes(base, head).changed["source.p.raw"].not_compared == (
        "the stream of raw.raw is removed: its table keeps its rows",
    )
    assert changing.changes(head, base).changed["source.p.raw"].not_compared == (
        "the stream of raw.raw is added: no row of it was ingested",
    )
    head.nodes["source.p.raw"] = copy.deepcopy(base.nodes["source.p.raw"])
    head.nodes["test.p.unique"] = {
        "resource_type": "test",
        "name": "unique_raw_id",
        "depends_on": {"nodes": ["source.p.raw"]},
        "config": {},
    }
    found = changing.changes(base, head)
    own = found.changed["source.p.raw"]
    assert (own.what, own.not_compared) == (("test unique_raw_id: added",), ())
    # its tests are run, and nothing is built for them
    assert (found.tested, found.built, found.needs_spark) == (("source.p.raw",), (), True)


def test_exposures_are_compared_setting_by_setting(sides: tuple[Side, Any]) -> None:
    base, head = sides
    both: list[tuple[Any, str]] = [(base, "public.value"), (head, "public.value_v2")]
    for side, table in both:
        side.exposures["exposure.p.board"]["meta"] = {"publish": {"to": "postgres", "table": table}}
    assert changing.changes(base, head).not_compared == (
        "exposure board changes: meta.publish.table: public.value → public.value_v2",
    )
    del head.exposures["exposure.p.board"]
    assert changing.changes(base, head).not_compared == ("exposure board is removed",)
    # it reads a model that the branch removes
    del head.nodes["model.p.c"]
    assert changing.changes(base, head).exposures == ("board",)


def test_files_that_dbt_did_not_parse_as_the_projects_are_named() -> None:
    nodes = {
        "model.p.a": {
            "original_file_path": "models/a.sql",
            "patch_path": "p://models/a.yml",
            "package_name": "p",
        },
        "model.other.b": {"original_file_path": "models/b.sql", "package_name": "other"},
    }
    side = Side(nodes, {}, {}, frozenset({"macros/own.sql"}))
    files = ["models/a.sql", "models/a.yml", "models/b.sql", "macros/own.sql", "macros/adapter.sql"]
    files += ["README.md", "docs/page.md", "dbt_project.yml", "profiles/profiles.yml", "x.py"]
    assert changing.files_not_reviewed(files, "p", side) == [
        "macros/adapter.sql",
        "models/b.sql",
        "profiles/profiles.yml",
        "x.py",
    ]
