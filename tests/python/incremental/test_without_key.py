"""Test tables without a key: equal rows are counted, and changed rows are traced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROJECT = """
name: without
version: 0.1.0
profile: headwaters
models:
  without:
    +materialized: incremental
    +file_format: delta
"""
SOURCE = (
    "sources: [{name: inputs, schema: '{{ target.schema }}_inputs', tables: [{name: rows},"
    " {name: tags}]}]"
)
ROWS, TAGS = "{{ source('inputs', 'rows') }}", "{{ source('inputs', 'tags') }}"
LATEST_TAG = f"(select max(t.tag) from {TAGS} as t where t.tag = r.grp) as tag"
# Their SQL over the sources; models in `named` mark their inputs.
MODELS = {
    "linear": f"select grp, val from {ROWS} where val <> 3",
    "stored": f"select grp, val, year(at) as y from {ROWS}",
    "ranked": f"select grp, val, rank() over (partition by grp order by val) as place from {ROWS}",
    "yearly": f"select year(at) as y, count(*) as n, sum(val) as v from {ROWS} group by 1",
    "tagged": f"select r.grp, r.val, t.tag from {ROWS} as r join {TAGS} as t on r.val = t.val",
    "untagged": f"select grp, val from {ROWS} where val not in (select val from {TAGS})",
    "both": f"select r.grp, count(*) as n from {ROWS} as r where exists (select 1 from {TAGS} as t"
    " where t.val = r.val and t.tag <> r.grp) group by r.grp",
    "subquery": f"select r.grp, {LATEST_TAG} from {ROWS} as r",
    "keyed_subquery": f"select r.grp, {LATEST_TAG} from (select distinct grp from {ROWS}) as r",
    "named_subquery": f"select r.grp, {LATEST_TAG} from {ROWS} as r",
    "named_keys_subquery": f"select r.grp, {LATEST_TAG} from {ROWS} as r",
    "named_linear": f"select grp, val from {ROWS}",
    "named_keys": f"select grp, val from {ROWS}",
}
SETTINGS = {
    "stored": "incremental_strategy='auto', partition_by=['grp']",
    "keyed_subquery": "incremental_strategy='auto', unique_key='grp'",
    "named_subquery": "incremental_strategy='change_feed'",
    "named_keys_subquery": "incremental_strategy='affected_keys'",
    "named_linear": "incremental_strategy='change_feed'",
    "named_keys": "incremental_strategy='affected_keys'",
}
CHANGED = ROWS.replace("source(", "changes(source(").replace(") }}", ")) }}")
AFFECTED = ROWS.replace("source(", "affected(source(").replace(") }}", "), key='grp') }}")
MARKED = {
    "named_linear": CHANGED,
    "named_keys": AFFECTED,
    "named_subquery": CHANGED,
    "named_keys_subquery": AFFECTED,
}
# The changes of the inputs between two runs.
CHANGES = [
    "insert into {inputs}.rows values ('a', 1, date'2020-01-01'), ('a', 1, date'2020-01-01')",
    "delete from {inputs}.rows where val = 2",
    "update {inputs}.rows set val = 2, at = date'2022-01-01' where grp = 'b'",
    "insert into {inputs}.tags values (2, 'x'), (2, 'x')",
    "insert into {inputs}.tags values (null, 'n')",
    "delete from {inputs}.tags where tag = 'n'",
    "update {inputs}.rows set grp = null where val = 1",
]
# Replaced when their lookup changes.
LOOKING_UP = {"named_subquery", "named_keys_subquery"}


@pytest.mark.slow
def test_runs_leave_what_the_sql_says(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
) -> None:
    inputs = f"{schema}_inputs"
    feed = "using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
    files = {}
    for name in MODELS:
        sql = MODELS[name]
        settings = SETTINGS.get(name, "incremental_strategy='auto'")
        text = sql.replace(ROWS, MARKED.get(name, ROWS))
        if name in LOOKING_UP:
            text = text.replace(
                TAGS, TAGS.replace("source(", "lookup(source(").replace(") }}", ")) }}")
            )
        files[f"models/{name}.sql"] = "{{ config(" + settings + ") }}\n" + text
    folder = new_project({"dbt_project.yml": PROJECT, "models/inputs.yml": SOURCE, **files})
    spark.sql(f"create schema {inputs}")
    spark.sql(f"create table {inputs}.rows (grp string, val int, at date) {feed}")
    defaults = feed.replace("true'", "true', 'delta.feature.allowColumnDefaults' = 'supported'")
    spark.sql(f"create table {inputs}.tags (val int, tag string default 'n') {defaults}")
    spark.sql(
        f"insert into {inputs}.rows select if(id % 3 = 0, 'a', if(id % 3 = 1, 'b', '')), id % 4,"
        " make_date(2020 + cast(id % 2 as int), 1, 1) from range(24)"
    )
    spark.sql(f"insert into {inputs}.tags values (1, 'a'), (1, 'a'), (3, 'b')")

    def ran() -> dict[str, str]:
        answers = dbt("run", project_dir=folder, schema=schema).result.results
        return {it.node.name: it.message for it in answers if it.node.resource_type == "model"}

    def wrong() -> dict[str, Any]:
        found = {}
        for name in MODELS:
            plain = MODELS[name].replace(ROWS, f"{inputs}.rows").replace(TAGS, f"{inputs}.tags")
            said = Counter(map(tuple, spark.sql(plain).collect()))
            if name == "stored":  # a partition cannot have an empty text
                said = Counter({(row[0] or None, *row[1:]): count for row, count in said.items()})
            got = Counter(map(tuple, spark.sql(f"select * from {schema}.{name}").collect()))
            if said != got:
                found[name] = said - got, got - said
        return found

    assert {message.split(":")[0] for message in ran().values()} == {"replace"}
    assert wrong() == {}
    seen = set()
    for change in CHANGES:
        spark.sql(change.replace("{inputs}", inputs))
        messages = ran()
        assert wrong() == {}, change
        replaced = {name for name, it in messages.items() if it.startswith("replace: ")}
        assert replaced <= (LOOKING_UP if ".tags" in change else set())
        seen |= {it.split(":")[0].split(",")[0] for it in messages.values()}

    # new aliases rebuild nothing
    renamed = MODELS["tagged"].replace("r.", "one.").replace("t.", "other.")
    renamed = renamed.replace("as r ", "as one ").replace("as t ", "as other ")
    text = "{{ config(incremental_strategy='auto') }}\n" + renamed
    (folder / "models/tagged.sql").write_text(text)
    last = {message.split(":")[0] for message in ran().values()}
    assert last == {"no changes"}
    assert seen | last == {"append", "merge", "no changes", "replace"}
