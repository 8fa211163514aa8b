"""Test a review of a lake that was built once, and of tests that a branch adds to a source."""

from __future__ import annotations

from typing import Any

import pytest

from review.shop import Shop
from review.test_review import Reviewed, reviewed, shop

__all__ = ["reviewed", "shop"]
pytestmark = pytest.mark.slow

MODEL = "models/silver/of_once.sql"
KINDS = "models/silver/kinds.sql"
RAW = "tables: [{name: orders}, {name: customers}]"


def test_the_incremental_path_is_proven_over_a_made_change(
    shop: Shop, reviewed: Reviewed, dbt: Any
) -> None:
    shop.spark.sql(
        f"create table {shop.schema}_raw.once using delta"
        " tblproperties ('delta.enableChangeDataFeed' = 'true', 'delta.appendOnly' = 'true')"
        " as select id, id % 5 as kind, id * 0.5D as amount from range(500)"
    )
    model = "select kind, count(*) as n from {{ source('raw', 'once') }} group by kind"
    strategy = "{{ config(incremental_strategy='auto') }}\n"
    sources = (shop.folder / "models/raw.yml").read_text()
    files = {MODEL: strategy + model, "models/raw.yml": sources.replace("[", "[{name: once}, ")}
    shop.commit(files, "once")
    dbt("run", "--select", "of_once", project_dir=shop.folder, schema=shop.schema)
    before = shop.state()
    tested = "{name: once, columns: [{name: kind, data_tests: [unique]}]}"
    shop.branch(
        "made",
        {
            MODEL: ("count(*) as n", "count(*) as n, max(id) as last"),
            "models/raw.yml": ("{name: once}", tested),
        },
    )
    code, found = reviewed(clean=True)
    stays = found["models"]["of_once"]["stays"]
    assert stays["differing"] == 0, stays
    assert stays["how"].endswith(", over rows that the review took out and put back")
    assert 0 < stays["changed_input_rows"] < 500
    assert shop.state() == before
    ((finding,),) = [model["findings"] for model in found["models"].values() if model["findings"]]
    assert (code, finding["kind"], finding["fails"]) == (1, "test", True)
    assert finding["text"] == (
        "source_unique_raw_once_kind: Got 5 results, configured to fail if != 0"
    )


def test_the_incremental_path_is_proven_if_the_newest_change_is_in_a_lookup(
    shop: Shop, reviewed: Reviewed, dbt: Any
) -> None:
    regions = shop.folder / "seeds/regions.csv"
    more = {"seeds/regions.csv": f"{regions.read_text()}cyd,east\n"}
    shop.commit(more, "another region")
    dbt("build", "--select", "regions", "kinds", project_dir=shop.folder, schema=shop.schema)
    shop.branch(
        "twice", {KINDS: ("select orders.id,", "select orders.id, orders.id * 2 as twice,")}
    )
    _, found = reviewed(clean=True)
    stays = found["models"]["kinds"]["stays"]
    assert (stays["differing"], stays["changed_input_rows"]) == (0, 1), stays
