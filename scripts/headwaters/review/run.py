"""One review: the changes, both sides over the same inputs, and the results."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dbt_common.exceptions import DbtRuntimeError

from headwaters.platform import atomic_write
from headwaters.platform.dbt_compat import copied
from headwaters.platform.errors import CodedError, UserError, WorkError, first_line, refused_file
from headwaters.platform.manifest import compiled, parse, selected
from headwaters.platform.nodes import Node
from headwaters.platform.project import Project
from headwaters.platform.waiting import during
from headwaters.report.pages.texts import number
from headwaters.review import changes as changing
from headwaters.review import markdown, page
from headwaters.review.build import KEPT, Schemas, Spark, clean
from headwaters.review.build_sides import Both, Known
from headwaters.review.changes import Changes, Side
from headwaters.review.checkout import changed_files, checked_out, revisions, slug
from headwaters.review.facts import Review
from headwaters.review.lint import new_findings
from headwaters.review.models import model_of, moments
from headwaters.review.proof import maintenance, next_runs, past_runs, prove
from headwaters.review.verdict import verdict

Say = Callable[[str], None]


@dataclass(frozen=True)
class ReviewOptions:
    """The options of a review.

    `select` restricts the changed models, in dbt's syntax. Tables of more than `largest` rows are
    compared by a sample. If `is_clean`, the review drops its schemas at the end.
    """

    base: str = "main"
    select: Sequence[str] = ()
    largest: int = 100_000_000
    is_clean: bool = False


def review(project: Project, out: Path, options: ReviewOptions, say: Say) -> int:
    """Review the files on disk against the merge base of a branch and HEAD; return the exit code.

    Writes the facts and the pages into `out`. The exit code is 0 also if rows differ. It is 1 if a
    test, a contract, a policy or the proof fails, or if no rows could be compared. Raises UserError
    if the base does not exist, or one of the two does not parse.
    """
    began = time.monotonic()
    before, after = revisions(project, options.base, out)
    schemas = Schemas(slug(after.branch, after.commit))
    known = Known()
    with checked_out(project, before.commit) as base_project:
        base, head = _read(project, base_project)
        found = changing.changes(base, head)
        if options.select:
            found = _selected(found, base, head, options.select)
        if changing.operations(base) != changing.operations(head):
            known.note(
                "HW_REVIEW_HOOKS",
                "on-run-start or on-run-end differs, and a review runs no hooks. Run them by hand",
            )
        if after.is_dirty:
            known.note(
                "HW_REVIEW_DIRTY",
                "the worktree has changes that are not committed, and they are reviewed as well. "
                "Commit or stash them to review what a pull request has",
            )
        files = _files(found, base, head)
        outside = changing.files_not_reviewed(
            changed_files(project, before.commit, out),
            head.manifest.metadata.project_name or "",
            base,
            head,
        )
        with ThreadPoolExecutor(1) as beside:  # the linter is a separate process
            linting = beside.submit(new_findings, base_project.root, project.root, files)
            if found.built or found.built_before:
                say(f"reviewing {len(found.order)} of {_count(head)} tables")
            if found.built or found.built_before or options.is_clean:
                try:
                    _compare(base, head, found, schemas, known, options)
                except (DbtRuntimeError, CodedError, OSError) as error:
                    known.problem = _problem(error)
                    known.notes.append(f"rows were not compared: {known.problem}")
                known.moments = moments(head, found, known)
            linted = linting.result()
        if linted.problem:
            known.notes.append(linted.problem)
        models = [model_of(key, base, head, found, known, linted) for key in found.order]
    made = Review(
        before,
        after,
        tuple(models),
        found.edges,
        found.exposures,
        (*found.not_compared, *_of_files(outside)),
        tuple(known.notes),
        round(time.monotonic() - began, 1),
    )
    # printed first, so that the user sees it even if the files cannot be written
    for line in (verdict(made).text, *summary(made), *made.notes):
        say(line)
    _write(made, out)
    say(f"written to {out}: review.md, {markdown.PAGE}, review.json")
    is_unknown = any(m.why_not for m in models) and not any(m.difference for m in models)
    return 1 if known.problem or verdict(made).fails or is_unknown else 0


def _of_files(files: Sequence[str]) -> list[str]:
    """Return the sentence about changed files that a review does not cover."""
    if not files:
        return []
    more = f" and {number(len(files) - 5, 'more file')}" if files[5:] else ""
    return [f"not reviewed: {', '.join(files[:5])}{more}"]


def _problem(error: Exception) -> str:
    if isinstance(error, OSError):
        return str(refused_file(error, f"{error.filename or 'a temporary file'} cannot be used"))
    return first_line(error)


def write(made: Review, out: Path) -> None:
    """Write the facts (`review.json`), the comment (`review.md`) and the page (`review.html`)."""
    out.mkdir(parents=True, exist_ok=True)
    facts = json.dumps(asdict(made), indent=1, ensure_ascii=False)
    atomic_write.write(out / "review.json", facts + "\n")
    atomic_write.write(out / "review.md", markdown.render(made))
    atomic_write.write(out / markdown.PAGE, page.render(made))


def _write(made: Review, out: Path) -> None:
    try:
        write(made, out)
    except OSError as error:  # a full disk's error names no file
        remedy = "Free some space, or name another folder with --out"
        raise refused_file(error, f"{error.filename or out} cannot be written", remedy) from None


def summary(made: Review) -> list[str]:
    """Return one line for each model."""
    lines = []
    for model in made.models:
        if model.difference is not None:
            one = model.difference
            said = f"{one.added:,} added, {one.removed:,} removed, {one.changed:,} changed"
            rows = f"{one.rows_before:,} rows before, {one.rows_after:,} after"
            said = f"{said}; {rows}" if one.rows else "no row differs"
        else:
            said = model.why_not or "not compared"
        lines.append(f"{model.relation} ({', '.join(model.causes)}): {said}")
        lines += [f"  {one.kind}: {one.text}" for one in model.findings if one.fails]
    return lines


def _read(project: Project, base_project: Project) -> tuple[Side, Side]:
    head = _side(project)
    try:
        return _side(base_project), head
    except UserError as error:
        raise UserError(
            "HW_REVIEW_BASE",
            f"the base does not parse, so there is nothing to compare: {error.text}",
        ) from None


def _side(project: Project) -> Side:
    with contextlib.chdir(project.root):  # dbt changes to this folder, and stays
        manifest = parse(project)
        as_parsed = copied(manifest)
        found = compiled(project, manifest)
    macros = {key: macro.macro_sql for key, macro in manifest.macros.items()}
    units = {key: test.to_dict() for key, test in manifest.unit_tests.items()}
    nodes = {key: _with_content(node, project) for key, node in {**found.nodes, **units}.items()}
    own = [*manifest.macros.values(), *manifest.docs.values(), *manifest.groups.values()]
    name = manifest.metadata.project_name
    files = {one.original_file_path for one in own if one.package_name == name}
    return Side(nodes, found.exposures, macros, frozenset(files), as_parsed, project)


def _with_content(node: Node, project: Project) -> Node:
    """Give a seed the checksum of its file: above 1 MB, dbt's own is that of the path."""
    if node["resource_type"] != "seed" or node["checksum"]["name"] != "path":
        return node
    file = project.root / node["original_file_path"]
    return {**node, "checksum": hashlib.sha256(file.read_bytes()).hexdigest()}


def _selected(found: Changes, base: Side, head: Side, select: Sequence[str]) -> Changes:
    """Restrict the changes to dbt's selection. The review reads other tables from production."""
    keys = selected(head.project, copied(head.manifest), select)
    removed = {key for key in found.changed if key not in head.nodes}
    kept = {key for key in found.order if key in keys} | removed
    return replace(
        found,
        changed={key: one for key, one in found.changed.items() if key in kept},
        order=tuple(key for key in found.order if key in kept),
        built=tuple(key for key in found.built if key in kept or _is_view(head, key)),
        built_before=tuple(key for key in found.built_before if key in kept or _is_view(base, key)),
    )


def _is_view(side: Side, key: str) -> bool:
    return bool(side.nodes[key]["config"].get("materialized") == "view")


def _count(side: Side) -> int:
    return sum(node["resource_type"] in changing.BUILT for node in side.nodes.values())


def _files(found: Changes, *sides: Side) -> list[str]:
    files = {
        str(side.nodes[key]["original_file_path"])
        for key in found.changed
        for side in sides
        if key in side.nodes and side.nodes[key]["resource_type"] == "model"
    }
    return sorted(files)


def _compare(
    base: Side, head: Side, found: Changes, schemas: Schemas, known: Known, options: ReviewOptions
) -> None:
    spark = Spark(head.project)
    with during("starting Spark"):
        left = clean(spark, schemas.prefix, KEPT)
    if own := [name for name in left if name.startswith(schemas.prefix)]:
        raise WorkError("HW_REVIEW_SCHEMA", _not_dropped(own[0], left[own[0]]))
    try:
        if found.built or found.built_before:
            both = Both(spark, schemas, (base, head), found, known, options.largest)
            both.build()
            prove(both)
            next_runs(both)
            maintenance(both)
            past_runs(both)
    finally:
        # differing rows contain unmasked values, and must not stay queryable
        of_rows = f"{schemas.prefix}difference_"
        with contextlib.suppress(DbtRuntimeError):  # the review has already reported a lost Spark
            left |= clean(spark, schemas.prefix if options.is_clean else of_rows)
        for name, why in left.items():
            known.note("HW_REVIEW_SCHEMA", _not_dropped(name, why))


def _not_dropped(schema: str, why: str) -> str:
    return f"{schema}, of an earlier review or this one, cannot be dropped: {why}. Drop it by hand"
