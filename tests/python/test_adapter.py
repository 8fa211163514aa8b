"""Test the adapter `type: headwaters`: its parts for dbt, and the defaults of a profile."""

from __future__ import annotations

import re
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.headwaters import HeadwatersAdapter
from dbt.adapters.headwaters.connections import HeadwatersCredentials, derby_folder
from dbt_common.exceptions import CompilationError

from headwaters.platform import object_store
from headwaters.platform.errors import UserError
from headwaters.platform.spark_driver import LOGGING, logging_to

DERBY = "spark.hadoop.javax.jdo.option.ConnectionURL"
PROFILE = "shop: {target: dev, outputs: {dev: {type: headwaters, schema: shop, threads: 1}}}\n"
# as packages choose by engine
DEPTH = """
{% macro depth() %}{{ return(adapter.dispatch('depth')()) }}{% endmacro %}
{% macro default__depth() %}{{ return(-1) }}{% endmacro %}
{% macro spark__depth() %}{{ return(9) }}{% endmacro %}
"""
FILES = {
    "dbt_project.yml": "name: shop\nversion: 1.0.0\nprofile: shop\n"
    "models: {shop: {+tblproperties: {a: layer, b: layer}, +meta: {kind: '{{ target.type }}'}}}\n",
    "macros/depth.sql": DEPTH,
    "profiles.yml": PROFILE,
    "models/plain.sql": "{{ config(tblproperties={'b': 'sql', 'c': 'sql'}) }} select 1 as id",
    "models/plain.yml": "models: [{name: plain, config: {tblproperties: {c: yaml, d: yaml}}}]",
    "models/orc.sql": "{{ config(file_format='orc', meta={'depth': depth()}) }} select 1 as id",
    "seeds/kinds.csv": "id\n1\n",
    "tests/none.sql": "select * from {{ ref('plain') }} where id is null",
}


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return dbt's manifest of a project whose only part of ours is the type of its profile."""
    return parse(tmp_path_factory.mktemp("shop"))


def parse(folder: Path, *options: str) -> Any:
    """Return dbt's manifest of the project in a new folder."""
    from dbt.cli.main import dbtRunner

    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    folders = ["--project-dir", str(folder), "--profiles-dir", str(folder)]
    paths = ["--target-path", str(folder / "target"), "--log-path", str(folder / "logs")]
    parsed = dbtRunner().invoke(["--quiet", "parse", *folders, *paths, *options])
    assert parsed.success, parsed.exception
    return parsed.result


def test_variables_choose_the_schema_of_these_tables_and_run_their_tests(tmp_path: Path) -> None:
    found = parse(tmp_path, "--vars", "{ops_schema: records, ops_tests: true}")
    assert {source.schema for source in found.sources.values()} == {"records"}
    tests = [node for node in found.nodes.values() if node.package_name == "dbt_headwaters"]
    assert "ops_operations_were_started" in [node.name for node in tests]


def test_debug_has_a_profile_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWATERS_LAKE", "water")
    credentials = HeadwatersCredentials.from_dict({"schema": "shop"})
    assert dict(credentials.connection_info())["lake"] == "water"
    HeadwatersAdapter(
        SimpleNamespace(credentials=credentials, log_cache_events=False), get_context("spawn")
    )
    assert credentials.lake == str(tmp_path / "water")


@pytest.mark.parametrize("name", ["incremental", "seed"])
def test_dbt_takes_our_materialization(manifest: Any, name: str) -> None:
    """Check that dbt finds ours: declared for `spark`, it would silently lose to dbt-spark's."""
    found = manifest.find_materialization_macro_by_name("shop", name, "headwaters")
    assert found.unique_id == f"macro.dbt_headwaters.materialization_{name}_headwaters"


@pytest.mark.parametrize(
    ("name", "value"), [("dry_run", 0), ("dry_run", None), ("allow_all", "false"), ("all", True)]
)
def test_an_operation_does_not_begin_with_an_argument_that_is_none(
    manifest: Any, name: str, value: Any
) -> None:
    credentials = HeadwatersCredentials.from_dict({"schema": "shop"})
    config = SimpleNamespace(
        credentials=credentials, log_cache_events=False, project_name="shop", project_root="."
    )
    adapter = HeadwatersAdapter(config, get_context("spawn"))
    operations = [
        macro
        for macro in manifest.macros.values()
        if macro.package_name == "dbt_headwaters"
        and name in {"all", *(argument.name for argument in macro.arguments)}
        and "dry_run" in {argument.name for argument in macro.arguments}
    ]
    assert operations
    for macro in operations:
        with pytest.raises(CompilationError, match=rf"\[HW_ARGUMENT\] {macro.name}: .*{name}"):
            adapter.execute_macro(macro.name, manifest, kwargs={name: value})


def test_what_a_model_calls_is_described_once_in_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SimpleNamespace(
        credentials=HeadwatersCredentials.from_dict({"schema": "shop"}), log_cache_events=False
    )
    adapter = HeadwatersAdapter(config, get_context("spawn"))
    bodies = {"shop.net": "shop.rate(x) * x", "shop.rate": "0.8"}
    asked: list[str] = []

    def rows(statement: str) -> list[tuple[str, ...]]:
        kind, _, name = statement.rpartition(" ")
        if kind != "describe function extended":
            return [(name, "a value")]
        asked.append(name)
        return [(f"Body: {bodies[name]}",)]

    monkeypatch.setattr(adapter, "_rows", rows)
    sql = "select shop.net(price) from orders"
    graph: dict[str, Any] = {"nodes": {}, "sources": {}}
    first, second = ({"unique_id": f"model.shop.{name}"} for name in ("first", "second"))
    monkeypatch.setattr(adapter, "nice_connection_name", lambda: first["unique_id"])
    adapter.digest_of_run(first, sql, graph)
    described = {"shop.net": "Body: shop.rate(x) * x", "shop.rate": "Body: 0.8"}
    assert [adapter.fingerprint(sql)["functions"] for _ in range(2)] == [described] * 2
    assert asked == ["shop.net", "shop.rate"]
    # hooks of the first may have changed it; a run that begins with its own has no digest
    bodies["shop.rate"] = "0.9"
    monkeypatch.setattr(adapter, "nice_connection_name", lambda: second["unique_id"])
    changed = described | {"shop.rate": "Body: 0.9"}
    assert adapter.fingerprint(sql)["functions"] == changed
    bodies["shop.rate"] = "1.0"
    adapter.digest_of_run(second, sql, graph)
    assert adapter.fingerprint(sql)["functions"] == described | {"shop.rate": "Body: 1.0"}
    assert asked == ["shop.net", "shop.rate"] * 3


def test_a_table_without_a_format_is_delta(manifest: Any) -> None:
    nodes = [node for node in manifest.nodes.values() if node.package_name == "shop"]
    formats = {node.name: node.config.get("file_format") for node in nodes}
    assert formats == {"plain": "delta", "orc": "orc", "kinds": "delta", "none": "delta"}


def test_packages_choose_what_is_for_spark(manifest: Any) -> None:
    assert manifest.nodes["model.shop.orc"].config.meta == {"kind": "spark", "depth": 9}
    assert manifest.metadata.adapter_type == "headwaters"


def test_the_tables_of_headwaters_are_declared_and_their_tests_are_off(manifest: Any) -> None:
    found = {source.name: source for source in manifest.sources.values()}
    assert found.keys() == {"operations", "table_state", "expectations", "erasures"}
    assert {source.schema for source in found.values()} == {"shop_ops"}
    assert {source.package_name for source in found.values()} == {"dbt_headwaters"}
    assert all(column.data_type for source in found.values() for column in source.columns.values())
    tests = [node.name for node in manifest.nodes.values() if node.resource_type == "test"]
    assert tests == ["none"]


def test_properties_of_layer_sql_and_yaml_add_up(manifest: Any) -> None:
    assert manifest.nodes["model.shop.plain"].config.get("tblproperties") == {
        "a": "layer",
        "b": "sql",
        "c": "sql",
        "d": "yaml",
    }


def credentials(settings: dict[str, str] | None = None, **more: Any) -> HeadwatersCredentials:
    """Return the credentials that dbt makes of a profile in a project in /shop."""
    given = {"schema": "s", "server_side_parameters": settings or {}, **more}
    made: HeadwatersCredentials = HeadwatersCredentials.from_dict(
        HeadwatersCredentials.__pre_deserialize__(given)
    )
    made.settle(Path("/shop"))
    return made


def test_a_profile_names_a_schema_and_gets_a_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWATERS_LAKE", raising=False)
    made = credentials()
    assert (made.method, made.folder) == ("session", Path("/shop/lake"))
    settings = made.server_side_parameters
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert settings["spark.sql.warehouse.dir"] == "/shop/lake/warehouse"
    assert settings[DERBY] == "jdbc:derby:;databaseName=/shop/lake/metastore;create=true"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    monkeypatch.setenv("HEADWATERS_LAKE", "/elsewhere")
    assert credentials().folder == Path("/elsewhere")
    monkeypatch.setenv("HEADWATERS_LAKE", "")  # not the project itself
    assert credentials().folder == Path("/shop/lake")
    assert credentials(lake="../lake of mine").folder == Path("/lake of mine")


def test_packages_find_a_database_in_the_target() -> None:
    made = credentials()
    assert dict(made.connection_info(with_aliases=True))["database"] is None
    assert "database" not in dict(made.connection_info())


def test_what_a_profile_says_stands(tmp_path: Path) -> None:
    url = f"jdbc:derby:;databaseName={tmp_path}/derby;create=true"
    made = credentials({DERBY: url, "spark.ui.enabled": "true", "spark.master": "spark://a:1"})
    assert made.folder == tmp_path  # the lock is in the metastore's folder
    assert made.server_side_parameters[DERBY] == url
    assert made.server_side_parameters["spark.ui.enabled"] == "true"
    assert "spark.driver.bindAddress" not in made.server_side_parameters
    assert (
        DERBY
        not in credentials(
            {"spark.hadoop.hive.metastore.uris": "thrift://a:9083"}
        ).server_side_parameters
    )
    of_driver = {"spark.driver.memory": "3g", "spark.driver.host": "a"}  # pyspark would warn
    remote = credentials({"spark.remote": "sc://a:1", **of_driver}).server_side_parameters
    assert remote == {
        "spark.remote": "sc://a:1",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    }


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("jdbc:derby:;databaseName=lake/metastore;create=true", "lake/metastore"),
        ("jdbc:derby:/data/läke 1/metastore;create=true", "/data/läke 1/metastore"),
        ("jdbc:derby:directory:db", "db"),
        ("jdbc:derby:memory:db;create=true", None),
        ("jdbc:derby://server:1527/db", None),
        ("jdbc:postgresql://server/db", None),
    ],
)
def test_the_metastore_is_where_its_url_says(url: str, folder: str | None) -> None:
    assert derby_folder({DERBY: url}) == (Path(folder) if folder else None)


def test_logs_are_written_beside_the_tables(tmp_path: Path) -> None:
    name = "spark.driver.extraJavaOptions"
    logs = tmp_path / "the läke's" / "logs"
    assert logging_to(logs, {name: "-Xss4m"})[name] == (
        f'-Xss4m "-Dderby.stream.error.file={logs}/derby.log" '
        f"'-Dlog4j2.configurationFile={LOGGING.as_uri()}' \"-Dheadwaters.logs={logs}\""
    )
    own = "-Dlog4j2.configurationFile=mine.xml '-Dderby.stream.error.file=x'"
    assert logging_to(logs, {name: own})[name] == own


@pytest.mark.parametrize(
    "given", [{}, {"spark.remote": "sc://a:1"}, {"spark.master": "spark://a:1"}]
)
def test_every_session_writes_dates_and_times_that_other_readers_know(
    given: dict[str, str],
) -> None:
    name, rebase = (
        "spark.sql.parquet.outputTimestampType",
        "spark.sql.parquet.datetimeRebaseModeInWrite",
    )
    for sets in ({}, {name: "timestamp_micros"}):
        settings = credentials({**given, **sets})
        assert settings.server_side_parameters[name] == "TIMESTAMP_MICROS"
        assert settings.server_side_parameters[rebase] == "CORRECTED"
    with pytest.raises(UserError) as error:
        credentials({**given, name: "INT96"})
    assert str(error.value) == (
        f"[HW_PROFILE] the target sets {name} to INT96, with which readers outside Spark would "
        "read other dates and times: remove it, since headwaters sets TIMESTAMP_MICROS"
    )
    with pytest.raises(UserError, match=rf"{rebase} to LEGACY.*headwaters sets CORRECTED"):
        credentials({**given, rebase: "LEGACY"})


def test_a_server_without_the_log_store_writes_no_table_to_s3(
    dbt: Any, new_project: Any, schema: str, set_spark: Callable[[str, str], None]
) -> None:
    """Its warehouse is a folder, so that only the node's location is on S3."""
    at = "{{ config(materialized='table', location_root='s3a://absent/at') }} select 1 as id"
    folder = new_project({"models/away.sql": at, "models/here.sql": "select 1 as id"})
    set_spark(object_store.OF_S3A, "io.delta.storage.S3SingleDriverLogStore")
    result = dbt("run", project_dir=folder, schema=schema, expect=False)
    assert {one.node.name: one.status == "success" for one in result.result.results} == {
        **{"away": False, "here": True}
    }
    [line] = [line for text in result.messages for line in text.splitlines() if "[HW_" in line]
    own = (
        "sets spark.delta.logStore.s3a.impl to io.delta.storage.S3SingleDriverLogStore, with which"
    )
    assert re.search(rf"\[HW_LOG_STORE\] the Spark at sc://localhost:\d+/? {re.escape(own)}", line)
