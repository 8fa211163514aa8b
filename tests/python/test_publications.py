"""Test the publications of exposures, and the message for each wrong one. Reads no table."""

from __future__ import annotations

from typing import Any

import pytest

from headwaters.platform.kafka_settings import Reference
from headwaters.platform.problems import Problem
from headwaters.tables.publications import (
    Publication,
    ToKafka,
    ToPostgres,
    postgres_type,
    publication_problems,
    publications,
)

FILE = "models/exposures.yml"
POSTGRES = {"from": "gold.value", "to": "postgres", "table": "shop.value"}
KAFKA = {"from": "value", "to": "kafka", "topic": "value"}


def model(name: str = "value", columns: dict[str, str] | None = None, **config: Any) -> Any:
    config = {"materialized": "incremental", "unique_key": "id", "schema": "gold"} | config
    return {
        "resource_type": "model",
        "name": name,
        "alias": name,
        "schema": "main_gold",
        "config": config,
        "columns": {
            one: {"name": one, "data_type": kind}
            for one, kind in (columns or {"id": "bigint", "amount": "decimal(8, 2)"}).items()
        },
    }


def exposure(*declared: Any, name: str = "shop", plain: bool = False) -> Any:
    meta = {"publish": list(declared) if len(declared) != 1 else declared[0]}
    return {
        "original_file_path": FILE,
        "name": name,
        "depends_on": {"nodes": ["model.p.value", "model.p.view", "source.p.bronze.s"]},
        "meta": meta if plain else {},
        "config": {"meta": {} if plain else meta},
    }


def found(*declared: Any, **of_model: Any) -> list[Publication | Problem]:
    nodes = {
        "model.p.value": model(**of_model),
        "model.p.view": model("a_view", materialized="view"),
    }
    return publications(exposure(*declared), nodes)


def problem(declared: Any, **of_model: Any) -> str:
    (one,) = found(declared, **of_model)
    assert isinstance(one, Problem), one
    return str(one)


def test_a_publication_has_the_table_and_key_of_its_model() -> None:
    one, other = found(POSTGRES, KAFKA | {"bootstrap_servers": "b:1"}, unique_key=["id", "day"])
    common = {"exposure": "shop", "file": FILE, "schema_name": "main_gold", "table": "value"}
    to_postgres = ToPostgres.model_validate(POSTGRES)
    to_kafka = ToKafka.model_validate(KAFKA | {"bootstrap_servers": "b:1"})
    assert one == Publication(**common, key=("id", "day"), target=to_postgres)
    assert other == Publication(**common, key=("id", "day"), target=to_kafka)
    assert to_postgres.connection == Reference(env="HEADWATERS_POSTGRES")
    assert isinstance(one, Publication) and one.name == "shop → PostgreSQL shop.value"
    assert isinstance(other, Publication) and other.name == "shop → topic value"


def test_meta_of_the_exposure_itself_is_read_as_well() -> None:
    declared = exposure(KAFKA, plain=True)
    (one,) = publications(declared, {"model.p.value": model()})
    assert isinstance(one, Publication)


def test_an_exposure_that_publishes_nothing_has_no_publication() -> None:
    assert publications(exposure() | {"config": {"meta": {}}}, {}) == []


def test_a_table_without_a_schema_is_in_public() -> None:
    (one,) = found(POSTGRES | {"table": "value"})
    assert isinstance(one, Publication) and one.target.place == "PostgreSQL public.value"


ROOT = "config.meta.publish"
HEAD = f"[HW_PUBLISH] {FILE}: shop: {ROOT}"


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("customers", f"{HEAD}: write {{from: model, to: postgres, table: name}}"),
        ({"from": "value"}, f"{HEAD}: write {{from: model, to: postgres, table: name}}"),
        (
            POSTGRES | {"to": "postgresql"},
            f"{HEAD}.to: 'postgresql' is not a target here, did you mean 'postgres'? (allowed: "
            "postgres, kafka)",
        ),
        ({"from": "value", "to": "postgres"}, f"{HEAD}.table is missing"),
        ({"from": "value", "to": "kafka"}, f"{HEAD}.topic is missing"),
        ({"to": "kafka", "topic": "t"}, f"{HEAD}.from is missing"),
        (
            POSTGRES | {"tabel": "x"},
            f"{HEAD}: 'tabel' is not a key here, did you mean 'table'? (allowed: from, to, table, "
            "connection)",
        ),
        (
            POSTGRES | {"table": "a.b.c"},
            f"{HEAD}.table: is not a table of PostgreSQL: write schema.table (given: 'a.b.c')",
        ),
        (
            POSTGRES | {"table": "t" * 64},
            f"{HEAD}.table: has a name of over 63 bytes, which PostgreSQL would cut (given: "
            f"'{'t' * 64}')",
        ),
        (
            POSTGRES | {"table": 'x"; drop table y'},
            f"{HEAD}.table: is not a table of PostgreSQL: write schema.table "
            "(given: 'x\"; drop table y')",
        ),
        (
            KAFKA | {"topic": "a b"},
            f"{HEAD}.topic: is not a topic of Kafka: write letters, digits, '.', '_' and '-' "
            "(given: 'a b')",
        ),
        (POSTGRES | {"connection": {"env": None}}, f"{HEAD}.connection.env: Input should be a "
         "valid string (given: None)"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_told(declared: Any, said: str) -> None:
    assert problem(declared) == said


def test_a_secret_in_clear_is_refused_and_not_shown() -> None:
    address = "postgresql://u:hunter2@host/db"
    assert problem(POSTGRES | {"connection": address}) == (
        f"[HW_PUBLISH_SECRET] {FILE}: shop: {ROOT}.connection may hold a password, and dbt writes "
        "what the YAML says into target/: write connection: {env: HEADWATERS_POSTGRES}, naming the "
        "environment variable that has it. Delete target/ if the value was real"
    )
    said = problem(KAFKA | {"client": {"sasl.password": "hunter2"}})
    assert said.startswith(
        f"[HW_PUBLISH_SECRET] {FILE}: shop: {ROOT}.client: sasl.password is a secret"
    )
    assert "hunter2" not in said


def test_a_model_must_be_a_table_with_a_key_that_the_exposure_depends_on() -> None:
    head = f"{FILE}: shop: "
    assert problem(POSTGRES | {"from": "gold.valeu"}) == (
        f"[HW_PUBLISH_MODEL] {head}{ROOT}.from: gold.valeu is no model in depends_on, did you mean "
        "'main_gold.value'"
    )
    assert problem(POSTGRES | {"from": "silver.value"}).startswith("[HW_PUBLISH_MODEL]")
    assert problem(POSTGRES | {"from": "a_view"}) == (
        f"[HW_PUBLISH_MODEL] {head}a_view is a view: only a table can be published"
    )
    assert problem(POSTGRES, unique_key=None) == (
        f"[HW_NO_UNIQUE_KEY] {head}value is published and has no unique_key: name the columns that "
        "tell its rows apart"
    )


def test_a_type_that_cannot_be_published_is_told_when_the_project_is_parsed() -> None:
    said = problem(POSTGRES, columns={"id": "bigint", "v": "variant"})
    assert said.startswith(
        f"[HW_PUBLISH_TYPE] {FILE}: shop: value.v: variant cannot be published: cast it to"
    )
    assert problem(KAFKA, columns={"id": "array<int>"}) == (
        f"[HW_PUBLISH_TYPE] {FILE}: shop: value.id is a column of unique_key: no array"
    )


def test_two_publications_of_a_project_go_to_two_places() -> None:
    exposures = {"a": exposure(POSTGRES, KAFKA, name="a"), "b": exposure(POSTGRES, name="b")}
    told = list(publication_problems(exposures, {"model.p.value": model()}))
    assert [str(one) for one in told] == [
        f"[HW_PUBLISH] {FILE}: b: a publishes to the PostgreSQL shop.value as well: name another"
    ]


@pytest.mark.parametrize(
    ("delta", "postgres"),
    [
        ("decimal(28,2)", "numeric(28,2)"),
        ("decimal", "numeric(10,0)"),
        ("DECIMAL(5)", "numeric(5,0)"),
        ("varchar(10)", "text"),
        ("timestamp", "timestamp with time zone"),
        ("timestamp_ntz", "timestamp without time zone"),
        ("struct<a: int>", "jsonb"),
        ("map<string, int>", "jsonb"),
        ("tinyint", "smallint"),
    ],
)
def test_types_are_those_that_postgresql_shows(delta: str, postgres: str) -> None:
    assert postgres_type(delta) == postgres
