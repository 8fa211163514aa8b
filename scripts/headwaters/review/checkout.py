"""The base of a review: a commit of the project, in a git worktree outside the project."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from headwaters.platform.errors import UserError
from headwaters.platform.project import Project
from headwaters.platform.review_schemas import shortened
from headwaters.review.facts import Revision

_FOLDER = "headwaters-review-"
_GIT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
_PACKAGES = "dbt_packages"  # installed by dbt, ignored by git


@contextmanager
def checked_out(project: Project, commit: str) -> Iterator[Project]:
    """Yield the project at a commit, with the same profile and lake; remove it afterwards.

    Leftovers of killed reviews are removed first. Raises UserError if the commit has no project.
    """
    top = Path(_git(project.root, "rev-parse", "--show-toplevel"))
    _remove_orphaned(top)
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
    tree = folder / "base"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel releases it when the process ends
        try:
            _git(top, "worktree", "add", "--detach", "--force", str(tree), commit)
            root = tree / project.root.resolve().relative_to(top.resolve())
            if not (root / "dbt_project.yml").is_file():
                raise UserError(
                    "HW_REVIEW_BASE",
                    f"{commit[:10]} has no dbt_project.yml in {root.relative_to(tree)}: name a "
                    "later commit with --base",
                )
            yield _with_lake(project, root)
        finally:
            _remove(top, folder)


def _with_lake(project: Project, root: Path) -> Project:
    """Return the base's project, with the reviewed project's lake and packages."""
    base = replace(project, root=root, profiles_dir=project.profiles_folder)
    named = project.root / project.place
    place = root / named.relative_to(project.root) if named.is_relative_to(project.root) else None
    if place and not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(project.local, target_is_directory=True)
    packages = project.root / _PACKAGES
    if packages.is_dir() and not (root / _PACKAGES).exists():
        (root / _PACKAGES).symlink_to(packages.resolve(), target_is_directory=True)
    return base


def revisions(project: Project, base: str, out: Path) -> tuple[Revision, Revision]:
    """Return the merge base of `base` and HEAD, and HEAD with the uncommitted files.

    Files in `out`, the folder of the review's results, are not changes of the project. Raises
    UserError if the project is not in a git repository, or if the base does not exist.
    """
    if _tried(project.root, "rev-parse", "--show-toplevel") is None:
        raise UserError(
            "HW_REVIEW_BASE", f"{project.root} is in no git repository, so there is no base"
        )
    found = _tried(project.root, "merge-base", "--end-of-options", base, "HEAD")
    if found is None:
        raise UserError(
            "HW_REVIEW_BASE",
            f"--base {base}: no commit that HEAD shares with it. Fetch it, with its history "
            "(`git fetch --unshallow`), or name another one",
        )
    branch = _git(project.root, "rev-parse", "--abbrev-ref", "HEAD")
    changed = _git(project.root, "status", "--porcelain", "--", ".", *_without(project.root, out))
    return (
        Revision(found, base, _title(project.root, found)),
        Revision(
            _git(project.root, "rev-parse", "HEAD"),
            branch,
            _title(project.root, "HEAD"),
            is_dirty=bool(changed),
        ),
    )


def changed_files(project: Project, commit: str, out: Path) -> list[str]:
    """Return the project's files that differ from a commit, new ones included, by their paths."""
    where = ("--", ".", *_without(project.root, out))
    differing = _git(project.root, "diff", "--name-only", "--relative", "-z", commit, *where)
    new = _git(project.root, "ls-files", "--others", "--exclude-standard", "-z", *where)
    return sorted(filter(None, (differing + "\0" + new).split("\0")))


def _without(root: Path, out: Path) -> list[str]:
    """Return the git pathspec that excludes a folder, or nothing if it cannot contain changes."""
    top, folder = root.resolve(), (root / out).resolve()
    if folder == top or not folder.is_relative_to(top):
        return []
    return [f":(exclude,literal){folder.relative_to(top)}"]


def slug(branch: str, commit: str) -> str:
    """Return a branch name for use in a schema's name: ASCII, 40 characters at most."""
    name = commit[:10] if branch == "HEAD" else branch
    words = re.sub(r"[\W_]+", "_", name.lower(), flags=re.ASCII).strip("_")
    return shortened(words or commit[:10], 40, of=name)


def _title(root: Path, commit: str) -> str:
    return _git(root, "log", "-1", "--format=%s", commit)


def _remove_orphaned(top: Path) -> None:
    """Remove the folders of reviews whose process has ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        try:
            with (folder / "lock").open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # still running, another user's, or not started yet
        _remove(top, folder)


def _remove(top: Path, folder: Path) -> None:
    # the worktree may belong to another repository, which prunes it itself
    _tried(top, "worktree", "remove", "--force", str(folder / "base"))
    shutil.rmtree(folder, ignore_errors=True)
    _tried(top, "worktree", "prune")


def _tried(root: Path, *arguments: str) -> str | None:
    done = _ran(root, *arguments)
    return done.stdout.strip() if done.returncode == 0 else None


def _git(root: Path, *arguments: str) -> str:
    done = _ran(root, *arguments)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["no reason given"]
        raise UserError("HW_REVIEW_BASE", f"git {' '.join(arguments[:2])}: {said[-1]}")
    return done.stdout.strip()


def _ran(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # if a git hook runs the review, git names the hook's repository in environment variables
    variables = {name: text for name, text in os.environ.items() if name not in _GIT}
    # otherwise the repository's hooks would run in the base's worktree
    command = ["git", "-C", str(root), "-c", "core.hooksPath=/dev/null", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
