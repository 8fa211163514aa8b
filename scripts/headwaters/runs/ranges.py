"""Read the commits of an input since its applied version."""

from __future__ import annotations

from collections.abc import Mapping

from headwaters.runs.inputs import Spec
from headwaters.runs.session import Session
from headwaters.runs.work import read_feeds
from headwaters.tables.commits import Range, range_of
from headwaters.tables.grouping import grouping_of, texts_of


def read_range(
    session: Session, spec: Spec, applied: Mapping[str, int], counts_only: bool = False
) -> Range:
    """Return the changes of an input's table after the commit `applied`, up to its version.

    Without a gap, `columns` of the input are those of its pinned version. With `counts_only`, the
    range tells how many rows changed, by the log alone; nothing can read its rows.
    """
    source, version, is_lookup = spec["source"], spec["version"], spec["kind"] == "lookup"
    connection, macros, after = session.connection, session.macros, applied["version"]
    # the table may have newer commits than the pinned version: read a few more than the range
    commits = []
    if after <= version:
        commits = session.known_history(source, version - after + 20, after, version)
    changes = range_of(source, applied, version, commits)
    if changes.needs_history:
        changes = range_of(source, applied, version, connection.history(source, 100_000))
    # a replacement has rows, so a run that only counts them computes the table again
    decides = not counts_only or changes.columns_altered or changes.doubt
    if decides and changes.needs_columns and (not is_lookup or changes.doubt):
        ends = [changes.after, changes.to]
        changes = changes.with_columns(macros("hw_columns_around", source, changes.replaced, ends))
    if changes.gap:
        return changes
    spec["columns"] = session.columns_at(source, spec)
    if is_lookup or counts_only:
        return changes
    if changes.uncounted:
        feed = str(macros("hw_feed_sql", source, changes.after, changes.to))
        reading = read_feeds(connection, f"select count(*) from {feed}", {source: feed})
        if reading.gap:
            changes = changes.with_gap(reading.gap)
        else:
            changes = changes.with_rows(int(reading.rows[0][0]))
    if changes.gap or changes.rows == 0:
        return changes
    columns = [(column.name, column.dtype) for column in spec["columns"]]
    read = spec.get("read")
    texts = [name for name in texts_of(columns) if not read or name.lower() in read]
    changes = changes.with_texts(texts)
    sums = spec["kind"] == "images" or (spec["kind"] == "changes" and changes.needs_grouping)
    return changes.with_grouping(grouping_of(columns)) if sums else changes
