"""Review hostile data, and an old production or one that was never built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from review.shop import Shop
from review.test_pull_requests import KINDS, ORDERS, PLAIN, SAME, TOTALS
from review.test_review import Reviewed, counted, reviewed, shop

__all__ = ["reviewed", "shop"]

pytestmark = pytest.mark.slow

ODD = """
{{ config(incremental_strategy='change_feed', unique_key='k|"') }}
select `k|"`, `#no`, `<b>`, `a`, long from {{ changes(source('raw_odd', 'odd')) }}
"""
VALUES = {
    1: "`|</td><script>alert(1)</script>",
    2: "[a](https://example.com) @octocat #1 \u202e\u2066",
    3: "'\";--\\n\\",
}


@pytest.fixture
def odd(shop: Shop, dbt: Any) -> Iterator[Shop]:
    """Create a table of hostile names and values, among them one of 10 MB."""
    name = f"{shop.schema}_raw.odd"
    shop.spark.sql(
        f'create table {name} (`k|"` int, `#no` int, `<b>` string, `a` int, long string)'
        " using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    for key, value in VALUES.items():
        text = value.replace("\\", "\\\\").replace("'", "\\'")
        shop.spark.sql(f"insert into {name} values ({key}, 0, '{text}', 1, repeat('é|', 5000000))")
    shop.commit(
        {
            "models/odd.yml": 'sources: [{name: raw_odd, schema: "{{ target.schema }}_raw", '
            "tables: [{name: odd}]}]",
            "models/silver/odd.sql": ODD,
        },
        "odd",
    )
    dbt("run", "--select", "odd", project_dir=shop.folder, schema=shop.schema)
    yield shop


def test_hostile_names_and_values_are_compared_and_shown(
    odd: Shop, reviewed: Reviewed, tmp_path: Path
) -> None:
    odd.branch(
        "odd-rows",
        {
            "models/silver/odd.sql": (
                "`#no`, `<b>`, `a`",
                "`#no` + 1 as `#no`, upper(`<b>`) as `<b>`, `a` + 1 as `a`",
            ),
        },
    )
    code, found = reviewed(clean=True)
    assert (code, found["notes"]) == (0, [])
    assert counted(found) == {"odd": (("text",), (0, 0, 3))}
    model = found["models"]["odd"]
    assert {one["name"]: one["changed"] for one in model["columns"]} == {
        'k|"': 0,
        "#no": 3,
        "<b>": 3,
        "a": 3,
        "long": 0,
    }
    told = {one["key"]['k|"']: one["before"].get("<b>") for one in model["difference"]["examples"]}
    assert told == {"1": VALUES[1], "2": VALUES[2], "3": VALUES[3]}
    assert all("long" not in one["before"] for one in model["difference"]["examples"])
    for page in ("review.md", "review.html"):
        text = (tmp_path / "out" / page).read_text()
        assert "<script>alert" not in text
        assert "\u202e" not in text
        assert len(text) < 100_000


def test_no_message_shows_values_of_rows(shop: Shop, reviewed: Reviewed, tmp_path: Path) -> None:
    shop.branch(
        "messages",
        {
            # personal keys repeat, and a message has a personal value
            TOTALS: ("group by customer", "group by customer, id"),
            PLAIN: ("select customer,", "select string(raise_error(customer)) as customer,"),
        },
    )
    code, found = reviewed(clean=True)
    said = counted(found)
    assert code == 1
    assert "[HW_REPEATED_KEYS]" in said["totals"][1]
    assert "one row for some keys" in said["totals"][1]
    assert "[USER_RAISED_EXCEPTION] in a row" in said["plain"][1]
    for page in ("review.md", "review.html", "review.json"):
        text = (tmp_path / "out" / page).read_text()
        assert not [name for name in ("ann", "bob") if f"'{name}'" in text or f" {name}" in text]


# An incremental run keeps the marks that a full refresh recomputes.
MARKED = """
{{ config(incremental_strategy='change_feed', unique_key='id', allow_nondeterministic=['uuid']) }}
select id, uuid() as mark from {{ changes(source('raw', 'orders')) }}
"""


def test_a_branch_that_does_not_stay_right_fails(shop: Shop, reviewed: Reviewed) -> None:
    shop.branch("marked", {KINDS: MARKED})
    code, found = reviewed(clean=True)
    stays = found["models"]["kinds"]["stays"]
    assert (code, stays["differing"], stays["changed_input_rows"]) == (1, 14, 1)


def test_what_is_not_committed_is_reviewed_and_said_and_what_is_personal_is_masked(
    shop: Shop, reviewed: Reviewed
) -> None:
    shop.branch("dirty", {ORDERS: ("amount * 2", "amount + amount")})
    file = shop.folder / ORDERS
    file.write_text(file.read_text().replace("amount > 0", "amount > 10"))
    code, found = reviewed("orders", clean=True)
    assert code == 0
    assert [note.split(" ")[0] for note in found["notes"]] == ["[HW_REVIEW_DIRTY]"]
    assert counted(found) == {"orders": (("text",), (0, 1, 0))}  # and only the selected models
    assert found["models"]["orders"]["difference"]["examples"] == [
        {
            "change": "removed",
            "key": {"id": "1"},
            "before": {"customer": None, "amount": "10", "twice": "20"},
            "after": {},
            "skipped": {},
        }
    ]


def test_production_that_is_old_or_was_never_built(shop: Shop, reviewed: Reviewed) -> None:
    raw, silver = f"{shop.schema}_raw.orders", f"{shop.schema}_silver"
    # the applied versions of production were vacuumed
    shop.spark.sql(f"update {raw} set amount = amount + 1")
    shop.spark.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    shop.spark.sql(f"vacuum {raw} retain 0 hours")
    shop.spark.sql(f"drop table {silver}.plain")
    shop.spark.sql(f"drop schema {shop.schema}_gold cascade")
    before = shop.state()
    shop.branch("old", {ORDERS: ("amount * 2", "amount + amount"), KINDS: ("left join", "join")})
    code, found = reviewed(clean=True)
    assert (code, found["notes"]) == (0, [])
    assert counted(found) == {
        "orders": (("text",), SAME),
        "kinds": (("text",), (0, 2, 0)),
        "plain": (("upstream",), SAME),
        "totals": (("upstream",), SAME),
    }
    # the review takes rows out of the inputs and puts them back; the lookup of one is not followed
    kinds, orders = (found["models"][name]["stays"] for name in ("kinds", "orders"))
    assert kinds["how"].startswith("replaced, not proven: replace: 5 rows, ")
    assert kinds["how"].endswith("_reference.regions changed")
    assert orders["how"].endswith(", over rows that the review took out and put back")
    assert (kinds["differing"], orders["differing"]) == (None, 0)
    assert shop.state() == before


def test_a_lake_without_production_is_one_note_a_table(shop: Shop, reviewed: Reviewed) -> None:
    for name in ("raw", "silver", "gold"):
        shop.spark.sql(f"drop schema {shop.schema}_{name} cascade")
    shop.branch("none", {ORDERS: ("amount * 2", "amount + amount")})
    code, found = reviewed(clean=True)
    orders = f"{shop.schema}_raw.orders"
    missing = (
        f"[TABLE_OR_VIEW_NOT_FOUND] The table or view `{shop.schema}_raw`.`orders` cannot be found."
        " Verify the spelling and correctness of the schema and catalog."
    )
    assert found["notes"] == [
        f"[HW_REVIEW_INPUT] {orders} has no versions, and is read as it is: {missing} "
        "Build production first, or make it a Delta table"
    ]
    below = "the base does not build it: something that it reads is not built"
    assert counted(found) == {
        "orders": (("text",), f"the base does not build it: {missing}"),
        "plain": (("upstream",), below),
        "totals": (("upstream",), below),
    }
    assert [(one["text"], one["fails"]) for one in found["models"]["orders"]["findings"]] == [
        (f"the base does not build either: {missing}", False)
    ]
    assert code == 1


def test_a_sample_is_called_one(shop: Shop, reviewed: Reviewed, dbt: Any, tmp_path: Path) -> None:
    shop.order(", ".join(f"({100 + n}, 'many', {n + 1})" for n in range(2000)))
    dbt("run", project_dir=shop.folder, schema=shop.schema)
    shop.branch("sample", {ORDERS: ("amount * 2", "if(id < 3000, 0, 1)")})
    code, found = reviewed(clean=True, largest=100)
    orders = found["models"]["orders"]
    some = orders["difference"]["changed"]
    assert code == 0
    assert orders["difference"]["extent"] == orders["stays"]["extent"] == "sample"
    assert orders["difference"]["rows_after"] == 2006
    assert 40 < some < 200  # of one row in 21
    assert orders["stays"]["differing"] == 0
    comment = (tmp_path / "out" / "review.md").read_text()
    assert f"## 🔶 in a sample, {some} rows change in 1 column" in comment
    assert f"| 2,006 (sample) | 0 | 0 | {some} |" in comment
    assert f"{some} rows differ in a sample of 2,006" in comment
    assert "- incremental run over 2,000 changed input rows: equal in a sample to" in comment


def test_models_that_are_renamed_and_deleted(
    shop: Shop, reviewed: Reviewed, tmp_path: Path
) -> None:
    old = (shop.folder / PLAIN).read_text()
    shop.branch("renamed", {PLAIN: None, "models/silver/plainer.sql": old, KINDS: None})
    code, found = reviewed(clean=True)
    assert code == 0
    assert counted(found) == {
        "kinds": (("removed",), (0, 7, 0)),
        "plain": (("removed",), (0, 6, 0)),
        "plainer": (("added",), (6, 0, 0)),
    }
    assert found["models"]["plainer"]["what_changed"] == [
        "added",
        "the SQL of plain, which is removed: renamed?",
    ]
    comment = (tmp_path / "out" / "review.md").read_text()
    assert "plain</code>: removed, 6 rows</summary>" in comment
    assert "plainer</code>: added, 6 rows</summary>" in comment
