"""Test the workflows that review pull requests: this repository's, and the documented one."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from headwaters.cli import app
from headwaters.platform.project import Project
from headwaters.review.checkout import revisions
from review.shop import ROOT

OURS = (ROOT / ".github/workflows/review.yml").read_text()
PAGE = (ROOT / "docs/review.md").read_text()
(DOCUMENTED,) = re.findall(r"```yaml\n(# \.github/workflows/review\.yml\n.*?)```", PAGE, re.DOTALL)
OF_A_LAKE = yaml.safe_load(DOCUMENTED)
BOTH = [yaml.safe_load(OURS), OF_A_LAKE]


def steps(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("workflow", BOTH)
def test_code_of_a_pull_request_runs_without_permission_to_write(workflow: dict[str, Any]) -> None:
    review, comment = workflow["jobs"]["review"], workflow["jobs"]["comment"]
    assert workflow["permissions"] == {}
    assert review["permissions"] == {"contents": "read"}
    assert comment["permissions"] == {"actions": "read", "pull-requests": "write"}
    # the job that may write checks nothing out, and has no secret but its token
    assert not any("uses" in step for step in comment["steps"])
    assert "secrets." not in yaml.safe_dump(comment)
    checkout = review["steps"][0]
    assert checkout["uses"].startswith("actions/checkout@")
    assert checkout["with"] == {"fetch-depth": 0, "persist-credentials": False}


def test_credentials_are_those_of_an_environment_and_never_for_a_fork() -> None:
    review = OF_A_LAKE["jobs"]["review"]
    assert review["environment"] == "review"
    assert "head.repo.full_name == github.repository" in review["if"]
    secrets = re.findall(r"secrets\.(\w+)", DOCUMENTED)
    assert secrets == ["REVIEW_CLUSTER"]
    assert all(f"`{name}`" in PAGE for name in secrets)
    profiles = (ROOT / "profiles/profiles.yml").read_text()
    for step in review["steps"]:
        for name in step.get("env", {}):
            used = "\n".join(steps(review))
            assert re.search(rf"\$\{{?{name}\b", used) or f"env_var('{name}'" in profiles


@pytest.mark.parametrize("workflow", BOTH)
def test_the_commands_and_options_exist(workflow: dict[str, Any]) -> None:
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # of a group
    found = [
        shlex.split(line)
        for text in steps(workflow["jobs"]["review"])
        for line in text.splitlines()
        if "bin/headwaters " in line
    ]
    assert found
    for words in found:
        name, *arguments = words[1:]
        known = {flag for option in commands[name].params for flag in option.opts}
        assert {one for one in arguments if one.startswith("-")} <= known


@pytest.mark.parametrize(
    ("workflow", "branch", "name"),
    [
        (BOTH[0], "feature/$(id>ran)", "feature/$(id>ran)"),
        (BOTH[1], "feature/x;id>ran", "feature/x;id>ran"),
        (BOTH[1], "", "scheduled"),
    ],
)
def test_a_branch_is_reviewed_by_its_name(
    workflow: dict[str, Any], branch: str, name: str, tmp_path: Path
) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.email=ci@example.com", "-c", "user.name=ci"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "merged")
    commit = git("rev-parse", "HEAD")
    git("switch", "-q", "--detach")
    (line,) = [one for one in steps(workflow["jobs"]["review"]) if "--force-create" in one]
    variables = {**os.environ, "BRANCH": branch, "REVIEWED": commit}
    switch = line.partition(" && ")[0]
    subprocess.run(["bash", "-ec", switch], cwd=tmp_path, env=variables, check=True)
    project = Project(tmp_path)
    (tmp_path / "dbt_project.yml").touch()
    assert revisions(project, "main", tmp_path / "out")[1].branch == name
    assert not (tmp_path / "ran").exists()


def test_both_post_the_comment_in_the_same_way_and_pin_the_same_actions() -> None:
    ours, documented = (one["jobs"]["comment"]["steps"] for one in BOTH)
    assert ours == documented
    actions = [set(re.findall(r"uses: (\S+ # \S+)", text)) for text in (OURS, DOCUMENTED)]
    assert actions[1] < actions[0]
