"""Test `make run-platform`, and after it all of the project on its servers.

The checkout is a copy in a new repository, since a review compares commits. HISTORIES sets
the number of random histories (default: 8).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from incremental.fuzz.draw import drawn
from incremental.fuzz.lot import Lot
from platforms import session, variables_of
from processes import ROOT, environment
from trino_client import differing, java_of_trino

from headwaters.devkit import services, trino
from headwaters.platform import cluster as clusters

pytestmark = pytest.mark.platform

SMALL = ("--customers", "30", "--products", "10", "--orders", "60")
HISTORIES = int(os.environ.get("HISTORIES") or 8)
# Each operation, with the arguments to plan or to do it.
OPERATIONS = {
    "check_tables": "{}",
    "plan_tables": "{select: gold}",
    "apply_tables": "{select: customer_value, reason: a test, dry_run: false}",
    "explain_refresh": "{model: customer_value}",
    "maintain": "{select: silver_orders_current, reason: a test, dry_run: false}",
    "backup": "{table: customer_value, reason: a test, expires: 1 day, dry_run: false}",
    "list_backups": "{}",
    "rebuild": "{model: customer_value, reason: a test, dry_run: false}",
    "replace_where": "{model: customer_value, reason: a test, predicate: customer_id = '1', "
    "dry_run: false}",
    "delete_where": "{table: customer_value, reason: a test, predicate: customer_id = '1'}",
    "restore": "{table: customer_value, reason: a test, version: 0}",
    "erase": "{subject: {customer_id: {env: SUBJECT}}, reason: a test}",
    "drop": "{table: gold.old_report, reason: a test, expires: 1 day, dry_run: false}",
    "expire_backups": "{reason: a test}",
}


class Checkout:
    """A copy of the project, whose platform a test starts."""

    def __init__(self, folder: Path) -> None:
        """Copy the files that belong to the project, and commit them."""
        self.folder, self.lake = folder, folder / "lake" / "platform"
        listed = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"]
        names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
        (folder / ".venv").symlink_to((ROOT / ".venv").resolve())
        self.git("init", "--quiet", "--initial-branch", "main")
        self.commit("base")

    def git(self, *words: str) -> None:
        """Run git."""
        user = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        subprocess.run(["git", *user, *words], cwd=self.folder, check=True)

    def commit(self, subject: str) -> None:
        """Commit all files."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", subject)

    def start(self) -> None:
        """Start the platform, unless it runs."""
        self.run("headwaters", "platform", "start")

    def result(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the checkout, on the platform if it runs."""
        own = (
            environment()
            | variables_of(self.lake)
            | {"PYTHONPATH": str(ROOT / "scripts")}
            | variables
        )
        return subprocess.run(
            words,
            cwd=self.folder,
            env={**own, "PATH": f"{self.folder}/.venv/bin:{own['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, *words: str, **variables: str) -> str:
        """Run a command that succeeds, and return what it prints."""
        ran = self.result(*words, **variables)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    made = Checkout(tmp_path_factory.mktemp("platform") / "checkout")
    try:
        yield made
    finally:
        list(services.stop(made.lake, services.ALL))


def test_the_whole_project_runs_on_the_platform(checkout: Checkout) -> None:
    java = {trino.VARIABLE: java_of_trino()}
    print(checkout.run("scripts/run-platform", *SMALL, **java))
    assert "ERROR=0" in checkout.run("dbt", "build", "--target", "cluster")
    spark, port = session(checkout.lake), trino.find(checkout.lake)
    assert port
    tables = [
        f"{schema}.{row[1]}"
        for schema in ("bronze", "silver", "gold", "ops")
        for row in spark.sql(f"show tables in {schema}").collect()
    ]
    assert len(tables) > 30
    found = {name: differing(spark, port.port, name) for name in tables}
    assert {name: columns for name, columns in found.items() if columns} == {}
    spark.stop()


def test_all_operations_run_on_the_cluster(checkout: Checkout) -> None:
    checkout.start()
    spark = session(checkout.lake)
    spark.sql("create table gold.old_report using delta as select 1 as id")
    spark.stop()
    failed = {}
    for name, arguments in OPERATIONS.items():
        words = ("dbt", "run-operation", name, "--target", "cluster", "--args", arguments)
        ran = checkout.result(*words, SUBJECT="1")
        if ran.returncode:
            failed[name] = ran.stdout + ran.stderr
    assert failed == {}


def test_a_branch_is_reviewed_on_the_cluster(checkout: Checkout) -> None:
    checkout.start()
    model = checkout.folder / "models" / "gold" / "customer_value.sql"
    checkout.git("checkout", "--quiet", "-b", "change")
    text = model.read_text()
    model.write_text(text.replace("'cancelled'", "'cancelled' and amount < 200"))
    checkout.commit("change")
    review = checkout.run("headwaters", "review", "--target", "cluster")
    assert "gold.customer_value" in review


def test_random_histories_are_equal_on_the_platform(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.start()
    for name, value in variables_of(checkout.lake).items():
        monkeypatch.setenv(name, value)
    spark, connect = session(checkout.lake), clusters.find(checkout.lake)
    assert connect
    monkeypatch.setenv("HEADWATERS_ENGINE", connect.remote)
    histories = {f"h{n}": drawn(1, n, 2, 2) for n in range(1, HISTORIES + 1)}
    courses = Lot(spark, tmp_path / "project", histories).play()
    spark.stop()  # it would ask the stopped server for minutes
    assert {name: course.failure for name, course in courses.items()} == dict.fromkeys(histories)
