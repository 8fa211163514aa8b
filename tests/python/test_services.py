"""Test the platform: the order of its services, and by `make test-platform` all of them."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from platforms import Platform, make
from processes import environment
from trino_client import differing, java_of_trino, query

from headwaters.devkit import services, trino
from headwaters.devkit.objects import ObjectStore
from headwaters.devkit.services import ALL, SERVICES, Service, exports, selected
from headwaters.devkit.trino import catalog, files, new_java
from headwaters.platform.cluster import Master
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.hive_metastore import record
from headwaters.platform.jars import Java
from headwaters.platform.project import Project
from headwaters.platform.servers import Server

MODELS = {
    "seeds/orders.csv": "id,customer,amount\n1,ann,10\n2,bob,30\n3,ann,20\n",
    "seeds/orders.yml": "seeds: [{name: orders, config: {tblproperties: "
    "{delta.enableChangeDataFeed: 'true'}}}]\n",
    "models/totals.sql": "{{ config(materialized='incremental', incremental_strategy='auto', "
    "whole_below=0) }}\n"
    "select orders.customer, sum(orders.amount) as amount\n"
    "from {{ ref('orders') }} as orders group by orders.customer\n",
}


class Parts:
    """Services that only record their starts and stops."""

    def __init__(self, *names: str) -> None:
        """Make a service for each name."""
        self.running: dict[str, str] = {}
        self.done: list[str] = []
        self.fails = ""
        self.services = [self._service(name) for name in names]

    def _service(self, name: str) -> Service:
        def start(project: Project, say: Any) -> None:
            if name == self.fails:
                raise WorkError("HW_SERVER", f"{name} ended while it started")
            self.done.append(f"start {name}")
            self.running[name] = "here"

        def stop(lake: Path) -> object:
            self.done.append(f"stop {name}")
            return self.running.pop(name, None)

        return Service(name, lambda lake: self.running.get(name), start, stop)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Project]:
    with mock.patch.dict(os.environ, environment(), clear=True):
        yield Project(make(tmp_path, {}))


def test_services_start_in_order_stop_in_reverse_and_start_once(shop: Project) -> None:
    parts = Parts("a", "b", "c")
    lines: list[str] = []
    assert services.start(shop, lines.append, parts.services)
    assert lines == [f"{name} is ready at here (0 s)" for name in "abc"]
    assert not services.start(shop, lines.append, parts.services)
    assert lines[3:] == [f"{name} runs at here" for name in "abc"]
    lake = services.home(shop)
    del parts.running["b"]
    assert list(services.stop(lake, parts.services)) == ["c", "a"]
    assert parts.done == [f"start {x}" for x in "abc"] + [f"stop {x}" for x in "cba"]


def test_a_failed_service_leaves_those_before_it_for_the_next_start(shop: Project) -> None:
    parts = Parts("a", "b", "c")
    lines: list[str] = []
    parts.fails = "b"
    with pytest.raises(WorkError, match="b ended while it started"):
        services.start(shop, lines.append, parts.services)
    parts.fails = ""
    assert services.start(shop, lines.append, parts.services)
    assert parts.done == ["start a", "start b", "start c"]
    assert [line.split()[1] for line in lines] == ["is", "runs", "is", "is"]


def test_the_platform_has_a_lake_of_its_own_which_its_variables_name(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.start(shop, print, [])
    lake = services.home(shop)
    assert lake == shop.root / "lake" / "platform"
    variables = {"HEADWATERS_LAKE": "s3a://lake/headwaters", "HEADWATERS_LOCAL": str(lake)}
    assert services.file(lake).read_text() == exports(variables)
    assert stat.S_IMODE(services.file(lake).stat().st_mode) == 0o600
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert services.home(Project(shop.root)) == lake


def test_further_services_are_named_once_and_after_the_others() -> None:
    assert [one.name for one in ALL] == [
        "PostgreSQL",
        "S3",
        "metastore",
        "Spark",
        "Kafka",
        "Trino",
        "Flink",
    ]
    assert selected(None) == list(SERVICES)
    assert selected("flink,trino, ") == list(ALL)
    assert selected("flink") == [one for one in ALL if one.name != "Trino"]
    with pytest.raises(UserError, match="--with minio: there is trino, flink"):
        selected("trino,minio")


def test_variables_are_quoted_for_a_shell() -> None:
    assert exports({"A": "x y", "B": "it's"}) == "export A='x y'\nexport B='it'\"'\"'s'\n"


def test_no_secret_is_in_the_text_of_a_server() -> None:
    assert "hidden" not in repr(ObjectStore(1, 2, "key", "hidden")) + repr(
        Master(1, 2, 3, "hidden")
    )


def test_a_catalog_of_trino_has_the_settings_that_make_it_right() -> None:
    store = {"fs.s3a.endpoint": "http://127.0.0.1:9", "fs.s3a.path.style.access": "true"}
    assert catalog("thrift://h:9083", store) == {
        "connector.name": "delta_lake",
        "hive.metastore": "thrift",
        "hive.metastore.uri": "thrift://h:9083",
        "fs.native-s3.enabled": "true",
        "s3.region": "us-east-1",
        "s3.exclusive-create": "true",
        "delta.enable-non-concurrent-writes": "true",
        "delta.metadata.cache-ttl": "0s",
        "delta.metadata.live-files.cache-ttl": "0s",
        "parquet.use-column-index": "false",
        "s3.endpoint": "http://127.0.0.1:9",
        "s3.path-style-access": "true",
        "s3.aws-access-key": "${ENV:AWS_ACCESS_KEY_ID}",
        "s3.aws-secret-key": "${ENV:AWS_SECRET_ACCESS_KEY}",
    }
    aws = catalog("thrift://h:9083", {"fs.s3a.endpoint.region": "eu-central-1"})
    assert aws["s3.region"] == "eu-central-1"
    assert not [name for name in aws if name.startswith("s3.aws") or name == "s3.endpoint"]


def test_trino_listens_on_loopback_only(tmp_path: Path) -> None:
    written = files(8443, tmp_path, "thrift://h:9083", {})
    assert "http-server.http.port=8443\n" in written["config.properties"]
    assert "node.bind-ip=127.0.0.1\n" in written["node.properties"]
    assert sorted(written) == [
        "catalog/delta.properties",
        "config.properties",
        "log.properties",
        "node.properties",
    ]


def test_trino_without_a_new_java_is_one_line() -> None:
    assert new_java(Java(Path("/j"), 25, "25.0.3")).major == 25
    with pytest.raises(UserError) as caught:
        new_java(Java(Path("/usr/bin/java"), 17, "17.0.15"))
    assert str(caught.value) == (
        "[HW_NO_JAVA] Trino 476 needs Java 24 or newer, and /usr/bin/java is Java 17: install "
        "Java 25 beside it, and set HEADWATERS_TRINO_JAVA to its folder"
    )


# -- the platform --------------------------------------------------------------------------------

FEATURES = [
    "create schema if not exists feature",
    "create table feature.plain using delta as select id, cast(id % 7 as int) as k, id / 8 as x, "
    "cast(id as decimal(12, 3)) as d, concat('é', id) as s, date '2026-01-01' + cast(id as int) "
    "as day, id % 2 = 0 as flag, array(id, id) as list from range(1000)",
    "create table feature.deleted using delta tblproperties ('delta.enableDeletionVectors' = "
    "'true') as select * from feature.plain",
    "delete from feature.deleted where id % 5 = 0",
    "update feature.deleted set s = 'changed' where id = 501",
    "create table feature.widened using delta tblproperties ('delta.enableTypeWidening' = 'true') "
    "as select cast(id as int) as id, concat('s', id) as name from range(100)",
    "alter table feature.widened alter column id type bigint",
    "insert into feature.widened values (5000000000, 's')",
    "create table feature.mapped using delta tblproperties ('delta.columnMapping.mode' = 'name') "
    "as select id, id * 2 as `two words` from range(100)",
    "alter table feature.mapped rename column id to key",
    "alter table feature.mapped drop column `two words`",
    "create table feature.clustered (id bigint, k int) using delta cluster by (k)",
    "insert into feature.clustered select id, cast(id % 10 as int) from range(1000)",
    "optimize feature.clustered",
    "create table feature.tracked using delta tblproperties ('delta.enableRowTracking' = 'true') "
    "as select id from range(100)",
    "update feature.tracked set id = -1 where id = 7",
    "create table feature.times using delta as select timestamp_micros(id * 1234567) as at, "
    "cast(timestamp_micros(id * 1234567) as timestamp_ntz) as local from range(1000)",
]


# Statements of Trino on the input of a model.
WRITTEN_BY_TRINO = [
    "insert into gold.orders values (4, 'cyd', 7)",
    "update gold.orders set amount = 11 where id = 1",
    "delete from gold.orders where id = 3",
]
# A table with deletion vectors in its checkpoint, and in a commit after it.
DELETED = [
    "alter table gold.orders set tblproperties ('delta.enableDeletionVectors' = 'true', "
    "'delta.checkpointInterval' = '2')",
    "delete from gold.orders where id = 2",
    "insert into gold.orders values (5, 'eve', 5), (6, 'flo', 6)",
    "insert into gold.orders values (7, 'gus', 7), (8, 'hal', 8)",
    "delete from gold.orders where id in (6, 7, 8)",
]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    java = {trino.VARIABLE: java_of_trino()}
    started = Platform(tmp_path_factory.mktemp("platform"), MODELS, **java)
    try:
        yield started
    finally:
        list(services.stop(started.lake, ALL))


@pytest.mark.platform
def test_a_project_is_built_on_the_platform_and_read_by_trino(platform: Platform) -> None:
    lines = platform.run("headwaters", "platform", "start", "--with", "trino,flink").splitlines()
    ready = [line.split(" is ready at ")[0] for line in lines if " is ready at " in line]
    assert ready == [one.name for one in ALL]  # between them, what is fetched or built once
    assert lines[-1] == "use it: `. lake/platform/platform.env`, then dbt build --target cluster"
    again = platform.run("headwaters", "platform", "start").splitlines()
    assert again[-1] == "nothing to do: the platform runs"
    assert "PASS=2" in platform.run("dbt", "build", "--target", "cluster")
    assert "no changes" in platform.run("dbt", "run", "--target", "cluster")

    spark, port = platform.spark(), trino.find(platform.lake)
    assert port
    for statement in FEATURES:
        spark.sql(statement)
    with pytest.raises(Exception, match="DELTA_UNSUPPORTED_DATA_TYPES"):
        spark.sql("create table feature.collated (s string collate UTF8_LCASE) using delta")
    tables = [
        f"{schema}.{row[1]}"
        for schema in ("gold", "feature")
        for row in spark.sql(f"show tables in {schema}").collect()
    ]
    assert len(tables) == 9
    tables.remove("feature.widened")  # the widened column is missing in Trino
    assert [row[0] for row in query(port.port, "show columns from feature.widened")] == ["name"]
    assert {name: differing(spark, port.port, name) for name in tables} == {
        name: {} for name in tables
    }
    found = query(port.port, "show session like 'delta.parquet_use_column_index'")
    assert found[0][1] == "false"

    for statement in WRITTEN_BY_TRINO:
        query(port.port, statement)
    printed = platform.run("dbt", "run", "--target", "cluster")
    assert ": 1 inserted, 1 updated, 0 deleted" in printed
    totals = "select customer, amount from gold.totals order by 1"
    assert query(port.port, totals) == [("ann", 11), ("bob", 30), ("cyd", 7)]

    # deleted rows do not appear again after the change to properties that Trino writes
    for statement in DELETED:
        spark.sql(statement)
    project = platform.folder / "dbt_project.yml"
    project.write_text(f"{project.read_text()}seeds: {{+meta: {{property_set: interop}}}}\n")
    arguments = "{select: orders, reason: for Trino, dry_run: false}"
    apply = ("dbt", "run-operation", "apply_tables", "--args", arguments, "--target")
    assert "[HW_PURGE_ON_EXECUTORS]" in platform.run(*apply, "cluster", code=1)
    platform.run(*apply, "dev")  # a Spark inside the process
    found = query(port.port, "select id, customer from gold.orders order by id")
    assert found == [(1, "ann"), (4, "cyd"), (5, "eve")]
    platform.run("dbt", "run", "--target", "cluster")
    assert query(port.port, totals) == [("ann", 11), ("cyd", 7), ("eve", 5)]
    details = spark.sql("describe detail gold.totals").collect()[0]
    assert details["location"] == f"{services.WAREHOUSE}/gold.db/totals"
    spark.stop()

    # Spark and Trino know its address
    metastore = next(one for one in ALL if one.name == "metastore")
    address, server = metastore.find(platform.lake), Server.running(record(platform.lake))
    assert server
    os.kill(server.pid, signal.SIGKILL)
    platform.run("headwaters", "platform", "start")
    assert metastore.find(platform.lake) == address
    assert "no changes" in platform.run("dbt", "run", "--target", "cluster")

    variables = platform.variables()
    secrets = [variables[name] for name in ("AWS_SECRET_ACCESS_KEY", "HEADWATERS_MASTER_SECRET")]
    logs = [*platform.folder.rglob("*.log"), *platform.folder.rglob("stderr")]
    assert len(logs) > 10
    assert [log for log in logs if any(one.encode() in log.read_bytes() for one in secrets)] == []

    assert platform.run("headwaters", "platform", "status").count(" at ") >= len(ALL)
    stopped = platform.run("headwaters", "platform", "stop").splitlines()
    assert stopped == [f"{one.name} stopped" for one in reversed(ALL)]
    platform.run("headwaters", "platform", "status", code=1)
    assert platform.run("headwaters", "platform", "stop") == "no platform runs here\n"
