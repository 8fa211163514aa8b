"""Build a stranger's small project in a git repository, and branches of it to review."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from projects import run_dbt

ROOT = Path(__file__).resolve().parents[3]

FILES = {
    ".gitignore": "target/\nlogs/\nprofiles\nproject_macros\nreview/\n",
    "models/raw.yml": """
sources:
  - name: raw
    schema: "{{ target.schema }}_raw"
    tables: [{name: orders}, {name: customers}]
""",
    "models/silver/orders.sql": """
{{ config(incremental_strategy='change_feed', unique_key='id') }}
select id, customer, amount, amount * 2 as twice
from {{ changes(source('raw', 'orders')) }}
where amount > 0
""",
    "models/silver/orders.yml": """
models:
  - name: orders
    config: {meta: {expectations: [{name: small, expression: amount < 50, on_failure: warn}]}}
    columns:
      - {name: id, data_tests: [not_null]}
      - {name: customer, config: {meta: {pii: customer}}}
""",
    # in a folder with the name of a model
    "models/silver/orders/late.sql": """
{{ config(materialized='table') }}
select 1 as one
""",
    "models/silver/kinds.sql": """
{{ config(incremental_strategy='auto') }}
select orders.id, regions.region
from {{ source('raw', 'orders') }} as orders
left join {{ ref('regions') }} as regions on orders.customer = regions.customer
""",
    "models/silver/plain.sql": """
{{ config(materialized='table') }}
select customer, {{ doubled('amount') }} as amount from {{ ref('orders') }}
""",
    "models/gold/totals.sql": """
{{ config(incremental_strategy='affected_keys', unique_key='customer') }}
select customer, count(*) as orders, sum(amount) as amount
from {{ affected(ref('orders'), key='customer') }}
group by customer
""",
    "models/gold/totals.yml": """
models:
  - name: totals
    columns:
      - {name: customer, data_type: string, config: {meta: {pii: customer}}}
      - {name: orders, data_type: bigint}
      - {name: amount, data_type: bigint}
exposures:
  - name: board
    type: dashboard
    owner: {name: shop, email: shop@example.com}
    depends_on: [ref('totals')]
""",
    "macros/doubled.sql": "{% macro doubled(column) %}{{ column }} * 2{% endmacro %}\n",
    "seeds/regions.csv": "customer,region\nann,north\nbob,south\n",
}


def _part(number: int) -> str:
    """Return one of a tree of models: the first 15 are incremental, and the others read them.

    The last 20 call a macro, and each run computes half of them.
    """
    is_followed = number < 15 or number % 2
    kind = "incremental_strategy='auto'" if is_followed else "materialized='table'"
    above = (number - 1) // 2 if number < 15 else number % 15
    source = f"ref('part_{above}')" if number else "source('raw', 'customers')"
    value = f"{{{{ numbered({number}) }}}}" if number >= 25 else str(number)
    return f"{{{{ config({kind}) }}}}\nselect customer, {value} as part from {{{{ {source} }}}}\n"


# The rest of the 50 models: the review has to find a change among many.
GENERATED = {
    "macros/numbered.sql": "{% macro numbered(number) %}{{ number }}{% endmacro %}\n",
    **{f"models/silver/generated/part_{number}.sql": _part(number) for number in range(45)},
}


@dataclass
class Shop:
    """The project in `folder`; the schemas of production begin with `schema`."""

    folder: Path
    schema: str
    spark: Any
    written: dict[str, str] = field(default_factory=dict)

    def build(self, folder: Path, files: Mapping[str, str] = FILES) -> None:
        """Create the project, build production, and run it once more; dbt writes to `folder`."""
        self.found(files)
        self._open()
        run_dbt(folder, "build", project_dir=self.folder, schema=self.schema)
        self.order("(7, 'ann', 70)")
        again = ("run", "--select", "orders", "kinds", "plain", "totals")
        run_dbt(folder, *again, project_dir=self.folder, schema=self.schema)

    def _open(self) -> None:
        """Create the tables that its sources read."""
        raw = f"{self.schema}_raw"
        feed = "tblproperties ('delta.enableChangeDataFeed' = 'true')"
        self.spark.sql(f"create schema {raw}")
        self.spark.sql(
            f"create table {raw}.orders (id int, customer string, amount int) using delta {feed}"
        )
        self.spark.sql(f"create table {raw}.customers (customer string) using delta {feed}")
        self.spark.sql(f"insert into {raw}.customers values ('ann'), ('bob'), (null)")
        self.order("(1, 'ann', 10), (2, 'bob', 20), (3, 'ann', 30), (4, null, 40), (5, 'cyd', 0)")
        self.order("(6, 'bob', 60)")

    def found(self, files: Mapping[str, str] = FILES) -> None:
        """Create the repository with its first commit."""
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.email", "shop@example.com")
        self.git("config", "user.name", "shop")
        settings = (self.folder / "dbt_project.yml").read_text()
        (self.folder / "dbt_project.yml").write_text(
            settings.replace(
                "macro-paths: [project_macros]", "macro-paths: [project_macros, macros]"
            )
        )
        self.commit(files, "the shop")

    def order(self, rows: str) -> None:
        """Insert orders."""
        self.spark.sql(f"insert into {self.schema}_raw.orders values {rows}")

    def git(self, *arguments: str) -> str:
        """Run git in the repository."""
        done = subprocess.run(
            ["git", "-C", str(self.folder), *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str | None], message: str) -> None:
        """Write files, remove those that are None, and commit."""
        for name, text in files.items():
            path = self.folder / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-qm", message)

    def branch(self, name: str, edits: Mapping[str, tuple[str, str] | str | None]) -> None:
        """Branch off `main` with a commit that replaces a text in files, or whole files."""
        self.git("checkout", "-q", "--force", "main")
        self.git("checkout", "-q", "-B", name)
        files: dict[str, str | None] = {}
        for file, edit in edits.items():
            if isinstance(edit, tuple):
                text = (self.folder / file).read_text()
                assert text.count(edit[0]) == 1
                files[file] = text.replace(*edit)
            else:
                files[file] = edit
        self.commit(files, name)

    def state(self) -> dict[str, Any]:
        """Return production's schemas, and each table's version, properties and files."""
        names = [row[0] for row in self.spark.sql("show schemas").collect()]
        found: dict[str, Any] = {"schemas": [one for one in names if "review_" not in one]}
        for (name,) in self.spark.sql(f"show schemas like '{self.schema}*'").collect():
            for table in self.spark.sql(f"show tables in {name}").collect():
                full = f"{name}.{table['tableName']}"
                detail = self.spark.sql(f"describe detail {full}").collect()[0].asDict()
                folder = Path(str(detail["location"]).removeprefix("file:"))
                detail["files"] = sorted(str(path) for path in folder.rglob("*"))
                found[full] = detail
        return found


def facts(folder: Path) -> dict[str, Any]:
    """Return a review's result, with its models by name."""
    found: dict[str, Any] = json.loads((folder / "review.json").read_text())
    found["models"] = {model["name"]: model for model in found["models"]}
    return found
