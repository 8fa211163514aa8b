"""The internals of dbt that headwaters uses, and that a new version of dbt may change.

An import of this imports dbt, which takes two seconds, so commands import it on demand. Overridden
methods of dbt-spark are in dbt/adapters/headwaters. CONTRIBUTING has the recipe for a new version.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy, deepcopy
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from dbt.artifacts.resources.v1.config import ContractConfig
from dbt.artifacts.resources.v1.model import ModelConfig
from dbt.artifacts.resources.v1.seed import SeedConfig
from dbt.artifacts.resources.v1.snapshot import SnapshotConfig, SnapshotMetaColumnNames
from dbt.artifacts.resources.v1.source_definition import SourceConfig
from dbt.config.profile import Profile, read_profile
from dbt.config.project import load_raw_project
from dbt.config.renderer import ProfileRenderer
from dbt.contracts.graph import unparsed
from dbt.exceptions import TargetNotFoundError
from dbt_common.clients.jinja import get_environment
from dbt_common.context import set_invocation_context
from dbt_common.contracts.config.base import BaseConfig
from dbt_common.dataclass_schema import ValidationError
from dbt_common.exceptions import CompilationError, DbtBaseException
from jinja2 import Environment

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

# The errors of dbt about profiles and targets.
PROFILE_ERRORS = (DbtBaseException, ValidationError)
# The message for a model that queries the warehouse while dbt compiles it without a connection.
NO_CONNECTION = "connection never acquired"

_Method = TypeVar("_Method", bound=Callable[..., Any])


def text_of_error(error: BaseException) -> str:
    """Return the text of a profile's error in one line."""
    text = error.message if isinstance(error, ValidationError) else str(error)
    return " ".join(text.split())


@dataclass(frozen=True)
class UnknownName:
    """A name in the `ref` or `source` of a file of the project, that nothing has."""

    file: str
    kind: Literal["ref", "source"]
    name: str


@dataclass(frozen=True)
class RenderedTarget:
    """A target of a profile: the profile's name, the target's name, and its rendered keys.

    `settings` is None if the file has no such profile.
    """

    profile: str
    name: str
    settings: Mapping[str, Any] | None


def rendered_target(root: Path, folder: Path, target: str | None) -> RenderedTarget:
    """Return a target of the profile that the project in `root` names, from profiles.yml.

    `target` defaults to the profile's own. Raise one of `PROFILE_ERRORS` if dbt cannot read it.
    """
    renderer, name, profile = _profile_of(root, folder)
    if not isinstance(profile, dict):
        return RenderedTarget(name, "", None)
    chosen, settings = Profile.render_profile(profile, name, target, renderer)
    return RenderedTarget(name, chosen, settings)


def targets_with_own_spark(root: Path, folder: Path) -> list[str]:
    """Return the project's targets of `type: headwaters` whose Spark runs in the process."""
    _, _, profile = _profile_of(root, folder)
    return [
        target
        for target, given in (profile.get("outputs") or {}).items()
        if isinstance(given, dict)
        and given.get("type") == "headwaters"
        and given.get("method", "session") == "session"
        and "spark.remote" not in (given.get("server_side_parameters") or {})
    ]


def _profile_of(root: Path, folder: Path) -> tuple[ProfileRenderer, str, Any]:
    """Return dbt's renderer, the name of the project's profile, and the unrendered profile.

    The latter is None if the file does not have it.
    """
    set_invocation_context(dict(os.environ))
    renderer = ProfileRenderer({})
    name = renderer.render_value(load_raw_project(str(root)).get("profile"))
    return renderer, name, read_profile(str(folder)).get(Profile.pick_profile_name(None, name))


def merge_levels_of(names: Iterable[str]) -> None:
    """Merge these settings of all levels of config, as dbt merges `meta`.

    dbt has no hook for merging the SQL and the YAML of one model.
    """
    merged = BaseConfig.mergebehavior["update"]
    merged.extend(name for name in names if name not in merged)


def show_type_of_target(adapter: str, shown: str) -> None:
    """Let `target.type` be another one than the adapter's, in macros and in project files."""
    dict_of = Profile.to_target_dict

    def to_target_dict(profile: Profile) -> dict[str, Any]:
        target = dict_of(profile)
        return target | {"type": shown} if target["type"] == adapter else target

    setattr(Profile, "to_target_dict", to_target_dict)  # noqa: B010 - mypy refuses the assignment


def compiled(context: Mapping[str, Any], unique_id: str) -> str:
    """Return the SQL of a node as `dbt run` compiles it, in the context of another macro."""
    from dbt.compilation import Compiler  # slow to import

    ref = context["builtins"]["ref"]
    node = deepcopy(ref.manifest.nodes[unique_id])
    flags = copy(context["flags"])
    flags.WHICH = "run"
    compiler = Compiler(ref.config)
    done = compiler.compile_node(node, ref.manifest, {"flags": flags}, write=False)
    return str(done.compiled_code)


def context_of(context: Mapping[str, Any], unique_id: str) -> dict[str, Any]:
    """Return the context of a run of a node, from that of another macro."""
    from dbt.context.providers import generate_runtime_model_context  # slow to import

    ref = context["builtins"]["ref"]
    node = ref.manifest.nodes[unique_id]
    return generate_runtime_model_context(node, ref.config, ref.manifest)


def forget_setting(config: Any, name: str) -> None:
    """Remove a setting from a node's config, which may be of an adapter."""
    getattr(config, "_extra", {}).pop(name, None)
    if hasattr(config, name):
        setattr(config, name, None)


def offer_to_macros(adapter: Any, names: Iterable[str]) -> None:
    """Let macros use attributes of an adapter's class, also while dbt parses."""
    adapter._available_ |= frozenset(names)


def as_hook(method: _Method) -> _Method:
    """Mark a method of a plugin as a hook; otherwise dbt puts its name before its errors."""
    setattr(method, "is_dbt_hook", True)  # noqa: B010 - mypy knows no such field
    return method


def explain_unknown_names(explain: Callable[[Manifest, UnknownName], str | None]) -> None:
    """Let an unknown `ref()` or `source()` have another message; dbt has no hook for it."""
    from dbt.parser import manifest as parser  # slow to import

    for name in ("_process_refs", "_process_sources_for_node"):
        setattr(parser, name, _explaining(getattr(parser, name), explain))


def _explaining(process: Callable[..., None], explain: Callable[..., str | None]) -> Any:
    @wraps(process)
    def explaining(manifest: Manifest, project: str, node: Any, *more: Any) -> None:
        try:
            process(manifest, project, node, *more)
        except TargetNotFoundError as error:
            kind: Literal["ref", "source"] = "source" if error.target_kind == "source" else "ref"
            name = UnknownName(node.original_file_path, kind, error.target_name)
            text = None if error.disabled or error.target_package else explain(manifest, name)
            if text is None:
                raise
            raise CompilationError(text) from None

    return explaining


def name_models_with_wrong_config() -> None:
    """Let a config that dbt refuses, such as a contract's, end in one line and not in a trace."""
    from dbt.parser.base import ConfiguredParser  # slow to import

    make: Any = ConfiguredParser._create_parsetime_node
    update: Any = ConfiguredParser.update_parsed_node_config

    @wraps(make)
    def making(self: Any, block: Any, *more: Any, **options: Any) -> Any:
        try:
            return make(self, block, *more, **options)
        except ValidationError as error:  # a model's own config is not read yet
            place = f"dbt_project.yml, for {block.path.original_file_path}"
            raise CompilationError(f"{place}: {text_of_error(error)}") from None

    @wraps(update)
    def updating(self: Any, node: Any, *more: Any, **options: Any) -> None:
        try:
            update(self, node, *more, **options)
        except ValidationError as error:
            place = f"{node.name} ({node.original_file_path})"
            raise CompilationError(f"{place}: {text_of_error(error)}") from None

    setattr(ConfiguredParser, make.__name__, making)
    setattr(ConfiguredParser, update.__name__, updating)


def let_runs_name_missing_columns() -> None:
    """Let an entry in YAML have no columns, as if there were none: the model's run prints them.

    dbt refuses the contract of such an entry, and says that constraints are missing.
    """
    from dbt.parser.schemas import ModelPatchParser  # slow to import

    validate: Any = ModelPatchParser._validate_constraint_prerequisites

    @wraps(validate)
    def validating(self: Any, node: Any) -> None:
        is_ours = self.root_project.credentials.type == "headwaters"
        if node.columns or node.constraints or not is_ours:
            validate(self, node)

    setattr(ModelPatchParser, validate.__name__, validating)


def config_fields(kind: str) -> frozenset[str]:
    """Return the settings in the config of a `model`, `seed`, `snapshot` or `source`."""
    from dbt.adapters.spark.impl import SparkConfig  # slow to import

    of_dbt = {"model": ModelConfig, "seed": SeedConfig, "snapshot": SnapshotConfig}
    if kind == "source":
        return _fields(SourceConfig)
    return _fields(of_dbt[kind]) | _fields(SparkConfig)


def part_fields(setting: str) -> frozenset[str]:
    """Return the keys of a setting that is a mapping."""
    of_dbt = {
        "contract": ContractConfig,
        "snapshot_meta_column_names": SnapshotMetaColumnNames,
    }
    return _fields(of_dbt[setting])


def entry_fields(section: str) -> frozenset[str]:
    """Return the properties of an entry in YAML.

    `section` is `models`, `seeds`, `sources`, `tables` or `columns`.
    """
    of_dbt = {
        "columns": unparsed.UnparsedColumn,
        "models": unparsed.UnparsedModelUpdate,
        "sources": unparsed.UnparsedSourceDefinition,
        "tables": unparsed.UnparsedSourceTableDefinition,
    }
    return _fields(of_dbt.get(section, unparsed.UnparsedNodeUpdate))


def _fields(of_dbt: Any) -> frozenset[str]:
    """Return the names of a dataclass, with their other spellings (`pre-hook`)."""
    found = [field for field in fields(of_dbt) if not field.name.startswith("_")]
    aliases = {field.metadata["alias"] for field in found if "alias" in field.metadata}
    return frozenset(field.name for field in found) | aliases


def spark_session(connections: Any) -> Any:
    """Return the Spark session behind the connections of dbt-spark."""
    _, cursor = connections.add_query("select 1")
    return cursor._cursor._df.sparkSession


def jinja_environment() -> Environment:
    """Return dbt's environment for templates."""
    environment: Environment = get_environment()
    return environment


def copied(manifest: Manifest) -> Manifest:
    """Return a copy of a manifest; dbt's own method fails on disabled nodes."""
    return deepcopy(manifest)


# True while headwaters runs dbt.
_IS_OURS: ContextVar[bool] = ContextVar("_IS_OURS", default=False)


def run(
    arguments: Sequence[str], manifest: Any = None, listen: Callable[[Any], None] | None = None
) -> Any:
    """Run dbt in this process, over a given or parsed manifest; return its result."""
    from dbt.cli.main import dbtRunner

    runner = dbtRunner(manifest=manifest, callbacks=[listen] if listen else [])
    token = _IS_OURS.set(True)
    try:
        return runner.invoke(list(arguments))
    finally:
        _IS_OURS.reset(token)


def only_reads_the_project() -> bool:
    """Return true in a user's command that registers no streams, such as `dbt parse`."""
    from dbt.flags import get_flags

    flags: Any = get_flags()  # type: ignore[no-untyped-call]
    return not _IS_OURS.get() and flags.WHICH in ("parse", "compile", "list")


@contextmanager
def one_moment() -> Iterator[None]:
    """Give all dbt commands inside one `run_started_at` and one `invocation_id` in SQL.

    dbt's own records, and what the adapter keeps by invocation, have an id for each command.
    """
    from dbt import tracking
    from dbt.cli import requires
    from dbt.context import base

    started, invocation = datetime.now(UTC), str(uuid.uuid4())
    commands, contexts = vars(requires), vars(base)
    initialize, get_id = commands["initialize_from_flags"], contexts["get_invocation_id"]

    def initialize_at(*arguments: Any) -> None:
        initialize(*arguments)
        if tracking.active_user is not None:
            tracking.active_user.run_started_at = started

    commands["initialize_from_flags"] = initialize_at
    contexts["get_invocation_id"] = lambda: invocation
    try:
        yield
    finally:
        commands["initialize_from_flags"] = initialize
        contexts["get_invocation_id"] = get_id
