"""Test that keys of every type and value are found again by bounds, literals and messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.headwaters.impl import HeadwatersAdapter

from headwaters.runs import bounds
from incremental.test_bad_input import RESERVED

pytestmark = pytest.mark.slow

Dbt = Callable[..., Any]
NewProject = Callable[[dict[str, str]], Path]

ROOT = Path(__file__).resolve().parents[3]
FEED_ON = "tblproperties ('delta.enableChangeDataFeed' = 'true')"


def text(value: bytes | str) -> str:
    """Return a string of any bytes, as SQL."""
    encoded = value if isinstance(value, bytes) else value.encode()
    return f"cast(x'{encoded.hex()}' as string)"


TEXTS: list[bytes | str] = [
    *("", "a", "a~", "~", "$", "US$ 5", "${x}", "a${x}b", "${", "it's", "a\\b", "\\", "\\u0041"),
    *('"', "`", "null", "None", "a\nb", "a\x00b", "\x7f", "a\u2028b", " a ", "a  ", "10", "9"),
    *("\u00e9", "e\u0301", "Z\u00fcrich", "\U0001f600", "\ufffdA", "\ufffd", "\U0010ffff"),
    *("x" * 5000, "x" * 4999 + "y", "x" * 100, "\u00e4" * 60),
    *(b"\xffA", b"\x80", b"a\xff", b"\xed\xa0\x80", b"\xe2\x82"),
]

KEYS = {
    "string": [text(value) for value in TEXTS],
    "binary": ["x'ff41'", "x''", "x'00'", "x'616263'", "unhex(sha2('a', 256))"],
    "timestamp": [
        f"timestamp_micros({micros})"
        for micros in (
            *(0, -1, 1793511000000000, 1793514600000000, 1793514600000001, 1772956800000000),
            *(-5364662399876544, -62135596800000000, -62135596800000001, -12219292800000000),
            *(253402300799999999, 253402300800000000, 9000000000000000000, -9000000000000000000),
        )
    ],
    "timestamp_ntz": [
        f"timestamp_ntz'{moment}'"
        for moment in (
            *("2026-11-01 01:30:00", "2026-03-08 02:30:00.000001", "1582-10-10 00:00:00"),
            *("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "+10000-01-01 00:00:00"),
        )
    ],
    "date": [
        f"date'{day}'"
        for day in (
            *("0001-01-01", "1582-10-04", "1582-10-10", "1582-10-15", "1582-12-31", "1970-01-01"),
            *("9999-12-31", "+10000-01-01", "-0044-03-15"),
        )
    ],
    "decimal(38, 18)": [
        f"cast('{number}' as decimal(38, 18))"
        for number in ("0", "1e-18", "-99999999999999999999.999999999999999999", "1.5")
    ],
    "double": ["double('NaN')", "double('-Infinity')", "0.1d", "-0.0d", "1e300d"],
    "float": ["float('NaN')", "float(0.1)"],
    "bigint": ["9223372036854775807L", "-9223372036854775808L", "9007199254740993L"],
    "int": ["2147483647", "-2147483648", "0"],
    "tinyint": ["127y", "-128y"],
    "boolean": ["true", "false"],
}

# Query the bounds of each row alone, and print the rows that they miss. Put each row in its own
# place.
BOUNDS = """
{% macro lost(schema, types) %}
    {%- set lost = [] -%}
    {%- for name, rows in types.items() -%}
        {%- set table = schema ~ '.' ~ name -%}
        {%- set asked = hw_bounds_expressions(['k'], true) -%}
        {%- set counts, replaced = [], [] -%}
        {%- for row in run_query('select n, ' ~ asked ~ ', ' ~ hw_values_as_json('k')
            ~ ' as some from ' ~ table ~ ' group by n').rows -%}
            {%- set n, bounds = row['n'], adapter.bounds_of(row, ['k'], true) -%}
            {%- set listed = [adapter.with_values(bounds[0], row['some'])] -%}
            {%- set within = adapter.within_bounds(listed) -%}
            {#- Delta leaves out files by the condition of a `where`, not by that of a count -#}
            {%- do counts.append('select ' ~ n ~ ' as n, (select count_if(n = ' ~ n ~ ') from '
                ~ table ~ ' where ' ~ within ~ ') as found, (select count_if(n = ' ~ n ~ ' and '
                ~ within ~ ') from ' ~ table ~ ') as within') -%}
            {%- set same = '_target.k ' ~ ('<=>' if bounds[0].nulls else '=') ~ ' _staged.k' -%}
            {%- set within = adapter.within_bounds(listed, '_target') -%}
            {%- do replaced.append([n, same ~ ' and ' ~ within]) -%}
        {%- endfor -%}
        {%- for row in run_query(counts | join(' union all ')).rows -%}
            {%- if row.values()[1:] | map('int') | list != [1, 1] -%}
                {%- do lost.append([name] + row.values() | map('int') | list) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- do run_query('create table ' ~ table ~ '_staged using delta as '
            ~ "select *, 'update' as _operation from " ~ table) -%}
        {%- for n, is_replaced in replaced -%}
            {%- set staged = '(select * from ' ~ table ~ '_staged where n = ' ~ n ~ ')' -%}
            {%- set beside = ['_operation'] -%}
            {%- do run_query(hw_replace_keys_sql(table, staged, is_replaced, beside, 'x')) -%}
        {%- endfor -%}
        {%- set left = run_query('select count(*), count(distinct n) from ' ~ table).rows[0] -%}
        {%- if left.values() | map('int') | list != [rows, rows] -%}
            {%- do lost.append([name, left.values() | map('int') | list]) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ print('lost: ' ~ tojson(lost)) }}
{% endmacro %}
"""


@pytest.fixture
def bounds_in_macros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the macros of a test the rules of bounds in `adapter`."""
    names = ("bounds_of", "with_values", "within_bounds")
    for name in names:
        function = staticmethod(getattr(bounds, name))
        monkeypatch.setattr(HeadwatersAdapter, name, function, raising=False)
    available = HeadwatersAdapter._available_ | frozenset(names)
    monkeypatch.setattr(HeadwatersAdapter, "_available_", available)


@pytest.fixture
def new_york(set_spark: Callable[[str, str], None]) -> None:
    """Set the time zone of New York, which repeats 01:30 at 05:30 and 06:30 UTC on 2026-11-01."""
    set_spark("spark.sql.session.timeZone", "America/New_York")


@pytest.mark.usefixtures("bounds_in_macros")
def test_the_bounds_of_every_value_find_it(
    dbt: Dbt, new_project: NewProject, spark: Any, schema: str, new_york: None, capsys: Any
) -> None:
    """Look up each value alone, in a table of one file whose statistics cover all of them."""
    spark.sql(f"create schema {schema}")
    tables = {}
    for type_, values in KEYS.items():
        name = type_.split("(")[0]
        rows = [*values, "null"]
        tables[name] = len(rows)
        spark.sql(
            f"create table {schema}.{name} (k {type_}, n int) using delta"
            " tblproperties ('delta.enableDeletionVectors' = 'true')"
        )
        spark.sql(
            f"insert into {schema}.{name} select /*+ coalesce(1) */ * from values"
            + ", ".join(f"(cast({value} as {type_}), {n})" for n, value in enumerate(rows))
        )
    folder = new_project({"dbt_project.yml": PROJECT, "tests_macros/lost.sql": BOUNDS})
    capsys.readouterr()
    arguments = json.dumps({"schema": schema, "types": tables})
    dbt("run-operation", "lost", "--args", arguments, project_dir=folder, schema=schema)
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line.startswith("lost: ")] == ["lost: []"]


PROJECT = """
name: keys
version: 0.1.0
profile: headwaters
macro-paths: [tests_macros]
models:
  keys:
    +materialized: incremental
    +file_format: delta
    +tblproperties:
      delta.enableDeletionVectors: "true"
"""
SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: texts}, {name: hashes}, {name: moments}, {name: parts}, {name: batches}]
"""
TYPES = {"texts": "string", "hashes": "binary", "moments": "timestamp"}
COPY = "select k, n, val from {{ changes(source('inputs', '%s')) }}"
TOTALS = "select k, count(*) as rows, sum(val) as total from {{ %s }} group by k"


def models(source: str, **settings: Any) -> dict[str, str]:
    """Return the plain SQL of `k` in every strategy, over one input."""
    given = "".join(f", {name}={value!r}" for name, value in settings.items())
    config = "{{ config(incremental_strategy='%s', unique_key='k'%s" + given + ") }}\n"
    copy = COPY % source
    signed = TOTALS % f"signed(source('inputs', '{source}'))"
    return {
        f"{source}_copy": config % ("change_feed", "") + copy,
        f"{source}_newest": config % ("change_feed", ", latest_by='n'") + copy,
        f"{source}_totals": config % ("affected_keys", "")
        + TOTALS % f"affected(source('inputs', '{source}'), key='k')",
        f"{source}_sums": config % ("signed_sum", "")
        + signed.replace("count(*)", "sum(_weight)").replace(
            "sum(val)", "sum(cast(val as bigint) * _weight)"
        ),
    }


class Keys:
    """Inputs of keys, models over them, and plain SQL to compare with."""

    def __init__(self, dbt: Dbt, folder: Path, spark: Any, schema: str) -> None:
        self.dbt, self.folder, self.spark, self.schema = dbt, folder, spark, schema
        self.inputs = f"{schema}_inputs"
        spark.sql(f"create schema if not exists {self.inputs}")

    def make(self, name: str, type_: str, values: list[str]) -> None:
        """Create an input that has every value once, in one file."""
        self.spark.sql(
            f"create table {self.inputs}.{name} (k {type_}, n int, val int) using delta {FEED_ON}"
        )
        rows = ", ".join(f"({value}, 0, {n})" for n, value in enumerate(values))
        self.spark.sql(
            f"insert into {self.inputs}.{name} select /*+ coalesce(1) */ * from values {rows}"
        )

    def sql(self, statement: str) -> None:
        """Run a statement; {inputs} is the inputs' schema."""
        self.spark.sql(statement.replace("{inputs}", self.inputs))

    def run(self, *arguments: str, expect: bool | None = True) -> dict[str, str]:
        """Run dbt and return each model's message."""
        ran = self.dbt(
            "run", *arguments, project_dir=self.folder, schema=self.schema, expect=expect
        )
        return {
            answer.node.name: str(answer.message)
            for answer in ran.result.results
            if answer.node.resource_type != "operation"
        }

    def differences(self, model: str, plain: str, shown: str = "select * from {}") -> int:
        """Count the rows that only a model's table or only its plain SQL has."""
        plain = plain.replace("{inputs}", self.inputs)
        table = shown.format(f"{self.schema}.{model}")
        both = f"({table} except all ({plain})) union all (({plain}) except all {table})"
        return int(self.spark.sql(f"select count(*) from ({both})").collect()[0][0])

    def check(self, source: str, key: str = "k") -> None:
        """Compare every model of `models(source)`; `key` is the stored key."""
        rows = f"(select {key} as k, n, val from {{inputs}}.{source})"
        totals = f"select k, count(*), sum(val) from {rows} group by k"
        newest = f"select max_by(struct(*), n) as r from {rows} group by k"
        plain = {"copy": f"select * from {rows}", "newest": f"select r.* from ({newest})"}
        plain["totals"] = totals
        plain["sums"] = totals
        wrong = {
            model: self.differences(f"{source}_{model}", sql)
            for model, sql in plain.items()
            if (self.folder / "models" / f"{source}_{model}.sql").exists()
        }
        assert wrong == dict.fromkeys(wrong, 0), source


@pytest.fixture
def keys(dbt: Dbt, new_project: NewProject, spark: Any, schema: str) -> Callable[..., Keys]:
    def make(files: dict[str, str]) -> Keys:
        named = {f"models/{name}.sql": sql for name, sql in files.items()}
        folder = new_project({"dbt_project.yml": PROJECT, "models/inputs.yml": SOURCES, **named})
        return Keys(dbt, folder, spark, schema)

    return make


def test_keys_of_any_bytes_and_moment_follow_their_inputs(
    keys: Callable[..., Keys], new_york: None
) -> None:
    chosen = ["texts_sums", "texts_newest", "moments_copy", "moments_totals"]
    chosen += ["texts_copy", "texts_totals", "hashes_copy", "hashes_totals"]
    every = models("texts") | models("hashes") | models("moments")
    world = keys(
        {name: every[name] for name in chosen}
        | {
            "texts_by_day": "{{ config(incremental_strategy='change_feed', unique_key='n',"
            " cluster_by='k') }}" + COPY % "moments"
        }
    )
    for source, type_ in TYPES.items():
        world.make(source, type_, ["null", *KEYS[type_]])
    world.sql("update {inputs}.moments set n = val")
    world.run()

    # one key alone each time: its bounds are all that a run knows
    for changed in (
        {
            "texts": text(b"\xffA"),
            "hashes": "x'ff41'",
            "moments": "timestamp_micros(1793514600000000)",
        },
        {"texts": text("${x}"), "hashes": "x''", "moments": "timestamp_micros(1793511000000000)"},
        {"texts": text("\U0001f600"), "hashes": "null", "moments": "timestamp_micros(-1)"},
        {"texts": text("\ufffdA"), "hashes": "x'00'", "moments": "timestamp_micros(0)"},
    ):
        for source, key in changed.items():
            # Delta would not find all of them by their values
            place = ["null", *KEYS[TYPES[source]]].index(key)
            world.sql(
                f"update {{inputs}}.{source} set val = val + 100, n = n + 100"
                f" where val % 100 = {place}"
            )
        said = world.run()
        wrong = {name: m for name, m in said.items() if not m.startswith("merge")}
        if changed["texts"] in (text(b"\xffA"), text("\ufffdA")):
            # Delta's feed replaces such bytes with U+FFFD, which makes the two keys equal
            lost = {name for name, m in wrong.items() if "in place of bytes" in m}
            assert lost == {"texts_copy", "texts_newest", "texts_sums", "texts_totals"}
            wrong = {name: m for name, m in wrong.items() if name not in lost}
        assert wrong == {}, changed
        for source in changed:
            world.check(source)
        assert world.differences("texts_by_day", "select * from {inputs}.moments") == 0

    # repeated keys are refused with a message
    for source, key in {"texts": text(b"\xffA"), "hashes": "x'ff41'"}.items():
        world.sql(f"insert into {{inputs}}.{source} values ({key}, 1, 1)")
    said = world.run("--select", "texts_copy", "hashes_copy", expect=False)
    assert "more than one row for \ufffdA." in said["texts_copy"]
    assert "more than one row for 0xFF41." in said["hashes_copy"]


def test_an_empty_text_in_a_partition_column_is_the_null_that_delta_keeps(
    keys: Callable[..., Keys],
) -> None:
    world = keys(
        models("parts", partition_by="k")
        | {
            "tracked": "{{ config(incremental_strategy='history', unique_key='k',"
            " partition_by='k') }}\n"
            "select k, val, _image from {{ images(source('inputs', 'parts')) }}"
        }
    )
    partitioned = ["''", "'b'", text("${x}"), "'it\\'s'", "'a/b%20 c'", "'a\\nb'", "'\u00e9'"]
    # an ordinary text if all bytes of the input are UTF-8
    partitioned.append("'\ufffd'")
    world.make("parts", "string", partitioned)
    world.run()
    for change in (
        "update {inputs}.parts set val = val + 10, n = n + 1 where k = ''",
        "update {inputs}.parts set val = val + 10, n = n + 1",
        "delete from {inputs}.parts where k = ''",
        "insert into {inputs}.parts values ('', 5, 5)",
        "update {inputs}.parts set k = null where k = ''",
    ):
        world.sql(change)
        said = world.run()
        assert {name: m for name, m in said.items() if m.startswith("replace")} == {}, change
        world.check("parts", "nullif(k, '')")
        found = world.spark.table(f"{world.schema}.tracked").where("is_current and k is null")
        assert found.count() == (0 if change.startswith("delete") else 1), change

    # stored, '' and NULL are one key: never two rows, and no row of one for the other
    world.sql("insert into {inputs}.parts values ('', 6, 6)")
    chosen = ["parts_copy", "parts_totals", "parts_sums"]
    for arguments in ((), ("--full-refresh",)):
        said = world.run("--select", *chosen, *arguments, expect=False)
        wrong = {name: m for name, m in said.items() if "more than one row for None" not in m}
        assert wrong == {}, arguments
        assert world.spark.table(f"{world.schema}.parts_totals").where("k is null").count() == 1
    world.run("--select", "parts_newest")
    world.sql("delete from {inputs}.parts where k is null")
    world.run()
    world.check("parts", "nullif(k, '')")

    world.sql(f"insert into {{inputs}}.parts values ({text(bytes([255]))}, 1, 1)")
    said = world.run("--select", "parts_totals", expect=False)
    refused = "[USER_RAISED_EXCEPTION] k has a value that Delta cannot keep in a partition column"
    assert f"[HW_PARTITION_VALUE] {refused}" in said["parts_totals"]


def test_a_batch_that_is_taken_back_costs_no_rebuild(keys: Callable[..., Keys]) -> None:
    """Delete all rows of a file: Delta then omits the number of deleted rows from its commit."""
    world = keys({"batches_copy": models("batches")["batches_copy"]})
    world.make("batches", "int", ["1", "2", "3"])
    world.run()
    for first in (10, 20):
        world.sql(f"insert into {{inputs}}.batches select id + {first}, 0, 0 from range(5)")
        world.run()
    answers = []
    for gone in ("k >= 20", "k = 1 or k between 10 and 14", "k > 0"):
        world.sql(f"delete from {{inputs}}.batches where {gone}")
        answers.append(", ".join(world.run()["batches_copy"].split(", ")[:3]))
        assert world.differences("batches_copy", "select * from {inputs}.batches") == 0
    assert answers == [f"merge: 0 inserted, 0 updated, {rows} deleted" for rows in (5, 6, 2)]


# Columns whose names have to be quoted.
NAMED = (
    "{{ config(incremental_strategy='%s', unique_key='the`key', partition_by='the.part') }}\n"
    "select * from (select %s from {{ %s }}%s) as t (`the``key`, `the.part`, n)"
)


def test_settings_name_columns_in_any_case_and_of_any_name(keys: Callable[..., Keys]) -> None:
    config = "{{ config(incremental_strategy='%s', unique_key='K'%s) }}\n"
    world = keys(
        {
            "batches_copy": config % ("change_feed", ", cluster_by=['k'], prune_by='VAL'")
            + COPY % "batches",
            "batches_newest": config % ("change_feed", ", latest_by='N', partition_by=['VAL']")
            + COPY % "batches",
            "batches_totals": config % ("affected_keys", ", partition_by='k'")
            + TOTALS % "affected(source('inputs', 'batches'), key='K')",
            "batches_sums": config
            % ("signed_sum", ", cluster_by=['k'], derived={'AVERAGE': 'TOTAL / rows'}")
            + models("batches")["batches_sums"].split("\n")[1],
            "batches_other": config % ("signed_sum", ", partition_by='k'")
            + models("batches")["batches_sums"].split("\n")[1],
            "named_copy": NAMED
            % ("change_feed", "k, val, n", "changes(source('inputs', 'batches'))", ""),
            "named_totals": NAMED
            % (
                "affected_keys",
                "k, sum(val), max(n)",
                "affected(source('inputs', 'batches'), key={'the`key': 'k'})",
                " group by k",
            ),
            "named_sums": "{{ config(incremental_strategy='signed_sum', unique_key='the`key') }}\n"
            "select k as `the``key`, sum(_weight) as `all``rows`,"
            " sum(cast(val as bigint) * _weight) as `the.total`"
            " from {{ signed(source('inputs', 'batches')) }} group by k",
            "batches_history": config % ("history", ", partition_by=['VAL'], cluster_by=none")
            + "select k, val, _image from {{ images(source('inputs', 'batches')) }}",
        }
    )
    world.make("batches", "int", ["1", "2", "3"])
    world.run()
    for change in (
        "update {inputs}.batches set val = val + 10, n = 1 where k < 3",
        "insert into {inputs}.batches values (4, 0, 4)",
        "delete from {inputs}.batches where k = 1",
    ):
        world.sql(change)
        said = world.run()
        assert {name: m for name, m in said.items() if m.startswith("replace")} == {}, change
        rows = "(select k, n, val from {inputs}.batches)"
        totals = f"select k, count(*), sum(val) from {rows} group by k"
        for name, plain in {
            "copy": f"select * from {rows}",
            "newest": f"select * from {rows}",
            "totals": totals,
            "sums": f"select *, total / rows from ({totals}) as t (k, rows, total)",
            "other": totals,
        }.items():
            assert world.differences(f"batches_{name}", plain) == 0, name
        assert world.differences("named_sums", totals) == 0
        for name in ("named_copy", "named_totals"):
            assert world.differences(name, "select k, val, n from {inputs}.batches") == 0, name


FIRST, AGAIN = "timestamp_micros(1793511000000000)", "timestamp_micros(1793514600000000)"


def test_partitions_by_a_moment_of_the_repeated_hour_are_followed_or_refused(
    keys: Callable[..., Keys], new_york: None
) -> None:
    """Partition by a moment: Delta writes it in the session's zone, which may repeat an hour."""
    every = models("moments", partition_by="k")
    by_number = "{{ config(incremental_strategy='change_feed', unique_key='n', partition_by='k') }}"
    world = keys(
        {name: every[name] for name in ("moments_copy", "moments_totals")}
        | {"moments_by_number": f"{by_number}\n{COPY % 'moments'}"}
    )
    world.make("moments", "timestamp", [FIRST, "timestamp_micros(0)", "null"])
    world.sql("update {inputs}.moments set n = val")
    world.run()

    def check() -> None:
        world.check("moments")
        assert world.differences("moments_by_number", "select * from {inputs}.moments") == 0

    check()
    for change in (
        f"update {{inputs}}.moments set val = val + 10 where k = {FIRST}",
        f"update {{inputs}}.moments set k = timestamp_micros(1) where k = {FIRST}",
        f"update {{inputs}}.moments set k = {FIRST} where k = timestamp_micros(1)",
        f"delete from {{inputs}}.moments where k = {FIRST}",
        f"insert into {{inputs}}.moments values ({FIRST}, 7, 7)",
    ):
        world.sql(change)
        said = world.run()
        assert {name: m for name, m in said.items() if m.startswith("replace")} == {}, change
        check()

    # the same text again, an hour later: refused, and followed after its deletion
    world.sql(f"insert into {{inputs}}.moments values ({AGAIN}, 9, 9)")
    refused = "k has a value that Delta cannot keep in a partition column"
    assert [m for m in world.run(expect=False).values() if refused not in m] == []
    world.sql("delete from {inputs}.moments where n = 9")
    check()
    world.run()
    check()


# Delta refuses these names, and `_hw_` is reserved for the engine.
NOT_TRIED = re.compile(r"_change_type|_commit_version|_commit_timestamp|_hw_\w+")


def internal_names() -> list[str]:
    """Return the names in the engine's SQL that begin with an underscore and may be columns."""
    floors = [ROOT / "macros" / floor for floor in ("sql", "delta", "incremental")]
    texts = "\n".join(file.read_text() for floor in floors for file in floor.rglob("*.sql"))
    found = set(re.findall(r"(?<![\w-])_[a-z]\w*", texts))
    return sorted(name for name in found if not NOT_TRIED.fullmatch(name))


# The change of each table between two runs; the first run comes before.
STEPS = [
    ["insert into {t} select concat(k, 'c') as k, * except (k) from {t} where k = 'a'"],
    ["update {t} set _old = _old + 1", "delete from {t} where k = 'a'"],
    ["update {t} set _net = 5 where k = 'b'"],
    ["insert into {t} select concat(k, k) as k, * except (k) from {t}", "delete from {t}"],
]


def test_columns_may_have_the_names_that_the_engine_uses(keys: Callable[..., Keys]) -> None:
    """Use all of these names in inputs, and those that are not refused in models."""
    names = internal_names()
    assert {"_weight", "_is_touched", "_touched", "_new", "_net"} < set(names)
    # signed() and images() read `parts`, and add a column each
    columns = {"texts": names, "parts": [n for n in names if n not in ("_weight", "_image")]}

    def select(sql: str, table: str, *refused: str) -> str:
        free = [name for name in columns[table] if name not in (*RESERVED, *refused)]
        return ", ".join(f"{sql.format(name)} as {name}" for name in free)

    rows = "select k, " + select("{0}", "texts", "_image") + " from "
    totals = "select k, " + select("max({0})", "texts", "_image") + " from {} group by k"
    sums = select("sum(cast({0} as bigint)%s)", "parts", "_here", "_stays")
    periods = select("{0}", "parts", *("_superseded", "_cut", "_until", "_next"))
    changes = rows + "{{ changes(source('inputs', 'texts')) }}"
    plain = {
        **dict.fromkeys(("copy", "newest", "keyless", "automatic"), rows + "{inputs}.texts"),
        "totals": totals.format("{inputs}.texts"),
        "sums": f"select k, count(*), {sums.replace('%s', '')} from {{inputs}}.parts group by k",
        "periods": f"select k, {periods} from {{inputs}}.parts",
    }
    config = "{{ config(incremental_strategy='%s', unique_key='k') }}\n"
    world = keys(
        {
            "copy": (config % "change_feed").replace(") }}", ", cluster_by='_old') }}") + changes,
            "newest": (config % "change_feed").replace(") }}", ", latest_by='_new') }}") + changes,
            "keyless": "{{ config(incremental_strategy='change_feed') }}\n" + changes,
            "automatic": "{{ config(incremental_strategy='auto') }}\n"
            + rows
            + "{{ source('inputs', 'texts') }}",
            "totals": config % "affected_keys"
            + totals.format("{{ affected(source('inputs', 'texts'), key='k') }}"),
            "sums": config % "signed_sum"
            + f"select k, sum(_weight) as rows, {sums.replace('%s', ' * _weight')}"
            + " from {{ signed(source('inputs', 'parts')) }} group by k",
            "periods": config % "history"
            + f"select k, {periods}, _image from {{{{ images(source('inputs', 'parts')) }}}}",
        }
    )
    for table, given in columns.items():
        listed = ", ".join(f"{at} as {name}" for at, name in enumerate(given))
        world.sql(
            f"create table {{inputs}}.{table} using delta {FEED_ON}"
            f" as select k, {listed} from values ('a'), ('b') as v(k)"
        )
    for step, statements in enumerate([[], *STEPS]):
        for statement, table in product(statements, columns):
            world.sql(statement.replace("{t}", f"{{inputs}}.{table}"))
        said = world.run()
        assert not step or not [m for m in said.values() if m.startswith("replace")], said
        # the periods that have not ended, without the strategy's columns
        current = "select * except (valid_from, valid_to, is_current) from {} where is_current"
        shown = {"periods": current}
        wrong = {
            name: said[name]
            for name, sql in plain.items()
            if world.differences(name, sql, shown.get(name, "select * from {}"))
        }
        assert wrong == {}, statements
