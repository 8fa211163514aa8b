"""Test that erase forgets a person in every table and file, and leaves a proof."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from headwaters.tables.erasure import keyed_hash
from tables.conftest import PERSON, PERSONAL, Orders

ANN: dict[str, Any] = {"subject": {"customer": {"env": "SUBJECT"}}}


@pytest.fixture(autouse=True)
def subject(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return the person who asks to be forgotten."""
    monkeypatch.setenv("SUBJECT", "ann")


# A stock strategy ignores deletions; a source is partitioned by persons; one has an orphan.
MORE = {
    "models/gold/visitors.sql": """
{{ config(incremental_strategy='append') }} select customer from {{ ref('silver_orders') }}
""",
    "models/gold/visitors.yml": f"""
models: [{{name: visitors, columns: [{{name: customer, {PERSON}}}]}}]
""",
    "models/bronze/visits.yml": f"""
sources:
  - name: more
    schema: "{{{{ target.schema }}}}_bronze"
    tables:
      - {{name: kept, columns: [{{name: customer, {PERSON}}}]}}
      - {{name: visits, columns: [{{name: customer, {PERSON}}}]}}
""",
}
ORPHAN = "part-of-a-killed-write.parquet"


@pytest.mark.slow
def test_a_person_is_erased_from_rows_and_files(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, text in {**PERSONAL, **MORE}.items():
        if path != "models/gold/customer_totals.yml":
            orders.write(path, text)
    # the table has the column, even if its YAML leaves it out
    said = orders.operation("erase", expect=False, **ANN)
    assert "customer_totals.customer has the name of a column with personal data" in said
    orders.write(path := "models/gold/customer_totals.yml", PERSONAL[path])

    orders.sql(
        "create table {bronze}_quarantine using delta as select 'type' as reason,"
        """ cast(record as binary) as record from values ('{"customer": "ann", "id": "x"}'),"""
        """ ('{"customer": "anna"}') as records(record)"""
    )
    orders.sql(
        """create table {silver}_quarantine using delta as select '{"customer":"ann"}' as record"""
    )
    orders.sql(
        "create table {schema}_bronze.visits using delta partitioned by (customer, `at.day`) as"
        " select * from values (1, 'ann', 1), (2, 'bob', 2) as visits(id, customer, `at.day`)"
    )
    orders.sql("create table {schema}_bronze.kept using delta as select 'bob' as customer")
    shutil.copy(files(orders, orders.bronze)[0], folder(orders, "{schema}_bronze.kept") / ORPHAN)
    aside = "{schema}_gold.old__dropped_20260101000000"
    notes = {"of": f"{orders.schema}_gold.old", "version": 1, "expires": "2099", "reason": "x"}
    listed = ", ".join(f"'headwaters.backup.{name}' = '{value}'" for name, value in notes.items())
    orders.sql(
        f"create table {aside} using delta tblproperties ({listed}) as select 'ann' customer"
    )
    orders.sql("update {bronze} set amount = 11 where id = 1")
    orders.dbt("run")
    orders.operation("backup", table="silver_orders", reason="before", dry_run=False)
    copy = f"silver_orders_version_{orders.version(orders.silver)}"

    before = orders.versions()
    dry = orders.operation("erase", **ANN).splitlines()
    assert [line for line in dry[1:] if "searched: " not in line] == [
        "    bronze.kept: 0 rows",
        "  - bronze.orders: 2 rows",
        "  - bronze.orders_quarantine: 1 rows",
        "  - bronze.visits: 1 rows",
        "  - gold.customer_totals: 1 rows (follows its inputs: dbt run)",
        "  - gold.old__dropped_20260101000000: 1 rows",
        "  - gold.visitors: 2 rows",
        "  - silver.silver_orders: 2 rows (follows its inputs: dbt run)",
        "  - silver.silver_orders_quarantine: 1 rows",
        f"  - silver.{copy}: 2 rows",
        "erase: a dry run, nothing was changed; dry_run: false and a reason delete the rows of"
        " bronze.orders, bronze.orders_quarantine, bronze.visits, gold.old__dropped_20260101000000,"
        f" gold.visitors, silver.silver_orders_quarantine, silver.{copy}",
    ]
    assert "say why" in orders.operation("erase", expect=False, dry_run=False, **ANN)
    # a value that no table has is a typing error, and no reason to rewrite and vacuum
    monkeypatch.setenv("SUBJECT", "an")
    said = orders.operation("erase", expect=False, **ANN, reason="x", dry_run=False)
    monkeypatch.setenv("SUBJECT", "ann")
    assert "no table has this customer, in no row and in no file; nothing was changed" in said
    assert orders.versions() == before

    done = {**ANN, "reason": "asked on 2026-03-01", "dry_run": False}
    deleted = orders.operation("erase", **done)
    assert "Now `dbt run`, then run erase again" in deleted
    assert "`dbt run` propagates the deletion to gold.customer_totals, silver.silver_orders" in (
        orders.operation("erase", **done)
    )
    orders.dbt("run")
    assert orders.sql("select customer, orders, amount from {gold} order by customer") == [
        ("bob", 2, 70),
        ("cyd", 1, 40),
    ]

    # the ledger of an older release, whose hash was a plain one
    orders.sql(
        "create table {schema}_ops.erasures (at timestamp, subject string, sha256 string,"
        " files bigint, table_name string, version bigint, files_left bigint, gone_by timestamp,"
        " reason string, user string, invocation_id string) using delta"
    )
    # retention keeps the files of older versions, and the report has the end of that time
    kept = orders.operation("erase", **done)
    assert "that older versions need until " in kept
    assert "run erase again after the dates above" in kept
    with keeping_nothing(orders, f"{{schema}}_silver.{copy}", aside):
        proof = orders.operation("erase", **done).splitlines()
    logs = r"no row has the value; \d+ files of logs do, until retention removes them: see above"
    assert re.fullmatch(f"erase: {logs}", proof[-1])
    looked = [line for line in proof if "rows; " in line]
    assert len(looked) == 10
    assert all("files searched, the value is in none; " in line for line in looked)
    assert orders.sql(
        "select count(*), sum(files_left), count_if(files > 0) > 3 from {schema}_ops.erasures"
        " where invocation_id = (select max_by(invocation_id, at) from {schema}_ops.erasures)"
    ) == [(10, 0, True)]
    assert ORPHAN not in {file.name for file in files(orders, "{schema}_bronze.kept")}
    assert not (folder(orders, "{schema}_bronze.visits") / "customer=ann").exists()

    # no record and no commit's predicate has the value itself
    told = "select count(*) from {ops} where concat_ws(' ', arguments, undo, reason) like '%ann%'"
    assert orders.sql(told) == [(0,)]
    history = orders.spark.sql(f"describe history {orders.bronze}").collect()
    assert not any("'ann'" in str(commit["operationParameters"]) for commit in history)


REGULARS = """
{{ config(incremental_strategy='auto') }}
select n, count(*) as customers
from (select customer, count(*) as n from {{ ref('silver_orders') }} group by customer) as q
group by n
"""


@pytest.mark.slow
def test_hidden_tables_that_have_the_person_are_dropped(orders: Orders) -> None:
    for path, text in {**PERSONAL, "models/gold/regulars.sql": REGULARS}.items():
        orders.write(path, text)
    orders.dbt("run")
    orders.sql("update {bronze} set amount = 11 where id = 1")
    orders.dbt("run")
    hidden = "{schema}_gold.regulars__hw_stage_1"
    rows = f"select hw_1, hw_2 from {hidden} order by 1"
    assert orders.sql(rows) == [("ann", 2), ("bob", 2), ("cyd", 1)]
    place = folder(orders, hidden)

    def told(printed: str) -> list[str]:
        return [line for line in printed.splitlines() if "hidden table" in line]

    said = "gold.regulars__hw_stage_1: a hidden table,"
    said += " the value is in 1 of its files and 1 of its log;"
    assert told(orders.operation("erase", **ANN)) == [
        f"  ! {said} dry_run: false drops it, a `dbt run` builds it again"
    ]
    assert place.exists()
    done = {**ANN, "reason": "asked on 2026-03-01", "dry_run": False}
    assert told(orders.operation("erase", **done)) == [
        f"  - {said} dropped with its files, a `dbt run` builds it again"
    ]
    assert not place.exists()
    orders.dbt("run")
    assert orders.sql(rows) == [("bob", 2), ("cyd", 1)]
    regulars = orders.sql("select n, customers from {schema}_gold.regulars order by n")
    assert regulars == [(1, 1), (2, 1)]
    assert told(orders.operation("erase", **done)) == []


@contextmanager
def keeping_nothing(orders: Orders, *copies: str) -> Iterator[None]:
    """Expire the retained files of every table for a moment."""
    tables = [orders.bronze, f"{orders.bronze}_quarantine", orders.silver, orders.gold]
    tables += ["{silver}_quarantine", "{schema}_gold.visitors", "{schema}_bronze.visits"]
    tables += ["{schema}_bronze.kept", *copies]
    name = "'delta.deletedFileRetentionDuration'"
    for table in tables:
        orders.sql(f"alter table {table} set tblproperties ({name} = 'interval 0 hours')")
    try:
        yield
    finally:
        for table in tables:
            orders.sql(f"alter table {table} unset tblproperties ({name})")


def folder(orders: Orders, table: str) -> Path:
    """Return the folder of a table's files."""
    return Path(str(orders.sql(f"describe detail {table}")[0][4]).removeprefix("file:"))


def files(orders: Orders, table: str) -> list[Path]:
    """Return the data files in the folder."""
    return sorted(folder(orders, table).glob("*.parquet"))


@pytest.mark.slow
def test_a_copy_that_says_nothing_of_itself_stops_the_erasure(unbuilt: Orders) -> None:
    for path, text in PERSONAL.items():
        gold = path.startswith("models/gold")
        unbuilt.write(path, text.replace(f", {PERSON}", "") if gold else text)
    said = unbuilt.operation("erase", expect=False, **ANN)
    assert "customer_totals.customer has the name of a column with personal data" in said
    said = unbuilt.operation("erase", expect=False, subject={"shoe size": {"env": "SUBJECT"}})
    assert "is no kind of personal data and no column of one" in said
    assert "Columns declare theirs in meta.pii: customer." in said
    for path, text in PERSONAL.items():
        unbuilt.write(path, text)
    for given in (7, "ann", {"value": "ann"}, {"env": "SUBJECT", "file": "x"}):
        said = unbuilt.operation("erase", expect=False, subject={"customer": given})
        assert "the value of customer is not to be in the command" in said
        assert "{customer: {env: SUBJECT}}" in said
    said = unbuilt.operation("erase", expect=False, subject={"customer": {"env": "NOT_SET"}})
    assert "the environment variable NOT_SET must hold one value" in said
    said = unbuilt.operation("erase", expect=False, subject={"customer": {"file": "nowhere"}})
    assert "the file nowhere cannot be read" in said
    said = unbuilt.operation("erase", expect=False, **ANN, reason="ann asked", dry_run=False)
    assert "the reason names the person, and it is kept" in said


ZOE = "Zoë/17-9"
# A stream of files that dbt has not registered yet, and one with tables that dbt knows.
STREAMS = {
    "models/bronze/streams.yml": f"""
sources:
  - name: streams
    schema: "{{{{ target.schema }}}}_bronze"
    tables:
      - name: new_{{name}}
        config: {{meta: {{stream: {{from: files, path: landing/{{name}}, format: json}}}}}}
        columns: [{{name: id, data_type: int}}, {{name: customer, data_type: string, {PERSON}}}]
      - name: events
        config: {{meta: {{stream: {{from: kafka, topics: [events], format: json}}}}}}
        columns: [{{name: customer, data_type: string, {PERSON}}}]
      - name: weather
        config: {{meta: {{stream: {{from: kafka, topics: [weather], format: json}}}}}}
        columns: [{{name: station, data_type: string}}]
""",
}
RECORDS = [  # the person, as encoders write her
    ("plain", '{"customer": "Zoë/17-9"}'),
    ("python", r'{"customer": "Zo\u00eb/17-9"}'),
    ("php", r'{"customer": "Zo\u00EB\/17-9"}'),
    ("deep", r'{"who": [{"Zo\u00eb\u002f17-9": 1}]}'),
    ("within", r'{"payload": "{\"customer\": \"Zo\\u00eb\\/17-9\"}"}'),
    # others, and lines that no parser reads
    ("another", '{"customer": "Zoë/17-9-1"}'),
    ("mentions", '{"customer": "x", "text": "not Zoë/17-9"}'),
    ("broken", r'{"customer": "Zo\u00eb\/17-9"'),
    ("nobody", '{"customer": "x"'),
]


@pytest.mark.slow
def test_nobody_is_overlooked_where_a_stream_keeps_text(
    unbuilt: Orders, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = unbuilt
    monkeypatch.setenv("SUBJECT", ZOE)
    name = orders.schema
    for path, text in {**PERSONAL, **STREAMS}.items():
        orders.write(path, text.replace("{name}", name))
    values = ", ".join(f"('{kind}', r'{record}')" for kind, record in RECORDS)
    quarantine = "{schema}_bronze.events_quarantine"
    lineage = "cast(null as binary) as _key, 'x' as _source_file"
    orders.sql(
        f"create table {quarantine} using delta as"
        f" select reason, cast(record as binary) as record, {lineage} from values {values}"
        " as records(reason, record) union all select 'tombstone', null, cast(key as binary), 'x'"
        f" from values ('{ZOE}'), ('{ZOE}-1'), (r'{{\"customer\":\"Zo\\u00eb/17-9\"}}')"
        " as keys(key)"
    )
    events = "{schema}_bronze.events"
    orders.sql(
        f"create table {events} using delta as select * from values"
        f" ('a', '{{\"by\": \"{ZOE}\"}}', null), ('b', '{{\"by\": \"{ZOE}-1\"}}', null),"
        f" ('c', null, array(named_struct('key', 'who', 'value', cast('{ZOE}' as binary)))),"
        f" ('{ZOE}', null, null) as events(customer, _rescued, _headers)"
    )
    # the stream of files: dbt knows its name only
    warehouse = lake / "warehouse" / f"{name}_bronze.db" / f"new_{name}"
    by_path = f"delta.`{warehouse}`"
    orders.sql(f"create table {by_path} (id int, customer string, _source_file string) using delta")
    orders.sql(f"insert into {by_path} values (1, '{ZOE}', 'y'), (2, 'x', 'y')")
    landed = lake / "landing" / name
    landed.mkdir(parents=True)
    (landed / "a.jsonl").write_text('{"id": 1, "customer": "Zo\\u00eb\\/17-9"}\n{"id": 2}\n')
    (landed / "b.parquet").write_bytes(b"PAR1")
    orders.operation("delete_where", table="bronze.orders", predicate=f"customer <> '{ZOE}'"
                     " and id = 1", reason="x", dry_run=False)  # fmt: skip

    plan = orders.operation("erase", **ANN)
    broken = sha(dict(RECORDS)["broken"])
    counted = dict(re.findall(r"^  [- ] ([\w.]+): (\d+) rows", plan, re.MULTILINE))
    assert counted == {
        "bronze.orders": "0",
        "bronze.events": "3",
        "bronze.events_quarantine": "7",
        f"bronze.new_{name}": "1",
    }
    question = "  ? bronze.events_quarantine: a record mentions the value and cannot be parsed: "
    asked = f"sha2(cast(`record` as binary), 256) = '{broken}'"
    assert question + asked in plan and plan.count("cannot be parsed: ") == 1
    assert f"  ! landing/{name}/a.jsonl: 1 records" in plan
    assert "  ! ops.operations: 1 operations name it" in plan
    assert f"1 .parquet files in landing/{name}" in plan
    assert "the Kafka topic events; the stream weather, which declares no customer" in plan

    done = {**ANN, "reason": "request 115", "dry_run": False}
    orders.operation("erase", **done)
    left = "select reason from {q} order by 1".replace("{q}", quarantine)
    assert orders.sql(left) == [
        ("another",), ("broken",), ("mentions",), ("nobody",), ("tombstone",)
    ]  # fmt: skip
    assert orders.sql(f"select customer from {events}") == [("b",)]
    assert orders.sql(f"select id from {by_path}") == [(2,)]
    # a person cleans the ledger, dbt's log and the landed file, and looks at the record
    (landed / "a.jsonl").unlink()
    (orders.folder / "logs" / "dbt.log").write_text("")
    told = "where operation = 'delete_where'"
    ids = orders.sql(f"select distinct operation_id from {{ops}} {told}")
    orders.sql(f"delete from {{ops}} {told}")
    assert len(ids) == 1
    kept = orders.operation("erase", **done)
    assert "1 records may: nobody can parse them" in kept
    kept = orders.operation("erase", **done, keep=[broken[:12]])
    assert "may: nobody" not in kept and "places beside" not in kept
    assert "files of logs do, until retention removes them" in kept

    # erase wrote the value into no commit, and the ledger has a keyed hash
    for table in (events, quarantine):
        for commit in orders.spark.sql(
            f"describe history {table.replace('{schema}', name)}"
        ).collect():
            assert commit["version"] == 0 or ZOE not in str(commit)
    rows = orders.sql("select * from {ops}") + orders.sql("select * from {schema}_ops.erasures")
    assert ZOE not in str(rows) and hashlib.sha256(ZOE.encode()).hexdigest() not in str(rows)
    key = lake / "erasure.key"
    assert key.stat().st_mode & 0o777 == 0o600
    digest = keyed_hash(bytes.fromhex(key.read_text().strip()), "customer", ZOE)
    assert orders.sql("select distinct keyed_hash from {schema}_ops.erasures") == [(digest,)]
    # nor into an artifact or a log of dbt
    for file in [*(orders.folder / "target").rglob("*"), *(orders.folder / "logs").rglob("*")]:
        if file.is_file():
            assert ZOE.encode() not in file.read_bytes(), file

    # a replay that would restore the person stops the erasure
    checkpoint = lake / "checkpoints" / "events"
    checkpoint.mkdir(parents=True)
    (checkpoint / "replay.json").write_text("{}")
    said = orders.operation("erase", expect=False, **ANN)
    assert "a replay of events was interrupted" in said
    (checkpoint / "replay.json").unlink()
    (checkpoint / "offsets").mkdir()
    (checkpoint / "offsets" / "0").write_text("v1")
    said = orders.operation("erase", expect=False, **ANN)
    assert "a batch of events was interrupted" in said
    shutil.rmtree(checkpoint)


def sha(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


# Readers of a lookup whose changes they ignore; one row has lost its row of the lookup.
NAMED = """
{{ config(incremental_strategy='change_feed', unique_key='id', on_lookup_change='ignore') }}
select o.id, o.customer, n.name from {{ changes(ref('silver_orders')) }} as o
left join {{ lookup(source('bronze', 'names')) }} as n on o.customer = n.customer
"""


@pytest.mark.slow
def test_a_model_that_ignores_its_lookup_follows_the_erasure(orders: Orders) -> None:
    for path, text in PERSONAL.items():
        orders.write(path, text)
    bronze = PERSONAL["models/bronze/orders.yml"]
    columns = bronze[bronze.index("columns:") :].strip()
    orders.write("models/bronze/orders.yml", f"{bronze}      - {{name: names, {columns}}}\n")
    orders.write("models/gold/named.sql", NAMED)
    orders.write("models/gold/named.yml", f"models: [{{name: named, {columns}}}]\n")
    orders.sql(
        "create table {schema}_bronze.names using delta as"
        " select * from values ('ann', 'Ann'), ('bob', 'Bob') as names (customer, name)"
    )
    orders.dbt("run")
    named = "select id, customer, name from {schema}_gold.named order by id"
    kept = [(2, "bob", "Bob"), (4, "cyd", None), (5, "bob", "Bob")]
    assert orders.sql(named) == sorted([*kept, (1, "ann", "Ann"), (3, "ann", "Ann")])
    # her row of the lookup is deleted first, then one of the input
    orders.sql("delete from {schema}_bronze.names where customer = 'ann'")
    orders.dbt("run")
    orders.sql("delete from {bronze} where id = 1")
    done = {**ANN, "reason": "asked on 2026-03-01", "dry_run": False}
    assert "gold.named: 2 rows (follows its inputs: dbt run)" in orders.operation("erase", **done)
    orders.dbt("run")
    assert orders.sql(named) == kept
    proof = orders.operation("erase", **done)
    assert "erase: no row has the value; " in proof


@pytest.mark.slow
def test_the_log_has_the_person_until_the_day_that_erase_names(unbuilt: Orders) -> None:
    orders = unbuilt
    for path, text in PERSONAL.items():
        orders.write(path, text)
    orders.sql(
        "alter table {bronze} set tblproperties ('delta.checkpointInterval' = '2',"
        " 'delta.deletedFileRetentionDuration' = 'interval 0 hours')"
    )
    orders.sql("update {bronze} set amount = 11 where id = 1")  # with its checkpoint
    done = {**ANN, "reason": "asked on 2026-03-01", "dry_run": False}
    assert "erase: deleted from bronze.orders" in orders.operation("erase", **done)
    said = orders.operation("erase", **done)
    log = folder(orders, orders.bronze) / "_delta_log"
    written = [file for file in log.iterdir() if file.name[0] not in "._"]
    holding = {file for file in written if has_ann(file)}
    assert {file.suffix for file in holding} == {".json", ".crc", ".parquet"}
    newest = max(file.stat().st_mtime_ns // 1_000_000 for file in holding)
    day = datetime.fromtimestamp(0, UTC) + timedelta(days=30, milliseconds=newest)
    assert (
        f"; {len(written)} files of its log searched, the value is in {len(holding)}, which Delta"
        f" removes with the first checkpoint after {day:%Y-%m-%d %H:%M} UTC"
        " (delta.logRetentionDuration)\n"
    ) in said
    gone_by = orders.sql("select log_files_left, log_gone_by from {schema}_ops.erasures")
    assert gone_by == [(len(holding), day.replace(tzinfo=None))]

    # that day: Delta counts whole days
    for file in log.rglob("*"):
        past = file.stat().st_mtime - timedelta(days=31).total_seconds()
        os.utime(file, (past, past))
    for _ in range(2):
        orders.sql("update {bronze} set amount = amount + 1")
    assert not any(file.exists() for file in holding)
    proof = orders.operation("erase", **done)
    assert proof.endswith("erase: proven: no row, no file and no log of a table has the value")


def has_ann(file: Path) -> bool:
    """Return whether a file of a log has the person among statistics or in a condition."""
    is_parquet = file.suffix == ".parquet"
    text = str(parquet.read_table(file).to_pylist()) if is_parquet else file.read_text()
    return re.search(r"\bann\b", text) is not None


@pytest.mark.slow
def test_logs_and_artifacts_are_searched_wherever_they_are(
    unbuilt: Orders, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = unbuilt
    for path, text in PERSONAL.items():
        orders.write(path, text)
    monkeypatch.setenv("SUBJECT", "Ann Smith")
    orders.sql("update {bronze} set customer = 'Ann Smith' where customer = 'ann'")
    places = [lake / "logs", tmp_path / "artifacts", tmp_path / "own"]
    options = orders.options()
    at = options.index("--target-path")
    monkeypatch.setattr(orders, "options", lambda: options[:at])
    monkeypatch.setenv("DBT_TARGET_PATH", str(places[1]))
    monkeypatch.setenv("DBT_LOG_PATH", str(places[2]))
    for place in places:
        (place / "deep").mkdir(parents=True, exist_ok=True)
        (place / "deep" / "of_a_person.txt").write_text("seen: Ann Smith.\n")
    said = orders.operation("erase", **ANN)
    (lake / "logs" / "deep" / "of_a_person.txt").unlink()
    shown = ["logs", *map(str, places[1:])]
    assert [line for line in said.splitlines() if "mentions it" in line] == [
        f"  ! {place}/deep/of_a_person.txt: mentions it" for place in shown
    ]
