"""Test a stranger's project: the wheel, a new environment, and nothing but the page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from processes import INTERPRETED, QUICK_JAVA, environment

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "use-in-your-project.md"

MACRO = (
    "{%% macro %s %%}{{ exceptions.raise_compiler_error('a macro of the shop') }}{%% endmacro %%}\n"
)
NAMES = [
    *("_plan(when)", "_state(relation)", "_quote(a, b, c)", "_literal()", "_run_plan(strategy)"),
    *("equals(columns, a, b, c)", "quote(name)", "drop(x)", "restore(x)", "backup(x)", "rebuild()"),
]
ORDERS = """
{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key='id',
    delete_condition='DBT_INTERNAL_SOURCE.gone',
) }}
{% if var('day') == 1 %}
select * from values (1, 'ann', 10, false), (2, 'bob', 20, false), (3, 'ann', 30, false)
{% else %}
select * from values (2, 'bob', 25, false), (3, 'ann', 30, true), (4, 'cyd', 40, false)
{% endif %}
as orders (id, customer, amount, gone)
"""
VISITS = """
{{ config(materialized='incremental', incremental_strategy='append') }}
{% if var('day') == 1 %}
select * from values (1, 'a', 1), (1, 'b', 2), (2, 'c', 1) as visits (id, page, at)
{% else %}
select * from values (2, 'd', 2), (1, 'x', 0) as visits (id, page, at)
{% endif %}
"""


def model(strategy: str, key: str, sql: str, more: str = "") -> str:
    """Return an incremental model's text."""
    settings = f"incremental_strategy='{strategy}', unique_key='{key}'{more}"
    return f"{{{{ config(materialized='incremental', {settings}) }}}}\n{sql}\n"


FILES = {
    "macros/theirs.sql": "".join(MACRO % name for name in NAMES),
    "models/orders.sql": ORDERS,
    "models/visits.sql": VISITS,
    "models/big_orders.sql": model(
        "change_feed",
        "id",
        "select id, amount * 100 as cents from {{ changes(ref('orders')) }} where amount >= 20",
    ),
    "models/last_pages.sql": model(
        "change_feed",
        "id",
        "select id, page, at from {{ changes(ref('visits')) }}",
        ", latest_by='at'",
    ),
    "models/totals.sql": model(
        "affected_keys",
        "customer",
        "select customer, count(*) as orders, sum(amount) as amount"
        " from {{ affected(ref('orders'), key='customer') }} group by customer",
    ),
    "models/sums.sql": model(
        "signed_sum",
        "customer",
        "select customer, sum(_weight) as orders, sum(cast(amount as bigint) * _weight) as amount"
        " from {{ signed(ref('orders')) }} group by customer",
    ),
    "models/periods.sql": model(
        "history", "id", "select id, amount, _image from {{ images(ref('orders')) }}"
    ),
    "models/named.sql": "{{ config(materialized='view') }}\n"
    "select names.name, totals.amount from {{ ref('totals') }} as totals"
    " inner join {{ ref('names') }} as names on totals.customer = names.customer",
    "models/copies.sql": "{{ config(materialized='table') }}\nselect * from {{ ref('orders') }}",
    "models/models.yml": """
models:
  - name: totals
    columns: [{name: customer, data_tests: [unique, not_null]}]
  - name: big_orders
    data_tests:
      - unique_combination_of_columns: {arguments: {combination_of_columns: [id, cents]}}
unit_tests:
  - name: totals_are_of_a_customer
    model: totals
    given:
      - input: ref('orders')
        rows:
          - {id: 1, customer: "o'hara", amount: 1}
          - {id: 2, customer: "o'hara", amount: 2}
    expect:
      rows: [{customer: "o'hara", orders: 2, amount: 3}]
""",
    "seeds/names.csv": "customer,name\nann,Ann O'Hara\nbob,Bob\ncyd,\n",
    "snapshots/kept.yml": """
snapshots:
  - name: kept
    relation: ref('totals')
    config: {unique_key: customer, strategy: check, check_cols: [amount]}
""",
}
# The rows of each table after the first build, and after the second.
ROWS: dict[str, tuple[list[list[object]], list[list[object]]]] = {
    "select id, amount from orders": ([[1, 10], [2, 20], [3, 30]], [[1, 10], [2, 25], [4, 40]]),
    "select id, amount from copies": ([[1, 10], [2, 20], [3, 30]], [[1, 10], [2, 25], [4, 40]]),
    "select * from big_orders": ([[2, 2000], [3, 3000]], [[2, 2500], [4, 4000]]),
    "select * from last_pages": ([[1, "b", 2], [2, "c", 1]], [[1, "b", 2], [2, "d", 2]]),
    "select * from totals": (
        [["ann", 2, 40], ["bob", 1, 20]],
        [["ann", 1, 10], ["bob", 1, 25], ["cyd", 1, 40]],
    ),
    "select customer, orders, amount from sums": (
        [["ann", 2, 40], ["bob", 1, 20]],
        [["ann", 1, 10], ["bob", 1, 25], ["cyd", 1, 40]],
    ),
    "select id, amount, is_current from periods": (
        [[1, 10, True], [2, 20, True], [3, 30, True]],
        [[1, 10, True], [2, 20, False], [2, 25, True], [3, 30, False], [4, 40, True]],
    ),
    "select * from named": (
        [["Ann O'Hara", 40], ["Bob", 20]],
        [["Ann O'Hara", 10], ["Bob", 25], [None, 40]],
    ),
    "select customer, amount, dbt_valid_to is null from kept": (
        [["ann", 40, True], ["bob", 20, True]],
        [
            ["ann", 10, True],
            ["ann", 40, False],
            ["bob", 20, False],
            ["bob", 25, True],
            ["cyd", 40, True],
        ],
    ),
}
# Builds, and then runs or builds again, in one process; prints each node's message and the rows of
# the tables.
BUILD = """
import json, sys
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession
import headwaters

print("of: " + headwaters.__file__)
for day, command in ((1, "build"), (2, sys.argv.pop(1))):
    result = dbtRunner().invoke(["--quiet", command, "--vars", json.dumps({"day": day})])
    if result.exception:
        raise SystemExit(f"{result.exception}")
    said = {done.node.name: [str(done.status), str(done.message)] for done in result.result.results}
    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    spark.sql("use shop")
    rows = {sql: [list(row) for row in spark.sql(sql).collect()] for sql in sys.argv[1:]}
    print("said: " + json.dumps({"said": said, "rows": rows}))
    formats = {}
    for table in spark.sql("show tables").collect():
        described = spark.sql(f"describe extended {table.tableName}").collect()
        formats[table.tableName] = [row[1] for row in described if row[0] == "Provider"]
    print("formats: " + json.dumps(formats))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with headwaters from its wheel, the rest from ours."""
    folder = tmp_path_factory.mktemp("environment")
    # setuptools takes an earlier build's files in build/ of a checkout for up to date
    clean = folder / "checkout"
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("macros", "models/ops", "scripts", "tests/generic"):
        shutil.copytree(ROOT / name, clean / name, symlinks=True, ignore=unwanted)
    shutil.copy(ROOT / "pyproject.toml", clean)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    wheel = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, *wheel, "-w", str(folder), str(clean)], check=True)
    venv.create(folder / "venv")
    [packages] = (folder / "venv" / "lib").glob("python3*/site-packages")
    # Python ignores .pth files below a path added here, so the editable install stays out
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    made = folder / "venv" / "bin" / "python"
    [built] = folder.glob("dbt_headwaters-*.whl")
    install = ["install", "--quiet", "--no-deps", "--no-index", str(built)]
    subprocess.run([*pip, "--python", str(made), *install], check=True)
    return made


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Return a project configured as the page describes, and with nothing else."""
    profile, settings, *_ = blocks("yaml")
    assert len([*profile.splitlines(), *settings.splitlines()]) <= 10
    folder = tmp_path / "a shop's project"
    files = {
        **FILES,
        "profiles.yml": profile,
        "dbt_project.yml": f"name: shop\nversion: 1.0.0\nprofile: shop\n{settings}",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def run(python: Path, shop: Path, *command: str) -> str:
    """Run a command in the stranger's project; return its output, and check it for errors."""
    conf = shop.parent / "conf"  # pip's pyspark has none: this one makes the test quicker
    conf.mkdir(exist_ok=True)
    defaults = "".join(f"{name} {value}\n" for name, value in INTERPRETED.items())
    (conf / "spark-defaults.conf").write_text(defaults)
    variables = {**environment(), "SPARK_CONF_DIR": str(conf)}
    variables["JAVA_TOOL_OPTIONS"] = QUICK_JAVA
    variables.pop("PYTHONPATH", None)
    ran = subprocess.run(
        [python, *command], cwd=shop, env=variables, capture_output=True, text=True, timeout=1200
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " WARN " not in ran.stdout + ran.stderr
    return ran.stdout


# Examples of a second strategy, and of a second kind of node.
MORE = ["copies", "kept", "last_pages", "periods", "sums", "visits"]


@pytest.mark.parametrize(
    ("left_out", "again"),
    [
        pytest.param(MORE, "run", id="some"),
        pytest.param([], "build", id="all", marks=pytest.mark.slow),
    ],
)
def test_a_stranger_builds_a_project_of_their_own(
    python: Path, shop: Path, left_out: list[str], again: str
) -> None:
    for path in [*shop.glob("models/*"), *shop.glob("snapshots/*")]:
        if path.stem in left_out:
            path.unlink()
    wanted = {sql: rows for sql, rows in ROWS.items() if table_of(sql) not in left_out}
    assert run(python, shop, "-m", "headwaters.cli", "jars").startswith("nothing to do")

    printed = run(python, shop, "-c", BUILD, again, *wanted)
    [of] = [line for line in printed.splitlines() if line.startswith("of: ")]
    assert str(python.parent.parent) in of, "the wheel's, not this checkout's"
    days = [json.loads(line[6:]) for line in printed.splitlines() if line.startswith("said: ")]
    assert len(days) == 2
    for day, told in enumerate(days):
        wrong = {name: said for name, said in told["said"].items() if said[0] not in FINE}
        assert wrong == {}
        for sql, expected in wanted.items():
            rows = sorted(told["rows"][sql], key=repr)
            assert rows == sorted(expected[day], key=repr), (sql, told["said"])
    first, second = (told["said"] for told in days)
    assert first["totals"][1].startswith("replace: 2 rows")
    for name in {"big_orders", "last_pages", "totals", "sums", "periods"}.difference(left_out):
        assert second[name][1].startswith("merge: "), second[name]
    assert not [name for name in first if name.startswith("dbt_headwaters")], "work of the adapter"
    assert not [name for name in first if "ops" in name], "tests of tables that are not there"

    [*_, last] = [line for line in printed.splitlines() if line.startswith("formats: ")]
    formats = json.loads(last.removeprefix("formats: "))
    models = {Path(name).stem for name in FILES if name.endswith(".sql") and "models/" in name}
    assert formats.keys() == (models | {"names", "kept"}).difference(left_out)
    assert {name for name, found in formats.items() if found != ["delta"]} == {"named"}

    lake = shop / "lake"
    assert (lake / "metastore.lock").exists() and (lake / "metastore").is_dir()
    assert (lake / "logs" / "spark.log").exists() and (lake / "logs" / "derby.log").exists()
    assert not (shop / "metastore_db").exists() and not (shop / "derby.log").exists()


def table_of(sql: str) -> str:
    """Return the table that one of ROWS reads."""
    return sql.split(" from ")[1].split()[0]


FINE = ("success", "pass", "no-op")


DAY = "vars: {day: 1}\n"
STREAM = {
    "models/raw.yml": blocks("yaml")[2],
    "models/pages.sql": model(
        "change_feed", "id", "select id, page from {{ changes(source('raw', 'clicks')) }}"
    ),
}
RUN = """
import json, sys
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

result = dbtRunner().invoke(["--quiet", "build", "--select", "pages"])
if not result.success:
    raise SystemExit(f"{result.exception or [done.message for done in result.result.results]}")
spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
print([str(done.message) for done in result.result.results if done.node.name == "pages"][0])
print(sorted([list(row) for row in spark.sql("select * from shop.pages").collect()]))
print(spark.sql("select count(*) from shop_raw.clicks_quarantine").collect()[0][0])
"""


@pytest.mark.slow
def test_streams_are_ingested_into_the_schema_of_their_source(python: Path, shop: Path) -> None:
    project = "dbt_project.yml"
    for name, text in {**STREAM, project: (shop / project).read_text() + DAY}.items():
        (shop / name).write_text(text)
    landing = shop / "lake" / "landing" / "clicks"
    landing.mkdir(parents=True)
    ingest = ("-m", "headwaters.cli", "ingest", "--once")
    (landing / "1.json").write_text('{"id": 1, "page": "a"}\n{"page": "none"}\n')
    assert "clicks" in run(python, shop, *ingest)
    said, rows, refused = run(python, shop, "-c", RUN).splitlines()
    assert said.startswith("replace: 1 rows") and (rows, refused) == ("[[1, 'a']]", "1")
    (landing / "2.json").write_text('{"id": 2, "page": "b"}\n')
    run(python, shop, *ingest)
    said, rows, refused = run(python, shop, "-c", RUN).splitlines()
    assert said.startswith("append: 1 inserted") and (rows, refused) == (
        "[[1, 'a'], [2, 'b']]",
        "1",
    )
    shown = run(python, shop, "-m", "headwaters.cli", "audit")
    assert shown == "clicks: 3 read = 2 bronze + 1 quarantined: right\n"
    assert (shop / "lake" / "warehouse" / "shop_raw.db" / "clicks" / "_delta_log").is_dir()
    assert not (shop / "lake" / "warehouse" / "bronze.db").exists()


@pytest.mark.slow
def test_hooks_can_be_switched_off_and_operations_are_checked(python: Path, shop: Path) -> None:
    dbt = ["-m", "dbt.cli.main", "--no-use-colors"]
    off = "{day: 1, headwaters_hooks: false}"
    said = run(python, shop, *dbt, "run", "--select", "orders", "--vars", off)
    assert "PASS=1 " in said
    refused = subprocess.run(
        [python, *dbt, "run-operation", "maintain", "--args", "{dryrun: true}", "--vars", "day: 1"],
        cwd=shop,
        env={k: v for k, v in environment().items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 1
    assert "maintain: there is no argument 'dryrun', did you mean 'dry_run'?" in refused.stdout
