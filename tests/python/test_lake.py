"""Test the lake's folder: private to its owner, and independent after a copy or move."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dbt.adapters.headwaters.session import session_of
from ingestion import Ingester, modes, node
from processes import environment

from headwaters.platform import lake as lakes
from headwaters.platform.errors import UserError
from headwaters.platform.project import Project
from headwaters.platform.relocate import clones, moved
from headwaters.streams.ingestion.spark import ZONE, spark_settings

ROOT = Path(__file__).resolve().parents[2]
ORDERS = node({"id": "string"})


def refusal(lake: Path, made: Path, how: str = "copied") -> str:
    return (
        f"[HW_LAKE_MOVED] the lake {lake} was {how} from {made}, which its metastore and "
        "checkpoints still name: `headwaters relocate` shows what has to change"
    )


def test_what_ingestion_makes_is_for_its_owner_alone(ingester: Ingester) -> None:
    ingester.land("1.jsonl", '{"id": "a"}', "bad")
    ingester.run(ORDERS)
    shutil.rmtree(ingester.lake / "landing")  # this test's
    ingester.lake.chmod(0o700)
    assert (ingester.lake / "warehouse/bronze.db/orders/_delta_log").is_dir()
    assert {path: oct(mode) for path, mode in modes(ingester.lake).items() if mode & 0o077} == {}


def test_a_setting_lets_a_group_read_the_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set the umask of Python's files, which Java inherits, and Spark's option for Hadoop's."""
    before = os.umask(0)
    try:
        for named, folder, file, hadoop in (
            ("027", "0o750", "0o640", "027"),
            ("", "0o700", "0o600", "077"),
        ):
            monkeypatch.setenv("HEADWATERS_UMASK", named)
            lake = tmp_path / f"lake{named}"
            lakes.enter(lake)
            (lake / "warehouse").mkdir()
            (lake / "warehouse" / "a.parquet").touch()
            found = {name.partition("/")[2]: oct(mode) for name, mode in modes(lake).items()}
            assert found == {
                **{"": folder, "warehouse": folder},
                **{"warehouse/a.parquet": file, "lake.json": file},
            }
            settings = Project(ROOT).spark_settings()
            assert settings["spark.hadoop.fs.permissions.umask-mode"] == hadoop
    finally:
        os.umask(before)


@pytest.mark.slow
def test_a_setting_lets_a_group_read_what_spark_makes(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    code = (
        "from pathlib import Path; from headwaters.streams.ingestion.spark import start_spark;"
        "from headwaters.platform.project import Project;"
        "project = Project(Path.cwd()); spark = start_spark(project);"
        "spark.range(3).write.format('delta').save(str(project.warehouse / 'bronze.db' / 't'));"
        "spark.stop()"
    )
    variables = {**environment(lake), "HEADWATERS_UMASK": "027"}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=variables, check=True, timeout=120)
    found = modes(lake)
    table = {path for path in found if "/bronze.db/t/" in path}
    assert {path for path in table if path.endswith(".parquet")}
    assert {path for path in table if path.endswith("/00000000000000000000.json")}
    for path, mode in found.items():
        assert oct(mode) == oct(0o750 if (tmp_path / path).is_dir() else 0o640), path


@pytest.mark.parametrize("named", ["0", "277", "999", "rwx", "22", "0077x"])
def test_a_umask_that_is_none_is_one_line(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATERS_UMASK", named)
    with pytest.raises(UserError, match=f"HEADWATERS_UMASK is {named}, which is not one: 077"):
        lakes.umask()


def test_a_lake_that_is_set_but_empty_is_not_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATERS_LAKE", "")
    project = Project(ROOT)
    assert project.lake == ROOT / "lake"
    settings = project.spark_settings()
    assert settings["spark.sql.warehouse.dir"] == "lake/warehouse"
    assert settings["spark.hadoop.javax.jdo.option.ConnectionURL"].startswith(
        f"jdbc:derby:;databaseName={ROOT}/lake/metastore;"
    )


def test_ingestion_reads_times_without_a_zone_in_that_of_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(ROOT)
    monkeypatch.setattr(Project, "lake", tmp_path)
    for given, zone in (({}, "UTC"), ({ZONE: "Asia/Tokyo"}, "Asia/Tokyo")):
        monkeypatch.setattr(Project, "spark_settings", lambda _, given=given: given)
        assert spark_settings(project)[ZONE] == zone


def test_java_is_not_told_of_a_lake_that_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0)
    try:
        for name, left in (("", None), ("x", "x")):
            monkeypatch.setenv("HEADWATERS_LAKE", name)
            lakes.enter(tmp_path / "lake")
            assert os.environ.get("HEADWATERS_LAKE") == left
    finally:
        os.umask(before)


@pytest.mark.parametrize("older", [False, True], ids=["now", "made before lakes knew their place"])
def test_streams_and_dbt_refuse_a_lake_that_was_copied(
    older: bool, ingester: Ingester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingester.land("1.jsonl", '{"id": "a"}')
    ingester.run(ORDERS)
    if older:
        (ingester.lake / "lake.json").unlink()
    copy = tmp_path / "copy"
    shutil.copytree(ingester.lake, copy)
    refused = Ingester(ingester.process, copy).run(ORDERS, code=2)
    assert refused == [refusal(copy, ingester.lake)]
    monkeypatch.setenv("HEADWATERS_LAKE", str(copy))
    for target in ({}, {"spark.remote": "the engine of this lake"}):
        with pytest.raises(UserError) as caught:
            session_of({}, target, copy)
        assert str(caught.value) == refusal(copy, ingester.lake)
    assert ingester.run(ORDERS) == ["orders  nothing new"]


def test_every_name_of_a_lake_leads_to_one_lake(ingester: Ingester, tmp_path: Path) -> None:
    ingester.land("1.jsonl", '{"id": "a"}')
    ingester.run(ORDERS)
    alias = tmp_path / "alias"
    alias.symlink_to(ingester.lake)
    for name in (alias, tmp_path / "x" / ".." / "alias", ingester.lake / "." / "..", ingester.lake):
        lake = name if name.name != ".." else name / ingester.lake.name
        assert Ingester(ingester.process, lake).run(ORDERS) == ["orders  nothing new"]
    new = tmp_path / "new place"
    ingester.lake.rename(new)
    ingester.lake.symlink_to(new)  # a moved lake with a link at its old place is the same lake
    assert Ingester(ingester.process, new).run(ORDERS) == ["orders  nothing new"]
    ingester.land("2.jsonl", '{"id": "b"}')
    Ingester(ingester.process, new).run(ORDERS)
    assert ingester.rows("orders", "id, _source_file") == [
        ["a", "landing/orders/1.jsonl"],
        ["b", "landing/orders/2.jsonl"],
    ]


@pytest.mark.parametrize(
    ("registered", "right"),
    [
        ("file:{here}/warehouse", True),
        ("file://{here}/warehouse", True),
        ("{here}/warehouse", True),
        ("file:{alias}/warehouse", True),
        ("s3a://bucket/warehouse", True),
        ("file:{there}/warehouse", False),
    ],
)
def test_the_metastore_is_asked_where_its_schemas_are(
    registered: str, right: bool, tmp_path: Path
) -> None:
    here, there, alias = (tmp_path / name for name in ("the läke", "there", "alias"))
    (here / "warehouse").mkdir(parents=True)
    alias.symlink_to(here)
    location = registered.format(here=here, there=there, alias=alias)
    if right:
        lakes.check_warehouse(here, location, f"file:{here}/warehouse", is_embedded=True)
    else:
        with pytest.raises(UserError) as caught:
            lakes.check_warehouse(here, location, f"file:{here}/warehouse", is_embedded=True)
        assert str(caught.value) == refusal(here, there, "moved")


@pytest.mark.parametrize(
    ("location", "result"),
    [
        ("file:/old/lake/warehouse", "file:/new lake/warehouse"),
        ("file:///old/lake/warehouse", "file:///new lake/warehouse"),
        ("/old/lake/warehouse/silver.db/t", "/new lake/warehouse/silver.db/t"),
        ("file:/old/lake", "file:/new lake"),
        ("file:/old/lake2/warehouse", None),
        ("file:/other/old/lake/warehouse", None),
        ("s3a://old/lake/warehouse", None),
    ],
)
def test_a_location_is_moved_in_the_form_that_it_has(location: str, result: str | None) -> None:
    assert moved(location, "/old/lake", "/new lake") == result


def test_a_lake_s_record_names_no_link_that_it_was_not_reached_by(tmp_path: Path) -> None:
    before = os.umask(0)
    os.umask(before)
    try:
        (tmp_path / "disk").mkdir()
        (tmp_path / "lake").symlink_to(tmp_path / "disk")
        lakes.enter(tmp_path / "lake")
    finally:
        os.umask(before)
    made = json.loads((tmp_path / "disk" / "lake.json").read_text())
    assert made == {"made_at": str(tmp_path / "lake")}


SESSION = (
    "import sys; from pathlib import Path; from headwaters.devkit import engine;"
    "from dbt.adapters.headwaters.session import session_of\n"
    "from headwaters.platform.project import Project\n"
    "project = Project(Path.cwd()); engine.start(project, port=0)\n"
    "try:\n"
    "    here = {'spark.remote': 'the engine of this lake'}\n"
    "    spark = session_of({}, here, project.lake)\n"
    "    for statement in sys.argv[1:]:\n"
    "        print([tuple(row) for row in spark.sql(statement).collect()])\n"
    "    spark.stop()\n"
    "except Exception as error: print(error)\n"
    "finally: engine.stop(project)"
)


def test_shallow_clones_are_known_by_their_logs(tmp_path: Path) -> None:
    for name, commits in {
        "copy": ['{"add":{"path":"file:/old/lake/a.parquet","size":1}}', "{}"],
        "plain": ['{"commitInfo":{}}\n{"add":{"path":"part-0/a.parquet","size":1}}'],
    }.items():
        log = tmp_path / "warehouse" / "silver.db" / name / "_delta_log"
        log.mkdir(parents=True)
        for number, text in enumerate(commits):
            (log / f"{number:020}.json").write_text(text)
    assert list(clones(tmp_path)) == ["silver.copy"]


def on_engine(lake: Path, *statements: str) -> list[str]:
    """Return the results of statements on an engine of the lake."""
    ran = subprocess.run(
        [sys.executable, "-c", SESSION, *statements],
        cwd=ROOT,
        env=environment(lake),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def relocate(lake: Path, *more: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-m", "headwaters.cli", "relocate", *more],
        cwd=ROOT,
        env=environment(lake),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return [*ran.stdout.splitlines(), *ran.stderr.splitlines()]


@pytest.mark.slow
def test_a_copied_lake_becomes_one_of_its_own(ingester: Ingester, tmp_path: Path) -> None:
    original, copy = ingester.lake, tmp_path / "the cöpy, 100%"
    ingester.land("1.jsonl", '{"id": "a"}')
    ingester.run(ORDERS)
    bronze = original / "warehouse" / "bronze.db" / "orders"
    on_engine(
        original,
        "create schema bronze",
        f"create table bronze.orders using delta location '{bronze}'",
        "create schema silver",
        "create table silver.t using delta as select 1 as id",
    )
    shutil.copytree(original, copy)
    (copy / "lake.json").unlink()  # created before lakes recorded their place
    shutil.rmtree(copy / "checkpoints")  # by dbt alone
    assert on_engine(copy, "insert into silver.t values (2)") == [refusal(copy, original)]
    shutil.copytree(original / "checkpoints", copy / "checkpoints")
    plan = [
        f"{original} → {copy}",
        "  checkpoints: 1 paths of files that streams have read",
        "  metastore: 3 schemas, 2 tables",
    ]
    assert relocate(copy) == [*plan, "nothing was changed: --apply does it"]
    assert relocate(copy) == [*plan, "nothing was changed: --apply does it"]
    assert relocate(copy, "--apply") == [*plan, "done"]
    assert relocate(copy) == [
        f"headwaters: [HW_RELOCATION] the lake {copy} is where it was made: nothing has to change"
    ]
    copied = Ingester(ingester.process, copy)
    assert copied.run(ORDERS) == ["orders  nothing new"]
    copied.land("2.jsonl", '{"id": "b"}')
    assert copied.run(ORDERS) == ["orders  1 rows"]
    assert on_engine(
        copy,
        "insert into silver.t values (2)",
        "select id from silver.t order by id",
        "select id from bronze.orders order by id",
        "create schema gold",
        "create table gold.t using delta as select 3 as id",
    ) == ["[]", "[(1,), (2,)]", "[('a',), ('b',)]", "[]", "[]"]
    assert (copy / "warehouse" / "gold.db" / "t").is_dir()
    assert not (original / "warehouse" / "gold.db").exists()
    assert on_engine(original, "select id from silver.t", "select id from bronze.orders") == [
        "[(1,)]",
        "[('a',)]",
    ]
