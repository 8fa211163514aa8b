"""Test that `headwaters` finds project, profile and target as dbt does, in any project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from dbt.cli.main import dbtRunner
from ingestion import node

from headwaters.platform import engine
from headwaters.platform.errors import UserError
from headwaters.platform.options import find_project
from headwaters.platform.project import Project
from headwaters.streams.contract import parse_contract
from headwaters.streams.declared_tables import table_location
from headwaters.streams.ingestion.contracts import load_contracts
from headwaters.streams.ingestion.spark import start_spark
from headwaters.streams.stream import Stream

PROJECT = "name: shop\nversion: 1.0.0\nprofile: shop\n"
DERBY = "spark.hadoop.javax.jdo.option.ConnectionURL"
Shop = Callable[..., Path]


def profile(**outputs: str) -> str:
    """Return a profile of targets, with the first as the default."""
    targets = "".join(f"    {name}: {{{settings}}}\n" for name, settings in outputs.items())
    return f"shop:\n  target: {next(iter(outputs))}\n  outputs:\n{targets}"


DEV = "type: headwaters, schema: shop, threads: 1"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Clear the user's variables, and set a new home."""
    for name in ("DBT_PROFILES_DIR", "DBT_TARGET", "HEADWATERS_LAKE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Return `shop({"profiles.yml": …})`, which makes a project of the current folder."""

    def make(files: dict[str, str]) -> Path:
        root = tmp_path / "a shop"
        for name, text in {"dbt_project.yml": PROJECT, **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        monkeypatch.chdir(root)
        return root

    return make


def test_a_profile_of_three_keys_is_enough(shop: Shop) -> None:
    root = shop({"profiles.yml": profile(dev=DEV)})
    project = find_project()
    assert (project.root, project.lake) == (root, root / "lake")
    assert project.warehouse == root / "lake" / "warehouse"
    settings = project.spark_settings()
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"


STREAM = """
  - name: {name}
    tables:
      - name: {name}
        config: {{meta: {{stream: {{from: files, path: in, {key}: json}}}}}}
        columns: [{{name: {column}, data_type: {type}}}]
"""


def test_a_wrong_contract_stops_dbt_parse_and_not_the_other_streams(shop: Shop) -> None:
    declared = {"name": "right", "key": "format", "column": "id", "type": "int"}
    streams = [
        declared,
        declared | {"name": "key", "key": "formt"},
        declared | {"name": "stored", "column": "a b"},
        declared | {"name": "type", "type": "itn"},
    ]
    text = "sources:" + "".join(STREAM.format(**one) for one in streams)
    root = shop({"profiles.yml": profile(dev=DEV), "models/a.yml": text})
    found, refused = load_contracts(Project(root))
    assert [contract.name for contract in found] == ["right"]
    wrong = ["key.key: config.meta.stream", "stored.stored: column a b", "type.type: column id"]
    assert [
        str(problem).partition(" models/a.yml: ")[2][: len(said)]
        for problem, said in zip(refused, wrong, strict=True)
    ] == wrong
    with pytest.raises(UserError, match=r"stored\.stored: column a b: "):
        load_contracts(Project(root), ["source:stored"])
    result = dbtRunner().invoke(["parse", "--log-level", "none"])
    assert "key.key: config.meta.stream: 'formt' is not a key here" in str(result.exception)
    assert "type.type: column id: data_type 'itn' is not a type here" in str(result.exception)


def test_an_application_of_few_cores_has_few_partitions(shop: Shop) -> None:
    cluster = "server_side_parameters: {spark.master: 'spark://m:7077', spark.cores.max: %s}"
    targets = {"one": f"{DEV}, {cluster % 1}", "many": f"{DEV}, {cluster % 16}"}
    none = f"{DEV}, server_side_parameters: {{spark.master: yarn}}"
    shop({"profiles.yml": profile(dev=none, **targets)})

    def partitions(target: str | None) -> list[str | None]:
        settings = find_project(target=target).spark_settings()
        names = ("spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions")
        return [settings.get(name) for name in names]

    assert partitions("one") == ["4", "2"]
    assert partitions("many") == ["16", "8"]
    assert partitions("dev") == [None, None]


def test_tables_alone_may_be_on_s3(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:7070")
    on_s3 = "server_side_parameters: {spark.sql.warehouse.dir: 's3a://shop/warehouse'}"
    keys = "server_side_parameters: {spark.hadoop.fs.s3a.access.key: abc}"
    root = shop({"profiles.yml": profile(dev=f"{DEV}, {on_s3}", keys=f"{DEV}, {keys}")})
    project = find_project()
    settings = project.spark_settings()
    assert project.lake == root / "lake"
    assert settings["spark.sql.warehouse.dir"] == "s3a://shop/warehouse"
    assert settings["spark.delta.logStore.s3a.impl"] == "headwaters.delta.ConditionalLogStore"
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:7070"
    with pytest.raises(UserError, match=r"sets spark\.hadoop\.fs\.s3a\.access\.key: remove it"):
        find_project(target="keys").lake  # noqa: B018 - to read it raises


def test_a_lake_may_be_in_a_store_and_has_a_folder_on_this_machine(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:7070")
    lake = f"{DEV}, lake: 's3a://shop/lake'"
    targets = {
        "dev": lake,
        "named": f"{lake}, local: of this machine",
        "slash": f"{DEV}, lake: 's3a://shop/lake/'",
        "file": f"{DEV}, lake: 'file:///data/lake'",
        "hadoop": f"{DEV}, lake: 'file:/data/lake'",
        "host": f"{DEV}, lake: 'file://host/lake'",
        "relative": f"{DEV}, lake: 'file:lake'",
        "cluster": f"{lake}, server_side_parameters: {{spark.remote: 'sc://host:15002'}}",
    }
    root = shop({"profiles.yml": profile(**targets)})
    project = find_project()
    settings = project.spark_settings()
    assert (str(project.lake), str(project.warehouse)) == (
        *("s3a://shop/lake", "s3a://shop/lake/warehouse"),
    )
    assert settings["spark.sql.warehouse.dir"] == "s3a://shop/lake/warehouse"
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:7070"
    local = root / ".headwaters" / "s3a-shop-lake"
    assert (project.local, settings[DERBY]) == (
        *(local, f"jdbc:derby:;databaseName={local / 'metastore'};create=true"),
    )
    assert find_project(target="named").local == root / "of this machine"
    assert find_project(target="file").lake == Path("/data/lake")
    assert find_project(target="hadoop").lake == Path("/data/lake")
    for target, named in (("host", "file://host/lake"), ("relative", "file:lake")):
        with pytest.raises(UserError) as caught:
            find_project(target=target).lake  # noqa: B018 - to read it raises
        assert str(caught.value) == (
            f"[HW_STORE_URI] the lake is {named}, and a file: URI has no host and an absolute "
            "path: write file:///path/to/folder, or the path alone"
        )
    assert str(find_project(target="cluster").lake) == "s3a://shop/lake"
    with pytest.raises(UserError, match="the lake is s3a://shop/lake/: write s3a://shop/lake"):
        find_project(target="slash").lake  # noqa: B018 - to read it raises
    with pytest.raises(UserError, match="of its own: choose --target dev or --target named"):
        find_project(target="cluster").spark_settings()
    monkeypatch.setenv("HEADWATERS_LOCAL", "/var/lake")
    assert find_project().local == Path("/var/lake")


def test_the_profile_is_found_where_dbt_finds_it(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"home/.dbt": "of_home", "a shop": "of_shop", "env": "of_env", "said": "of_said"}

    def write(place: str) -> None:
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / "profiles.yml").write_text(profile(dev=f"{DEV}, lake: {places[place]}"))

    root = shop({})
    with pytest.raises(UserError, match=r"home/\.dbt/profiles\.yml does not exist; name its fold"):
        find_project().lake  # noqa: B018 - reading it is what fails
    write("home/.dbt")
    assert find_project().lake == root / "of_home"
    write("a shop")
    assert find_project().lake == root / "of_shop"
    write("env")
    monkeypatch.setenv("DBT_PROFILES_DIR", "../env")
    assert find_project().lake == root / "of_env"
    write("said")
    project = find_project(profiles_dir=Path("../said"))
    assert project.lake == root / "of_said"
    monkeypatch.chdir(tmp_path)  # a relative path is resolved before the folder changes
    assert project.dbt_options == [
        *("--project-dir", str(root), "--profiles-dir", str(tmp_path / "said"))
    ]


def test_the_target_is_the_one_that_dbt_takes(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    both = profile(dev=f"{DEV}, lake: of_dev", prod=f"{DEV}, lake: /data/prod")
    root = shop({"profiles.yml": both})
    assert find_project().lake == root / "of_dev"
    monkeypatch.setenv("DBT_TARGET", "prod")
    assert find_project().lake == Path("/data/prod")
    project = find_project(target="dev")
    assert project.lake == root / "of_dev"
    assert project.dbt_options[-2:] == ["--target", "dev"]
    with pytest.raises(UserError, match=r"does not have a target named 'night'.* - dev - prod"):
        find_project(target="night").lake  # noqa: B018 - to read it raises


def test_the_profile_is_rendered_by_dbt(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = "{{ env_var('SHOP_LAKE') }}/{{ 1 + 1 }}"
    settings = f'{DEV}, lake: "{lake}", server_side_parameters: {{spark.ui.enabled: "true"}}'
    root = shop({"profiles.yml": profile(dev=settings)})
    with pytest.raises(UserError, match="Env var required but not provided: 'SHOP_LAKE'"):
        find_project().lake  # noqa: B018 - to read it raises
    monkeypatch.setenv("SHOP_LAKE", "of env")
    project = find_project()
    assert project.lake == root / "of env" / "2"
    assert project.spark_settings()["spark.ui.enabled"] == "true"


def test_lake_and_tables_are_where_the_profile_puts_the_metastore_and_the_warehouse(
    shop: Shop,
) -> None:
    settings = f"{DERBY}: 'jdbc:derby:;databaseName=data/derby;create=true'"
    more = "spark.sql.warehouse.dir: 'file:/big%20disk/tables'"
    store = "spark.sql.warehouse.dir: 's3a://bucket/tables'"
    hdfs = "spark.sql.warehouse.dir: 'hdfs://host/tables'"
    root = shop(
        {
            "profiles.yml": profile(
                dev=f"{DEV}, server_side_parameters: {{{settings}}}",
                big=f"{DEV}, server_side_parameters: {{{more}}}",
                store=f"{DEV}, server_side_parameters: {{{store}}}",
                hdfs=f"{DEV}, server_side_parameters: {{{hdfs}}}",
            )
        }
    )
    assert find_project().lake == root / "data"
    assert find_project(target="big").warehouse == Path("/big disk/tables")
    stream = Stream.of(find_project(target="big"), parse_contract(node({"id": "string"})))
    assert stream.bronze == Path("/big disk/tables/bronze.db/orders")
    assert str(find_project(target="store").warehouse) == "s3a://bucket/tables"
    with pytest.raises(UserError, match=r"beside their tables: put `lake: s3a://bucket` into the"):
        start_spark(find_project(target="store"))
    with pytest.raises(UserError, match="has its warehouse in hdfs://host/tables: streams and com"):
        find_project(target="hdfs").warehouse  # noqa: B018 - to read it raises


def test_a_stream_is_written_to_the_schema_of_its_source(shop: Shop) -> None:
    root = shop({"profiles.yml": profile(dev=DEV)})
    contract = parse_contract(node({"id": "string"}) | {"schema": "Shop_Raw"})
    stream = Stream.of(find_project(), contract)
    assert stream.bronze == root / "lake/warehouse/shop_raw.db/orders"
    assert stream.quarantine == root / "lake/warehouse/shop_raw.db/orders_quarantine"
    # a quarantined record names the contract that refused it, not the place of its table
    assert contract.version == parse_contract(node({"id": "string"})).version


def test_a_table_is_registered_where_its_stream_writes_it() -> None:
    given = "file:/the%20l%C3%A4ke/warehouse/shop_raw.db"
    assert table_location(given, "clicks") == "file:/the läke/warehouse/shop_raw.db/clicks"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"profiles.yml": profile(dev="type: spark, schema: s")}, "dev of shop is of type spark; "),
        ({"profiles.yml": "other: {}\n"}, "has no profile 'shop', which .*dbt_project.yml names"),
        ({"profiles.yml": ""}, "profiles.yml file at .* is empty"),
        ({"profiles.yml": profile(dev="type: headwaters")}, "Must specify `schema` in profile"),
        ({"profiles.yml": profile(dev=DEV), "dbt_project.yml": "name: shop\n"}, "no profile was"),
    ],
)
def test_a_profile_that_is_none_is_one_line(
    shop: Shop, files: dict[str, str], message: str
) -> None:
    shop(files)
    with pytest.raises(UserError, match=message) as caught:
        find_project().lake  # noqa: B018 - to read it raises
    assert "\n" not in str(caught.value)


def test_a_spark_elsewhere_has_a_lake_and_no_settings(shop: Shop) -> None:
    there = f'{DEV}, server_side_parameters: {{"spark.remote": "sc://host:15002"}}'
    root = shop({"profiles.yml": profile(there=there)})
    project = find_project()
    assert project.lake == root / "lake"
    with pytest.raises(UserError, match=r"the target there is a Spark elsewhere.*: add a target"):
        project.spark_settings()
    shop({"profiles.yml": profile(there=there, dev=DEV, ci=DEV, old="type: spark")})
    with pytest.raises(UserError, match=r"of its own: choose --target dev or --target ci$"):
        find_project().spark_settings()


def test_a_command_says_which_project_it_takes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = shop({"profiles.yml": profile(dev=DEV), "models/a/b.sql": ""})
    assert find_project().root == root
    assert capsys.readouterr().err == ""
    monkeypatch.chdir(root / "models" / "a")
    assert find_project().lake == root / "lake"
    assert capsys.readouterr().err == f"headwaters: works from {root}, the project's folder\n"
    monkeypatch.chdir(root.parent)
    with pytest.raises(UserError, match=r"no dbt_project\.yml in .* or above it: run headwaters"):
        find_project()


SOURCES = """
sources:
  - name: {schema}
    tables:
      - name: orders
        config: {{meta: {{stream: {{from: files, path: in, format: json}}}}}}
        columns: [{{name: id, data_type: string}}]
"""


def test_two_streams_of_one_name_are_refused(shop: Shop) -> None:
    root = shop({"profiles.yml": profile(dev=DEV), "models/a.yml": SOURCES.format(schema="raw")})
    [contract] = load_contracts(Project(root))[0]
    assert (contract.full_name, contract.file) == ("raw.orders", "models/a.yml")
    (root / "models/b.yml").write_text(SOURCES.format(schema="other"))
    with pytest.raises(UserError, match="are streams of one name, by which their checkpoints"):
        load_contracts(Project(root))


def test_a_target_with_an_embedded_spark_may_use_the_engine(shop: Shop, tmp_path: Path) -> None:
    outputs = {
        "dev": f"{DEV}, server_side_parameters: {{spark.hadoop.a: b, spark.driver.memory: 1g}}",
        "far": f"{DEV}, server_side_parameters: {{spark.remote: 'sc://far'}}",
    }
    root = shop({"profiles.yml": profile(**outputs)})

    def remote(target: str) -> str | None:
        return Project.find(target=target).credentials.server_side_parameters.get("spark.remote")

    with engine.used(tmp_path / "another lake"):
        assert remote("dev") is None
    with engine.used(root / "lake"):
        assert (remote("dev"), remote("far")) == (engine.OF_THIS_LAKE, "sc://far")
        settings = Project.find(target="dev").credentials.server_side_parameters
        assert (settings["spark.hadoop.a"], "spark.driver.memory" in settings) == ("b", False)
    assert remote("dev") is None
