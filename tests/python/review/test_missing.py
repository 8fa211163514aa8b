"""Review without hooks, permissions or room: the review still shows everything it can."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError
from pages.examples import model
from pages.examples import review as page_of

from headwaters.platform import atomic_write, engine
from headwaters.platform.errors import WorkError
from headwaters.platform.project import Project
from headwaters.review import run
from headwaters.review.schemas import KEPT, Schemas, clean
from review.shop import ROOT, Shop, facts
from review.test_checkout import repository
from review.test_pull_requests import OF_ORDERS, ORDERS, PLAIN
from review.test_review import Reviewed, counted, reviewed, shop

__all__ = ["repository", "reviewed", "shop"]

FULL = OSError(errno.ENOSPC, "No space left on device")
DESCRIBED = ("  - name: orders\n", "  - name: orders\n    description: Orders of the shop.\n")


@pytest.fixture(autouse=True)
def _schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATERS_SCHEMA", "nowhere")


def review(repository: Shop, out: Path) -> tuple[int, list[str]]:
    """Run a review without Spark; return its exit code and its output."""
    said: list[str] = []
    project = Project(repository.folder, ROOT / "profiles", "engine")
    return run.review(project, out, run.ReviewOptions(), said.append), said


def raising(error: Exception) -> Any:
    def fail(*arguments: Any) -> None:
        raise error

    return fail


def test_hooks_that_differ_are_said(repository: Shop, tmp_path: Path) -> None:
    settings = (repository.folder / "dbt_project.yml").read_text()
    hook = 'on-run-start: ["create schema if not exists log"]\n'
    repository.branch("hooks", {"dbt_project.yml": settings + hook, OF_ORDERS: DESCRIBED})
    assert review(repository, tmp_path / "out") == (
        0,
        [
            "no row was computed: what changed does not reach the rows",
            "nowhere_silver.orders (properties): not compared",
            "[HW_REVIEW_HOOKS] on-run-start or on-run-end differs, and a review runs no hooks. "
            "Run them by hand",
            f"written to {tmp_path / 'out'}: review.md, review.html, review.json",
        ],
    )


def test_a_branch_that_does_not_parse_has_its_comment(repository: Shop, tmp_path: Path) -> None:
    repository.branch("broken", {ORDERS: "select * from {{ ref('nothing') }}"})
    code, said = review(repository, tmp_path / "out")
    reason = (
        "the project does not parse: Compilation Error [HW_NO_SUCH_MODEL] "
        "models/silver/orders.sql:1: ref('nothing'): there is no such model, seed or snapshot: "
        "`dbt ls` lists all names"
    )
    assert (code, said[0]) == (1, reason)
    comment = (tmp_path / "out" / "review.md").read_text()
    assert "## ❌ the project does not parse: Compilation Error" in comment
    assert str(tmp_path) not in comment


def test_the_time_and_the_id_of_a_run_are_no_differences(repository: Shop, tmp_path: Path) -> None:
    audited = "select 1 as id, '{{ invocation_id }}' as run, '{{ run_started_at }}' as started"
    repository.commit({PLAIN: audited}, "audit columns")
    repository.branch("described", {OF_ORDERS: DESCRIBED})
    code, said = review(repository, tmp_path / "out")
    assert (code, said[:2]) == (
        0,
        [
            "no row was computed: what changed does not reach the rows",
            "nowhere_silver.orders (properties): not compared",
        ],
    )


def test_a_full_disk_ends_the_comparison_and_the_rest_is_said(
    repository: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.branch("full", {ORDERS: ("amount * 2", "amount * 3")})
    monkeypatch.setattr(run, "_compare", raising(FULL))
    code, said = review(repository, tmp_path / "out")
    problem = "[HW_FILE] a temporary file cannot be used: No space left on device"
    tables = ("nowhere_silver.orders (text)", "nowhere_silver.plain (upstream)")
    assert (code, said) == (
        1,
        [
            "reviewing 3 of 6 tables",
            "the rows of nowhere_silver.orders, nowhere_silver.plain and 1 more could not be "
            "compared",
            *(f"{table}: not compared" for table in tables),
            "nowhere_gold.totals (upstream): not compared",
            f"rows were not compared: {problem}",
            f"written to {tmp_path / 'out'}: review.md, review.html, review.json",
        ],
    )
    assert (
        "+select id, customer, amount, amount * 3 as twice"
        in (facts(tmp_path / "out")["models"]["orders"]["diff_of_sql"])
    )


def test_a_review_that_cannot_be_written_is_said_first(
    repository: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.branch("full", {OF_ORDERS: DESCRIBED})
    monkeypatch.setattr(atomic_write, "write", raising(FULL))
    said: list[str] = []
    project = Project(repository.folder, ROOT / "profiles", "engine")
    with pytest.raises(WorkError) as raised:
        run.review(project, tmp_path / "out", run.ReviewOptions(), said.append)
    assert str(raised.value) == (
        f"[HW_FILE] {tmp_path / 'out'} cannot be written: No space left on device. Free some "
        "space, or name another folder with --out"
    )
    assert said == [
        "no row was computed: what changed does not reach the rows",
        "nowhere_silver.orders (properties): not compared",
    ]


class Refusing:
    """A Spark with schemas that reviews have left; it neither creates nor drops one."""

    def __init__(self, schemas: Mapping[str, int]) -> None:
        self.schemas = schemas

    def rows(self, sql: str) -> list[Any]:
        """Return names of schemas, or the description of one."""
        if sql.startswith("show schemas"):
            return [(name,) for name in self.schemas]
        if "`review_gone__base_s`" in sql:
            raise DbtRuntimeError("[SCHEMA_NOT_FOUND]")
        at = next(at for name, at in self.schemas.items() if f"`{name}`" in sql)
        return [("Properties", f"((headwaters.review,x), (headwaters.review.at,{at}))")]

    def tried(self, sql: str) -> str | None:
        """Return the error of a store without permission, if the statement needs one."""
        return "[PERMISSION_DENIED] not yours" if sql.startswith(("create", "drop")) else None


def test_a_schema_that_cannot_be_made_ends_the_comparison_with_what_to_do() -> None:
    spark: Any = Refusing({})
    with pytest.raises(WorkError) as raised:
        Schemas("work").make(spark, "review_work__records")
    assert str(raised.value) == (
        "[HW_REVIEW_SCHEMA] the review cannot create review_work__records: [PERMISSION_DENIED] not "
        "yours. Let the profile's user create schemas, and see that the lake has room"
    )


def test_schemas_that_cannot_be_dropped_are_told() -> None:
    spark: Any = Refusing(
        {"review_other__base_s": 1, "review_gone__base_s": 1, "review_work__base_s": 1}
    )
    refused = "[PERMISSION_DENIED] not yours"
    assert clean(spark, "review_work__", KEPT) == {
        "review_other__base_s": refused,
        "review_work__base_s": refused,
    }


def warehouse(shop: Shop) -> Path:
    """Return the folder of the lake's schemas."""
    described = shop.spark.sql(f"describe schema {shop.schema}_silver").collect()
    return Path(dict(described)["Location"].removeprefix("file:")).parent


@pytest.mark.slow
def test_an_input_that_cannot_be_cloned_is_read_as_it_is(shop: Shop, reviewed: Reviewed) -> None:
    # its clone has no place: foreign files are there
    taken = warehouse(shop) / f"review_uncloned__in_{shop.schema}_silver.db" / "orders" / "taken"
    taken.parent.mkdir(parents=True)
    taken.touch()
    before = shop.state()
    shop.branch("uncloned", {PLAIN: ("as amount", "+ 1 as amount")})
    code, found = reviewed(clean=True)
    (note,) = found["notes"]
    said = f"[HW_REVIEW_INPUT] {shop.schema}_silver.orders cannot be cloned, and is read as it is, "
    assert (code, note.startswith(f"{said}at its newest version: ")) == (0, True)
    assert note.endswith(
        ". Let the profile's user read its files, and create tables in review schemas"
    )
    assert counted(found) == {"plain": (("text",), (6, 6, 0))}
    assert shop.state() == before


@pytest.mark.slow
def test_a_lake_in_which_no_schema_can_be_made_says_what_differs_in_the_project(
    shop: Shop, reviewed: Reviewed, tmp_path: Path
) -> None:
    # a file at the folder's path: no user can create the folder, not even root
    taken = warehouse(shop) / "review_denied__records.db"
    taken.touch()
    before = shop.state()
    shop.branch("denied", {ORDERS: ("amount * 2", "amount * 3")})
    try:
        code, found = reviewed()
    finally:
        taken.unlink()
    (note,) = found["notes"]
    said = "rows were not compared: [HW_REVIEW_SCHEMA] the review cannot create review_denied__rec"
    assert (code, note.startswith(said)) == (1, True)
    why = note.replace("rows were ", "")
    assert counted(found) == {
        "orders": (("text",), why),
        "plain": (("upstream",), why),
        "totals": (("upstream",), why),
    }
    assert "+select id" in found["models"]["orders"]["diff_of_sql"]
    assert "- not compared: `[HW_REVIEW_SCHEMA]" in (tmp_path / "out" / "review.md").read_text()
    assert shop.state() == before


def test_a_review_uses_a_running_engine_and_keeps_the_review_before(
    repository: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.branch("described", {OF_ORDERS: DESCRIBED})
    out = tmp_path / "out"
    _, first = review(repository, out)
    before = (out / "review.md").read_text()
    repository.commit({"README.md": "more"}, "another commit")
    monkeypatch.setattr(engine, "find", lambda lake: object())
    said: list[str] = []
    project = Project(repository.folder, ROOT / "profiles", "local")
    run.review(project, out, run.ReviewOptions(), said.append)
    assert said[0] == "using the engine of this lake"
    assert said[-2:] == [f"the review before is in {out / 'previous'}", first[-1]]
    assert (out / "previous" / "review.md").read_text() == before
    assert (out / "review.md").read_text() != before


def test_a_reason_that_no_table_could_be_compared_is_said_once() -> None:
    why = "not compared: [HW_METASTORE_IN_USE] the metastore is in use"
    made = page_of(model(difference=None, why_not=why))
    assert run.summary(made)[0].endswith(f": {why}")
    made = replace(made, notes=(f"rows were {why}",))
    assert run.summary(made)[0].endswith("): not compared")
