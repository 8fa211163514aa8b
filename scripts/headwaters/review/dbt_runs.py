"""dbt's runs in a review, with the nodes of a manifest in schemas that belong to the review.

A manifest names the table of each node. The review moves the nodes that it builds to its schemas.
Materializations, contracts and expectations therefore run as in production.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwaters.platform.dbt_compat import copied, forget_setting
from headwaters.platform.errors import UserError
from headwaters.platform.manifest import run_dbt
from headwaters.platform.project import Project
from headwaters.platform.waiting import during
from headwaters.review.facts import Effort
from headwaters.review.spark import without_values
from headwaters.review.unit_tests import unit_test_difference
from headwaters.tables.ledger import OPS

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

# dbt selects the nodes to build by this tag. Other selection methods also match folders named like
# a node, and would build the nodes of that folder in production.
_CHOSEN = "headwaters.review"


def redirected(
    manifest: Manifest, places: Mapping[str, str], records: str | None = None
) -> Manifest:
    """Return a copy of a manifest with nodes in other schemas, by node id, and without hooks.

    A hook or a `location_root` would write to production. `records` is the schema for the notes of
    runs, such as rows that do not meet an expectation.
    """
    made = copied(manifest)
    if records is not None:
        noted = (key for key in made.sources if key.startswith(OPS))
        places = {**dict.fromkeys(noted, records), **places}
    for key in [key for key, node in made.nodes.items() if str(node.resource_type) == "operation"]:
        del made.nodes[key]
    for test in made.nodes.values():
        if str(test.resource_type) == "test":
            vars(test.config).update(store_failures=False, store_failures_as=None)
    for key, schema in places.items():
        node: Any = made.nodes.get(key) or made.sources.get(key)
        if node is None:
            continue
        if node.relation_name:
            node.relation_name = moved(str(node.relation_name), schema)
        node.schema = schema
        if node.resource_type != "source":
            node.config.pre_hook = []
            node.config.post_hook = []
            node.config.grants = {}
            forget_setting(node.config, "location_root")
    made.build_flat_graph()  # type: ignore[no-untyped-call]  # what macros see as `graph`
    return made


def moved(table: str, schema: str) -> str:
    """Return the name of a table in another schema, quoted in the same way."""
    head, dot, name = table.rpartition(".")
    quote = "`" if head.endswith("`") else ""
    return f"{quote}{schema}{quote}{dot}{name}"


@dataclass(frozen=True)
class BuildOutcome:
    """dbt's result for one node: `message` is its line, `seconds` its duration."""

    status: str
    message: str
    seconds: float
    response: Mapping[str, Any]

    @property
    def is_built(self) -> bool:
        """Return true if the node succeeded."""
        return self.status in ("success", "pass", "warn", "no-op")

    @property
    def effort(self) -> Effort:
        """Return the cost of the run."""
        written = self.response.get("bytes_written")
        return Effort(
            round(self.seconds, 1) if self.is_built else None,
            None if written is None else int(written),
        )

    @property
    def did(self) -> str:
        """Return the action of the run: `skip`, `append`, `merge`, `patch` or `replace`."""
        return str(self.response.get("code") or "")


def told(message: str) -> str:
    """Return dbt's message in one line, without the parts that the comment already shows."""
    plain = _COLOURS.sub("", message)  # dbt colours the output of unit tests
    if difference := unit_test_difference(plain):
        return difference
    text = " ".join(line.strip() for line in plain.splitlines() if not _MORE.search(line))
    return without_values(_WHERE.sub("", " ".join(text.split())))


_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_MORE = re.compile(r"^\s*(?:\(more in .*\)|> in macro .*|> called by .*|compiled code at .*)$")
_WHERE = re.compile(r"^\w+ Error in \w+ \S+ \([^)]*\) ")


@contextlib.contextmanager
def _aside(project: Project) -> Iterator[list[str]]:
    """Yield dbt options that send dbt's files to a temporary folder."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(project.root):
        yield ["--target-path", folder, "--log-path", folder]


def run(
    work: str,
    project: Project,
    manifest: Manifest,
    command: Sequence[str],
    keys: Iterable[str],
    pins: Mapping[str, Any] | None = None,
) -> dict[str, BuildOutcome]:
    """Run dbt over some nodes of a manifest. Return the outcome of each node that ran, by id.

    `work` names it for the user, such as `building head`. Raises UserError if dbt fails before it
    runs the first node.
    """
    chosen = set(keys)
    if not chosen:
        return {}
    for key, node in (*manifest.nodes.items(), *manifest.sources.items()):
        others = [tag for tag in node.tags if tag != _CHOSEN]
        node.tags = [*others, _CHOSEN] if key in chosen else others
    variables = {"headwaters_review": True, **({"headwaters_pins": pins} if pins else {})}
    ended: list[str] = []
    with _aside(project) as options, during(f"{work}: 0 of {len(chosen)} done") as tell:
        # otherwise dbt lists all tables in the schemas of all other nodes, on each run
        options += ["--cache-selected-only"]
        arguments = [*command, "--select", f"tag:{_CHOSEN}", *options]
        arguments += ["--vars", json.dumps(variables)]

        def listen(event: Any) -> None:
            if event.info.name == "NodeFinished":
                ended.append(event.data.node_info.node_name)
                tell(f"{work}: {len(ended)} of {len(chosen)} done, last {ended[-1]}")

        result = run_dbt(project, arguments, manifest, listen)
    if result.exception is not None and result.result is None:
        said = " ".join(str(result.exception).split())
        raise UserError("HW_PROJECT", f"dbt {command[0]} in the review: {said}")
    return {
        one.node.unique_id: BuildOutcome(
            str(one.status),
            told(str(one.message or "")),
            float(one.execution_time),
            dict(one.adapter_response or {}),
        )
        for one in (result.result.results if result.result else ())
    }


BUILD = (
    "build",
    "--resource-type",
    "model",
    "--resource-type",
    "seed",
    "--resource-type",
    "snapshot",
)


def explained(project: Project, manifest: Manifest, model: str) -> str | None:
    """Return the output of `explain_refresh` for a model in production, or None if it is empty."""
    printed: list[str] = []

    def listen(event: Any) -> None:
        if event.info.name == "PrintEvent":
            printed.append(event.info.msg)

    arguments = ["run-operation", "explain_refresh", "--args", json.dumps({"model": model})]
    with _aside(project) as options:
        result = run_dbt(project, [*arguments, *options], manifest, listen)
    return "\n".join(printed) if result.success else None
