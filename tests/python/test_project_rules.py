"""Check rules about the project itself in dbt's manifest, so that a reviewer need not.

.sqlfluff has the rules of single SQL files; these are the rules that need the whole project.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from headwaters.lint import STAND_INS

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ["bronze", "silver", "gold", "ops"]

Node = dict[str, Any]


class Manifest:
    """dbt's manifest of a project and of the adapter's macros, without other packages.

    The tables that the adapter's package declares belong to this repository.
    """

    def __init__(self, folder: Path) -> None:
        """Read `folder`/manifest.json."""
        content = json.loads((folder / "manifest.json").read_text())
        self.project: str = content["metadata"]["project_name"]
        everything = {**content["nodes"], **content["sources"]}
        own = [self.project, *["dbt_headwaters"] * (self.project == "headwaters")]  # models/ops
        self.nodes = {
            name: node for name, node in everything.items() if node["package_name"] in own
        }
        macros = {  # by name: a project's own comes before the adapter's
            macro["name"]: macro
            for package in ("dbt_headwaters", self.project)
            for macro in content["macros"].values()
            if macro["package_name"] == package
        }
        self.macros: list[Node] = list(macros.values())

    def of(self, *types: str) -> list[Node]:
        """Return the nodes of these resource types."""
        return [node for node in self.nodes.values() if node["resource_type"] in types]

    @property
    def models(self) -> list[Node]:
        """The models."""
        return self.of("model")

    @property
    def tables(self) -> list[Node]:
        """All tables: sources, seeds, models, snapshots."""
        return self.of("source", "seed", "model", "snapshot")

    @property
    def public_macros(self) -> Iterator[Node]:
        """Public macros: neither the private ones, nor those that dbt asks an adapter for."""
        for macro in self.macros:
            if not macro["name"].startswith(("hw_", "materialization_", "headwaters__")):
                yield macro


def layer(node: Node) -> str | None:
    """Return the folder of models/ that has the node; None for a seed."""
    parts = PurePosixPath(node["original_file_path"]).parts
    return parts[1] if parts[0] == "models" and len(parts) > 2 else None


def as_list(value: str | list[str] | None) -> list[str]:
    """Return a name or a list of names as a list."""
    return [value] if isinstance(value, str) else list(value or [])


def without_comments(sql: str) -> str:
    """Return the SQL of a model without Jinja's and SQL's comments."""
    return re.sub(r"\{#.*?#\}|--[^\n]*|/\*.*?\*/", "", sql, flags=re.DOTALL)


# --- the rules: each yields the nodes that break it -----------------------------------------------


def has_an_owner(manifest: Manifest) -> Iterator[str]:
    """Require an owner for every table: `config.meta.owner`."""
    for node in manifest.tables:
        if not node["config"].get("meta", {}).get("owner"):
            yield f"{node['name']} has no owner: add config.meta.owner to its YAML"


def names_who_answers_at_night(manifest: Manifest) -> Iterator[str]:
    """Require team, contact and audience of every table, as table properties."""
    comms = "catalog.engineering.comms."
    wanted = ["catalog.team_name", f"{comms}slack", f"{comms}email", "catalog.table.classification"]
    for node in manifest.tables:
        config = node["config"]
        declared = {
            **(config.get("tblproperties") or {}),
            **config.get("meta", {}).get("tblproperties", {}),
        }
        missing = [name for name in wanted if not declared.get(name)]
        if missing:
            yield f"{node['name']} has no {', '.join(missing)}: declare it for its layer"


def declares_personal_data(manifest: Manifest) -> Iterator[str]:
    """Require pii of a column whose name has personal data elsewhere: erase depends on it."""
    kinds = {
        column["name"]: column["config"]["meta"]["pii"]
        for node in manifest.tables
        for column in node["columns"].values()
        if (column.get("config") or {}).get("meta", {}).get("pii")
    }
    for node in manifest.tables:
        for name, column in node["columns"].items():
            if name in kinds and not (column.get("config") or {}).get("meta", {}).get("pii"):
                kind = kinds[name]
                yield f"{node['name']}.{name} may hold personal data: config.meta.pii: {kind}"


def says_its_grain(manifest: Manifest) -> Iterator[str]:
    """Require a description to begin with the meaning of one row."""
    for node in manifest.tables:
        if not node["description"].startswith("One row per "):
            yield f"{node['name']} does not say its grain: begin its description with 'One row per'"


def has_a_key_test(manifest: Manifest) -> Iterator[str]:
    """Require a key test for every model and seed; an incremental model's tests its unique_key."""
    keys = {
        "unique": "column_name",
        "unique_combination_of_columns": "combination_of_columns",
    }
    tested: dict[str, list[set[str]]] = {}
    for test in manifest.of("test"):
        metadata = test.get("test_metadata") or {}
        if metadata.get("name") in keys and test.get("attached_node"):
            columns = as_list(metadata["kwargs"].get(keys[metadata["name"]]))
            tested.setdefault(test["attached_node"], []).append({c.strip("`") for c in columns})
    for node in manifest.of("model", "seed"):
        found = tested.get(node["unique_id"], [])
        key = set(as_list(node["config"].get("unique_key")))
        if not found:
            yield f"{node['name']} has no key test: add unique"
        elif key and key not in found and node["config"].get("incremental_strategy") != "history":
            yield f"{node['name']} is not tested for its unique_key ({', '.join(sorted(key))})"


def documents_every_column(manifest: Manifest) -> Iterator[str]:
    """Require a description and a data_type for every column."""
    for node in manifest.tables:
        if not node["columns"]:
            yield f"{node['name']} documents no columns"
        for column in node["columns"].values():
            for key in ("description", "data_type"):
                if not column.get(key):
                    yield f"{node['name']}.{column['name']} has no {key}"


def has_its_yaml_beside_it(manifest: Manifest) -> Iterator[str]:
    """Require `x.sql` to be described in `x.yml` of the same folder."""
    for node in manifest.of("model", "seed"):
        expected = PurePosixPath(node["original_file_path"]).with_suffix(".yml")
        found = (node.get("patch_path") or "nowhere").rpartition("://")[2]
        if found != str(expected):
            yield f"{node['name']} is described in {found}: put it into {expected}"


def looks_down_only(manifest: Manifest) -> Iterator[str]:
    """Require silver to read bronze and gold to read silver, never a layer above."""
    for node in manifest.models:
        place = layer(node)
        if place not in LAYERS[1:]:
            yield f"{node['name']} is in no layer: models live in silver, gold or ops"
            continue
        for parent in node["depends_on"]["nodes"]:
            source = manifest.nodes.get(parent)
            below = layer(source) if source else None
            if source is None or below is None:
                continue
            if LAYERS.index(below) > LAYERS.index(place):
                yield f"{node['name']} ({place}) reads {source['name']} ({below}) above it"
            if place == "gold" and below == "bronze":
                yield f"{node['name']} (gold) reads {source['name']} past silver"


def is_named_for_its_layer(manifest: Manifest) -> Iterator[str]:
    """Require the name `silver_…` for silver models alone: gold has the plain names."""
    for node in manifest.models:
        if (layer(node) == "silver") != node["name"].startswith("silver_"):
            yield f"{node['name']} in {layer(node)}: only silver models begin with silver_"


def is_select_only(manifest: Manifest) -> Iterator[str]:
    """Forbid DDL, session settings and hooks in a model: behaviour is configuration."""
    verbs = "create alter drop insert merge update delete truncate set use optimize vacuum"
    statement = rf"(?im)^\s*({'|'.join(verbs.split())})\s"
    for node in manifest.models:
        for key in ("pre-hook", "post-hook", "sql_header"):
            if node["config"].get(key):
                yield f"{node['name']} has a {key}: put the mechanism into a macro"
        found = re.search(statement, without_comments(node["raw_code"]))
        if found:
            yield f"{node['name']} has a statement besides its select: {found.group().strip()}"


def names_its_columns(manifest: Manifest) -> Iterator[str]:
    """Allow `select *` in import CTEs and at the end; the logic between names its columns."""
    allowed = [
        r"select\s+\*\s+from\s+\{\{",  # an import: with x as (select * from {{ ref('x') }})
        r"select\s+\*\s+from\s+final\s*$",
    ]
    for node in manifest.models:
        sql = without_comments(node["raw_code"])
        for pattern in allowed:
            sql = re.sub(pattern, "", sql, flags=re.IGNORECASE)
        if re.search(r"select\s+\*|\.\*|,\s*\*", sql, flags=re.IGNORECASE):
            yield f"{node['name']} selects * in its logic: name the columns"


def ends_with_final(manifest: Manifest) -> Iterator[str]:
    """Require `select * from final` at the end of a model, the first place to debug."""
    for node in manifest.models:
        if not re.search(r"(?s)\bfinal as \(.*\)\s*select \* from final\s*$", node["raw_code"]):
            yield f"{node['name']} does not end with a CTE final and `select * from final`"


def keeps_one_macro_a_file(manifest: Manifest) -> Iterator[str]:
    """Require one public macro in a file of its name; private ones have the prefix hw_."""
    for macro in manifest.public_macros:
        name = macro["name"].removeprefix("test_")
        stem = PurePosixPath(macro["original_file_path"]).stem
        if name != stem:
            yield f"{name} is in {stem}.sql: give it a file of its own, or begin it with hw_"


def documents_its_macros(manifest: Manifest) -> Iterator[str]:
    """Require a description of every public macro and argument, and a type of arguments."""
    for macro in manifest.public_macros:
        if not macro["description"]:
            yield f"{macro['name']} has no description: add it to a YAML file beside the macro"
            continue
        for argument in macro["arguments"]:
            for key in ("type", "description"):
                if not argument.get(key):
                    yield f"{macro['name']}({argument['name']}) has no {key}"


RULES: list[Callable[[Manifest], Iterable[str]]] = [
    has_an_owner,
    names_who_answers_at_night,
    declares_personal_data,
    says_its_grain,
    has_a_key_test,
    documents_every_column,
    has_its_yaml_beside_it,
    looks_down_only,
    is_named_for_its_layer,
    is_select_only,
    names_its_columns,
    ends_with_final,
    keeps_one_macro_a_file,
    documents_its_macros,
]


# --- the tests ------------------------------------------------------------------------------------


def parse(project: Path, target: Path) -> list[str]:
    """Run `dbt parse` and return its warnings. Needs no Spark."""
    from dbt.cli.main import dbtRunner

    warnings: list[str] = []

    def listen(event: Any) -> None:
        if event.info.level in ("warn", "error"):
            warnings.append(event.info.msg)

    result = dbtRunner(callbacks=[listen]).invoke(
        [
            *("--quiet", "parse", "--no-partial-parse", "--show-all-deprecations"),
            *("--project-dir", str(project), "--profiles-dir", str(ROOT / "profiles")),
            *("--target-path", str(target), "--log-path", str(target)),
        ]
    )
    assert result.success, result.exception
    return warnings


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Manifest, list[str]]:
    """Return this project's manifest, and dbt's warnings."""
    target = tmp_path_factory.mktemp("target")
    warnings = parse(ROOT, target)
    return Manifest(target), warnings


def test_dbt_warns_of_nothing(parsed: tuple[Manifest, list[str]]) -> None:
    assert parsed[1] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_project(parsed: tuple[Manifest, list[str]], rule: Any) -> None:
    assert list(rule(parsed[0])) == []


def test_the_lint_calls_macros_as_they_are(parsed: tuple[Manifest, list[str]]) -> None:
    """Compare headwaters.lint with the macros: other arguments would pass SQL that fails."""
    functions = [
        node
        for node in ast.parse((STAND_INS / "__init__.py").read_text()).body
        if isinstance(node, ast.FunctionDef)
    ]
    macros = {macro["name"]: macro for macro in parsed[0].public_macros}
    assert {f.name: [a.arg for a in f.args.args] for f in functions} == {
        f.name: [a["name"] for a in macros[f.name]["arguments"]] for f in functions
    }


def test_files_of_json_lines_are_cut_by_their_one_helper() -> None:
    """Forbid `str.splitlines`: it cuts at characters that JSON may hold unescaped (U+2028)."""
    cut: list[str] = []
    for folder in ("scripts", "benchmarks"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.FunctionDef):
                    called = {c.attr for c in ast.walk(node) if isinstance(c, ast.Attribute)}
                    if {"splitlines", "loads"} <= called:
                        cut.append(f"{file.relative_to(ROOT)}: {node.name}")
    assert cut == [], "take the lines from headwaters.platform.json_lines"


BAD = {
    "models/bronze/raw.yml": """
sources:
  - name: bronze
    tables:
      - name: raw
        description: One row per thing.
        config:
          tblproperties: {catalog.team_name: us, catalog.engineering.comms.slack: "#us"}
          meta: {owner: me, tblproperties: {catalog.table.classification: public}}
        columns:
          - {name: id, data_type: int, description: The thing., config: {meta: {pii: thing}}}
""",
    "models/gold/good.sql": """
with raw as (
    select * from {{ ref('silver_good') }}
),

-- select * from nowhere
final as (
    select id, 2 * id as two from raw
)

select * from final
""",
    "models/gold/good.yml": """
models:
  - name: good
    description: One row per thing.
    config: {meta: {owner: me}, unique_key: id}
    columns:
      - {name: id, data_type: int, description: The thing., data_tests: [unique]}
""",
    "models/silver/silver_good.sql": "{{ config(post_hook='select 1') }} select 1 as id",
    "models/silver/silver_good.yml": """
models:
  - name: silver_good
    description: All things.
    config: {unique_key: [id, at]}
    columns:
      - {name: id, description: The thing., data_tests: [unique], config: {meta: {pii: none}}}
""",
    "models/silver/plain.sql": """
with a as (
    select * from {{ ref('good') }}
),

final as (
    select a.* from a
)

select * from final
""",
    "models/gold/hasty.sql": """
-- create table x
with final as (
    select * from (select id from {{ source('bronze', 'raw') }})
)

drop table x;
select * from final
""",
    "macros/two.sql": "{% macro two(a) %}{% endmacro %}{% macro three() %}{% endmacro %}",
    "macros/hidden.sql": "{% macro shown() %}{% endmacro %}{% macro hw_hidden() %}{% endmacro %}",
    "macros/macros.yml": """
macros:
  - name: two
    description: Two.
    arguments: [{name: a, description: One of them.}]
  - name: three
    description: Three.
""",
}
NO_YAML = "is described in nowhere: put it into models"


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        (has_an_owner, ["silver_good has no owner", "plain has no owner", "hasty has no owner"]),
        (
            names_who_answers_at_night,
            [
                "raw has no catalog.engineering.comms.email: declare it",
                "good has no catalog.team_name, catalog.engineering.comms.slack, cat",
                "silver_good has no catalog.team_name",
                "plain has no catalog.team_name",
                "hasty has no catalog.team_name",
            ],
        ),
        (declares_personal_data, ["good.id may hold personal data: config.meta.pii: thing"]),
        (says_its_grain, ["silver_good does not say", "plain does not say", "hasty does not say"]),
        (
            has_a_key_test,
            [
                "silver_good is not tested for its unique_key (at, id)",
                "plain has no key test",
                "hasty has no key test",
            ],
        ),
        (
            documents_every_column,
            [
                "silver_good.id has no data_type",
                "plain documents no columns",
                "hasty documents no columns",
            ],
        ),
        (
            has_its_yaml_beside_it,
            [f"plain {NO_YAML}/silver/plain.yml", f"hasty {NO_YAML}/gold/hasty.yml"],
        ),
        (
            looks_down_only,
            ["plain (silver) reads good (gold) above it", "hasty (gold) reads raw past silver"],
        ),
        (is_named_for_its_layer, ["plain in silver"]),
        (is_select_only, ["silver_good has a post-hook", "hasty has a statement besides"]),
        (names_its_columns, ["plain selects *", "hasty selects *"]),
        (ends_with_final, ["silver_good does not end", "hasty does not end"]),
        (keeps_one_macro_a_file, ["three is in two.sql", "shown is in hidden.sql"]),
        (documents_its_macros, ["two(a) has no type", "shown has no description"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_rule_finds_what_breaks_it(bad: Manifest, rule: Any, broken: list[str]) -> None:
    found = list(rule(bad))
    assert len(found) == len(broken), found
    for start in broken:
        assert any(message.startswith(start) for message in found), (start, found)


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Return the manifest of a project that breaks every rule."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "dbt_project.yml").write_text("name: bad\nversion: 1.0.0\nprofile: headwaters\n")
    for name, text in BAD.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    parse(folder, folder / "target")
    manifest = Manifest(folder / "target")
    shutil.rmtree(folder)
    return manifest


def test_ci_runs_actions_by_commit() -> None:
    """Require commits for actions, since a tag can move to other code."""
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        used = re.findall(r"uses: *(\S+)(.*)", workflow.read_text())
        assert used
        for action, comment in used:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), f"{action} names no release"
