"""The inputs at their newest versions, also through views.

A view has no versions and no changes, but its tables do. The query replaces the view, with its
tables marked: one in changes(), any number in lookup(). The other macros name or add columns of
their input, which a view may rename or omit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headwaters.analysis import with_relations
from headwaters.platform.errors import UserError
from headwaters.runs import view_definitions
from headwaters.runs.inputs import marked
from headwaters.runs.session import Session
from headwaters.runs.view_definitions import OtherSetting, View


def pinned(session: Session, kind: str, source: str, options: Mapping[str, Any]) -> str:
    """Return the input at its newest version, with its marker."""
    newest = session.newest_version(kind, source)
    if newest:
        return marked({**options, "kind": kind, "source": source, **newest})
    view = view_of(session, kind, source)
    texts = {name: pinned(session, kind, name, {}) for name in dict.fromkeys(view.relations)}
    return text_of_view(source, view, texts)


def text_of_view(source: str, view: View, replacements: Mapping[str, str]) -> str:
    """Return the query that replaces a view, with its own relations replaced."""
    comment = f"/* view {json.dumps({'source': source})} */"
    return f"{comment} {with_relations(view.text, replacements)}"


def view_of(session: Session, kind: str, source: str) -> View:
    """Return a readable view; `kind` is the input macro, or auto.

    Raises:
        UserError: its query, in the session of the run, may give other rows or columns.
    """
    connection = session.connection
    described = connection.fetch(f"describe extended {source} as json")[0][0]
    view = view_definitions.view(described)
    obstacle = view.obstacle
    if not obstacle and kind == "changes" and len(view.relations) > 1:
        obstacle = "reads more than one table"
    if obstacle or kind not in ("changes", "lookup", "auto"):
        why = f" that {obstacle}" if obstacle else ""
        raise UserError(
            "HW_VIEW_AS_INPUT",
            f"{kind}(): {source} is a view{why}, which has no changes of its own. Make it an "
            f"ephemeral model with {kind}() around what it reads, or a table that is maintained "
            "incrementally.",
        )
    _check_view(session, f"{kind}(): {source} is a view ", source, view)
    return view


def _check_view(session: Session, where: str, source: str, view: View) -> None:
    """Refuse a view that Spark evaluates differently. Runs a statement for columns."""
    others = session.other_settings(view.settings)
    if others and not _is_the_same_under(session, view, others):
        names = ", ".join(map(str, others))
        raise UserError(
            "HW_VIEW_SETTINGS",
            f"{where}that Spark evaluates with {names}. Create it again in a session with the "
            "settings of the run, or make it an ephemeral model.",
        )
    function = session.other_function(view)
    if function:
        raise UserError(
            "HW_VIEW_AS_INPUT",
            f"{where}that calls a function without its schema, which is {function} in the run and "
            "another one in the view. Create the view again with the schema before the function, "
            "or make it an ephemeral model.",
        )
    both = f"select one.*, other.* from {source} as one cross join {view.text} as other"
    difference = view_definitions.other_columns(
        session.macros("get_column_schema_from_query", both)
    )
    if difference:
        raise UserError(
            "HW_VIEW_COLUMNS",
            f"{where}that has {difference}: Spark casts what has changed since it was created. "
            "Create it again, or make it an ephemeral model.",
        )


def _is_the_same_under(session: Session, view: View, others: Sequence[OtherSetting]) -> bool:
    """Return true if a query computes nothing that these settings could change.

    It only selects columns, and Spark casts nothing to compare them.
    """
    if not view_definitions.are_of_expressions(others):
        return False
    from headwaters.analysis import columns_alone

    content = columns_alone(view.text)
    if content == "conditions":
        explained = session.connection.fetch(f"explain extended select * from {view.text}")[0][0]
        return not view_definitions.has_casts(explained)
    return content == "columns"
