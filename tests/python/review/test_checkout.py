"""Test that the base's checkout leaves nothing behind, even after kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from headwaters.platform.errors import UserError
from headwaters.platform.project import Project
from headwaters.platform.review_schemas import is_of_review
from headwaters.review import run
from headwaters.review.checkout import checked_out, revisions, slug
from headwaters.review.schemas import Schemas
from review.shop import ROOT, Shop

LONG = "dependabot/pip/of-a-name-longer-than-that"
HELD = """
import sys
from pathlib import Path
from headwaters.platform.project import Project
from headwaters.review.checkout import checked_out
with checked_out(Project(Path(sys.argv[1]), Path(sys.argv[2])), sys.argv[3]) as base:
    print(base.root, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def repository(
    new_project: Callable[[dict[str, str]], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Shop:
    """Return the shop's repository without its tables."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.delenv("HEADWATERS_LAKE", raising=False)
    made = Shop(new_project({}), "nowhere", None)
    made.found()
    return made


@pytest.mark.parametrize("target", ["local", "engine", "cluster"])
def test_the_base_of_each_target_has_the_same_lake(repository: Shop, target: str) -> None:
    repository.branch("work", {"seeds/regions.csv": "customer,region\n"})
    project = Project(repository.folder, ROOT / "profiles", target)
    base, _ = revisions(project, "main", repository.folder / "written")
    with checked_out(project, base.commit) as found:
        assert found.root != project.root
        assert (found.root / found.place).resolve() == project.local.resolve()


def test_the_base_is_the_merge_base_and_reads_the_same_lake(
    repository: Shop, tmp_path: Path
) -> None:
    repository.branch("work", {"seeds/regions.csv": "customer,region\n"})
    project = Project(repository.folder, ROOT / "profiles")
    out = repository.folder / "written"
    out.mkdir()
    (out / "review.md").write_text("what the last review wrote")
    assert not revisions(project, "main", out)[1].is_dirty
    (repository.folder / "seeds" / "more.csv").write_text("a\n1\n")
    base, head = revisions(project, "main", out)
    assert (base.branch, base.title, base.is_dirty) == ("main", "the shop", False)
    assert (head.branch, head.title, head.is_dirty) == ("work", "work", True)
    with checked_out(project, base.commit) as found:
        assert (found.root / "seeds" / "regions.csv").read_text() != "customer,region\n"
        assert not (found.root / "seeds" / "more.csv").exists()
        assert (found.root / found.place).resolve() == project.local.resolve()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert len(repository.git("worktree", "list").splitlines()) == 1


def test_the_repository_runs_no_hook_and_git_means_no_other_one(
    repository: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = repository.folder / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    commit = repository.git("rev-parse", "HEAD")
    index = repository.git("ls-files", "--stage")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository.folder / ".git" / "index"))
    with checked_out(Project(repository.folder, ROOT / "profiles"), commit) as found:
        assert (found.root / "seeds" / "regions.csv").is_file()
    monkeypatch.undo()
    assert repository.git("ls-files", "--stage") == index
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("branch", "name"),
    [
        ("Feature/Twice!", "feature_twice"),
        ("größe", "gr_e"),
        ("修正", "0123456789"),
        ("HEAD", "0123456789"),
        ("'; drop table x", "drop_table_x"),
        ("!!!", "0123456789"),
        ("a__base", "a_base"),  # not a prefix of another branch's schemas
        ("x" * 40, "x" * 40),
        ("dependabot/pip/of-a-long-name-1", "dependabot_pip_of_a_long_name_1"),
        (f"{LONG}-1", "dependabot_pip_of_a_name_longer_9509f857"),
        (f"{LONG}-2", "dependabot_pip_of_a_name_longer_3badf748"),
    ],
)
def test_a_branch_as_part_of_a_schema(branch: str, name: str) -> None:
    assert slug(branch, "0123456789abcdef") == name


def test_what_a_killed_review_left_is_removed_by_the_next(repository: Shop, tmp_path: Path) -> None:
    project = Project(repository.folder, ROOT / "profiles")
    commit = repository.git("rev-parse", "HEAD")
    arguments = [str(project.root), str(project.profiles_dir), commit]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(
        [sys.executable, "-c", HELD, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": str(ROOT / "scripts")},
    ) as held:
        assert held.stdout is not None
        left = Path(held.stdout.readline().strip())
        with checked_out(project, commit):
            assert left.is_dir()  # it runs
        assert left.is_dir()
        held.send_signal(signal.SIGKILL)
        held.wait()
    assert left.is_dir()
    with checked_out(project, commit):
        assert not left.exists()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert len(repository.git("worktree", "list").splitlines()) == 1


@pytest.mark.parametrize(
    ("base", "error"),
    [
        ("nowhere", "--base nowhere: no commit that HEAD shares with it"),
        ("--all", "--base --all: no commit that HEAD shares with it"),
        ("broken", "the base does not parse, so there is nothing to compare"),
        ("empty", "has no dbt_project.yml in ."),
    ],
)
def test_a_base_that_cannot_be_compared_is_one_line(
    repository: Shop, tmp_path: Path, base: str, error: str
) -> None:
    repository.branch("broken", {"models/silver/orders.yml": "models: [{"})
    repository.branch("empty", {"dbt_project.yml": None})
    if base in ("broken", "empty"):
        repository.git("checkout", "-q", "-b", "work", base)
        repository.git("checkout", "main", "--", "models", "dbt_project.yml")
    project = Project(repository.folder, ROOT / "profiles", "engine")
    with pytest.raises(UserError, match="HW_REVIEW_BASE") as raised:
        run.review(project, tmp_path / "out", run.ReviewOptions(base), print)
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_project_outside_of_git_has_no_base(
    new_project: Callable[[dict[str, str]], Path], tmp_path: Path
) -> None:
    project = Project(new_project({}), ROOT / "profiles", "engine")
    with pytest.raises(UserError, match="is in no git repository"):
        run.review(project, tmp_path / "out", run.ReviewOptions(), print)


def test_schemas_of_long_names_are_told_apart() -> None:
    one, other = (Schemas("work").name("in", f"{'s' * 110}_{number}") for number in (1, 2))
    assert one != other
    assert {len(one), len(other)} == {120}
    assert is_of_review(one)
    assert Schemas("work").name("in", "sales") == "review_work__in_sales"
