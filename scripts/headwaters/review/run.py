"""One review, from its first step to its last; each step is a module with a typed result.

What changed (`changes`), both sides over the same inputs (`build_sides`), the difference of their
rows (`compare_sides`), their tests (`data_tests`), the proof of the incremental path (`proof`,
`maintenance`), the costs (`next_runs`, `costs`), the facts of each model (`models`), the verdict
(`verdict`), the comment and the page (`markdown`, `page`).
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dbt_common.exceptions import DbtRuntimeError

from headwaters.platform import atomic_write, engine
from headwaters.platform.dbt_compat import copied, one_moment
from headwaters.platform.errors import CodedError, WorkError, first_line, refused_file
from headwaters.platform.manifest import selected
from headwaters.platform.project import Project
from headwaters.platform.waiting import during
from headwaters.report.pages.texts import number
from headwaters.review import changes as changing
from headwaters.review import markdown, page
from headwaters.review.build_sides import BothSides
from headwaters.review.changes import Changes
from headwaters.review.checkout import changed_files, checked_out, revisions, slug
from headwaters.review.compare_sides import Comparison
from headwaters.review.data_tests import failed_tests
from headwaters.review.facts import Review
from headwaters.review.lint import new_findings
from headwaters.review.local_places import places_of, without_places
from headwaters.review.maintenance import lost_maintenance
from headwaters.review.models import model_of, moments
from headwaters.review.next_runs import next_runs, past_runs
from headwaters.review.proof import prove
from headwaters.review.results import Results
from headwaters.review.schemas import KEPT, Schemas, clean
from headwaters.review.sides import HeadRefused, Side, built_nodes, read_sides
from headwaters.review.spark import Spark
from headwaters.review.verdict import verdict

Say = Callable[[str], None]
_FILES = ("review.md", markdown.PAGE, "review.json")
# said once: a start takes a quarter of a minute at most
_STARTING = "starting Spark; `headwaters engine start` keeps one running for later reviews"


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
    test, a contract, a policy or the proof fails, if the branch does not parse, or if no rows could
    be compared. Raises UserError if the base does not exist or does not parse.
    """
    began = time.monotonic()
    before, after = revisions(project, options.base, out)
    results = Results()
    with (
        _on_engine(project, say) as project,
        checked_out(project, before.commit) as base,
        one_moment(),
    ):
        made = Review(before, after, ())
        try:
            made = _reviewed(project, base, out, options, made, results, say)
        except HeadRefused as error:
            made = replace(made, does_not_parse=str(error))
        made = without_places(made, places_of(project.root, base.root, project.local))
    made = replace(made, seconds=round(time.monotonic() - began, 1))
    # printed first, so that the user sees it even if the files cannot be written
    for line in (verdict(made).text, *summary(made), *made.notes):
        say(line)
    previous = _write(made, out)
    if previous:
        say(f"the review before is in {previous}")
    say(f"written to {out}: {', '.join(_FILES)}")
    is_unknown = any(m.why_not for m in made.models) and not any(m.difference for m in made.models)
    return 1 if results.problem or verdict(made).fails or is_unknown else 0


@contextlib.contextmanager
def _on_engine(project: Project, say: Say) -> Iterator[Project]:
    """Yield the project, on the engine of its lake if that runs and the target names no Spark."""
    credentials = project.credentials
    is_embedded = "spark.remote" not in credentials.server_side_parameters
    if credentials.method != "session" or not is_embedded or engine.find(project.local) is None:
        yield project
        return
    say("using the engine of this lake")
    with engine.used(project.local):
        yield replace(project)  # which reads its target again


def _reviewed(
    project: Project,
    base_project: Project,
    out: Path,
    options: ReviewOptions,
    review: Review,
    results: Results,
    say: Say,
) -> Review:
    """Return a review of these revisions with all facts. Raises HeadRefused."""
    before, after = review.base, review.head
    schemas = Schemas(slug(after.branch, after.commit))
    base, head = read_sides(project, base_project)
    found = changing.changes(base, head)
    if options.select:
        found = _selected(found, base, head, options.select)
    if changing.operations(base) != changing.operations(head):
        results.note(
            "HW_REVIEW_HOOKS",
            "on-run-start or on-run-end differs, and a review runs no hooks. Run them by hand",
        )
    if after.is_dirty:
        results.note(
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
        if found.needs_spark:
            say(f"reviewing {len(found.order)} of {sum(1 for _ in built_nodes(head))} tables")
        if found.needs_spark or options.is_clean:
            try:
                _compare(base, head, found, schemas, results, options)
            except (DbtRuntimeError, CodedError, OSError) as error:
                results.problem = _problem(error)
                results.notes.append(f"rows were not compared: {results.problem}")
            results.moments = moments(head, found, results)
        linted = linting.result()
    if linted.problem:
        results.note("HW_REVIEW_LINT", linted.problem)
    models = [model_of(key, base, head, found, results, linted) for key in found.order]
    return replace(
        review,
        models=tuple(models),
        edges=found.edges,
        exposures=found.exposures,
        not_compared=(*found.not_compared, *_of_files(outside)),
        notes=tuple(results.notes),
    )


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


def write(made: Review, out: Path) -> Path | None:
    """Write the facts (`review.json`), the comment (`review.md`) and the page (`review.html`).

    Returns the folder that then has the files of an earlier review in `out`, or None without any.
    """
    out.mkdir(parents=True, exist_ok=True)
    previous = out / "previous"
    if earlier := [out / name for name in _FILES if (out / name).is_file()]:
        previous.mkdir(exist_ok=True)
        for file in earlier:
            file.replace(previous / file.name)
    facts = json.dumps(asdict(made), indent=1, ensure_ascii=False)
    atomic_write.write(out / "review.json", facts + "\n")
    atomic_write.write(out / "review.md", markdown.render(made))
    atomic_write.write(out / markdown.PAGE, page.render(made))
    return previous if earlier else None


def _write(made: Review, out: Path) -> Path | None:
    try:
        return write(made, out)
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
            is_said = f"rows were {model.why_not}" in made.notes
            said = "not compared" if is_said else model.why_not or "not compared"
        lines.append(f"{model.relation} ({', '.join(model.causes)}): {said}")
        if stays := model.stays:
            how = f": {stays.how}" if stays.differing is None else ""
            lines.append(f"  {stays.result}{how}")
        lines += [f"  {one.kind}: {one.text}" for one in model.findings if one.fails]
    return lines


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
        tested=tuple(key for key in found.tested if key in kept),
    )


def _files(found: Changes, *sides: Side) -> list[str]:
    files = {
        str(side.nodes[key]["original_file_path"])
        for key in found.changed
        for side in sides
        if key in side.nodes and side.nodes[key]["resource_type"] == "model"
    }
    return sorted(files)


def _is_view(side: Side, key: str) -> bool:
    return bool(side.nodes[key]["config"].get("materialized") == "view")


def _compare(
    base: Side,
    head: Side,
    found: Changes,
    schemas: Schemas,
    results: Results,
    options: ReviewOptions,
) -> None:
    spark = Spark(head.project)
    with during("connecting to Spark" if spark.is_remote else _STARTING, every=600.0):
        left = clean(spark, schemas.prefix, KEPT)
    if own := [name for name in left if name.startswith(schemas.prefix)]:
        raise WorkError("HW_REVIEW_SCHEMA", _not_dropped(own[0], left[own[0]]))
    try:
        if found.needs_spark:
            _run_steps(
                BothSides(spark, schemas, (base, head), found, results.note), results, options
            )
    finally:
        # differing rows contain unmasked values, and must not stay queryable
        of_rows = f"{schemas.prefix}difference_"
        with contextlib.suppress(DbtRuntimeError):  # the review has already reported a lost Spark
            left |= clean(spark, schemas.prefix if options.is_clean else of_rows)
        for name, why in left.items():
            results.note("HW_REVIEW_SCHEMA", _not_dropped(name, why))


def _run_steps(sides: BothSides, results: Results, options: ReviewOptions) -> None:
    """Run the steps in order: build and compare both sides, test, prove, predict the costs."""
    comparison = Comparison(sides, options.largest)
    results.before, results.after = sides.base.outcomes, sides.head.outcomes
    results.rows = comparison.rows
    results.pinned = sides.pin_inputs()
    _build(sides, comparison)
    results.tests = failed_tests(sides)
    results.proofs.update(prove(comparison))
    results.next_runs.update(next_runs(sides))
    results.maintenance.update(lost_maintenance(sides))
    results.past.update(past_runs(sides, comparison.rows))


def _build(sides: BothSides, comparison: Comparison) -> None:
    """Build the base, then the branch in two steps, and compare each table once both have it."""
    base, head, roots = sides.base, sides.head, sides.roots
    sides.prepare_inputs()
    sides.build(base, base.keys)
    sides.build(head, roots)
    comparison.compare(roots)
    if below := [key for key in head.keys if key not in roots]:
        for key in roots:
            comparison.patch(key)
        sides.build(head, sides.possible(below))
        comparison.compare(below)
    comparison.compare(base.keys)  # tables that the branch removed


def _not_dropped(schema: str, why: str) -> str:
    return f"{schema}, of an earlier review or this one, cannot be dropped: {why}. Drop it by hand"
