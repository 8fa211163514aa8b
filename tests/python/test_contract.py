"""Test that a wrong contract is refused with its file, the key, and the nearest right name."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from headwaters.platform.errors import UserError
from headwaters.platform.fields import seconds
from headwaters.streams.contract import Contract, DeclaredColumn, new_columns, parse_contract
from headwaters.streams.declared_tables import reads_table
from headwaters.streams.formats.paths import with_objects
from headwaters.streams.sources.declared import SOURCES
from headwaters.tables.data_types import data_type_problem, in_one_spelling

NODE: dict[str, Any] = {
    "original_file_path": "models/bronze/orders.yml",
    "source_name": "bronze",
    "schema": "bronze",
    "name": "orders",
    "identifier": "orders",
    "config": {
        "tblproperties": {"catalog.team_name": "orders", "delta.appendOnly": True},
        "meta": {
            "stream": {"from": "files", "path": "landing/orders", "format": "json"},
            "tblproperties": {
                "delta.logRetentionDuration": "interval 7 days",
                "delta.appendOnly": None,
            },
        },
    },
    "columns": {
        "id": {"name": "id", "data_type": "string", "constraints": [{"type": "not_null"}]},
        "at": {"name": "at", "data_type": "timestamp", "constraints": []},
        "day": {
            "name": "day",
            "data_type": "date",
            "constraints": [],
            "config": {"meta": {"expression": "to_date(at)"}},
        },
    },
}


def changed(*path: str, to: Any) -> dict[str, Any]:
    node = copy.deepcopy(NODE)
    inner: Any = node
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return node


STREAM = ("config", "meta", "stream")


def check(expression: str) -> dict[str, Any]:
    return changed("columns", "id", "constraints", to=[{"type": "check", "expression": expression}])


def repeated(key: str, time: str) -> dict[str, Any]:
    to = {"key": [key], "event_time": time, "within": "1h"}
    return changed(*STREAM, "deduplicate", to=to)


def test_a_contract_says_what_both_tables_are() -> None:
    contract = parse_contract(NODE)
    assert contract.bronze_columns() == [
        ("id", "string"),
        ("at", "timestamp"),
        ("day", "date"),
        ("_rescued", "string"),
        ("_source_file", "string"),
        ("_ingested_at", "timestamp"),
        ("_batch_id", "bigint"),
    ]
    assert contract.quarantine_columns() == [
        ("reason", "string"),
        ("field", "string"),
        ("message", "string"),
        ("record", "binary"),
        ("contract", "string"),
        ("_source_file", "string"),
        ("_ingested_at", "timestamp"),
        ("_batch_id", "bigint"),
    ]
    assert contract.bronze_properties() == {
        "delta.enableChangeDataFeed": "true",
        "delta.logRetentionDuration": "interval 7 days",
        "catalog.team_name": "orders",
        "headwaters.declared": (
            "catalog.team_name, delta.enableChangeDataFeed, delta.logRetentionDuration"
        ),
    }
    assert contract.quarantine_properties() == {
        "delta.enableChangeDataFeed": "true",
        "catalog.team_name": "orders",
    }
    assert [column.name for column in contract.computed_columns] == ["day"]


def test_another_contract_has_another_version() -> None:
    other = changed("columns", "at", "data_type", to="date")
    moved = changed("original_file_path", to="models/bronze/elsewhere.yml")
    assert parse_contract(other).version != parse_contract(NODE).version
    assert parse_contract(moved).version == parse_contract(NODE).version


def kafka_with(client: Any) -> dict[str, Any]:
    how = {"from": "kafka", "topics": ["t"], "format": "json", "client": client}
    return changed(*STREAM, to=how)


SECRETS = [
    "sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.truststore.password",
    "ssl.key.pem", "ssl.keystore.key", "sasl.jaas.config", "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config", "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.private.key.pem", "basic.auth.user.info", "sasl_password",
]  # fmt: skip


@pytest.mark.parametrize("key", SECRETS)
def test_a_secret_is_a_reference_in_all_that_is_kept(key: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_contract(kafka_with({key: "hunter2"}))
    assert str(caught.value) == (
        f"[HW_CONTRACT_CLIENT] models/bronze/orders.yml: bronze.orders: config.meta.stream.client: "
        f"{key} is a secret, and dbt writes what the YAML says into target/: write {key}: "
        "{env: VARIABLE}, naming the environment variable that has it. Delete target/ if the "
        "value was real"
    )
    contract = parse_contract(kafka_with({key: {"env": "P"}}))
    assert contract.model_dump(mode="json")["stream"]["client"] == {key: {"env": "P"}}
    assert Contract.model_validate_json(contract.model_dump_json(by_alias=True)) == contract


@pytest.mark.parametrize(
    "client", [{"a": {"evn": "hunter2"}}, {"a": {"env": "hunter 2"}}, "hunter2", ["hunter2"]]
)
def test_a_wrong_setting_of_the_client_is_named_without_its_value(client: Any) -> None:
    with pytest.raises(UserError, match=r"client: (a: a value|is not a mapping)") as caught:
        parse_contract(kafka_with(client))
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            changed(*STREAM, "fromat", to="json"),
            "config.meta.stream: 'fromat' is not a key here, did you mean 'format'? "
            "(allowed: from, path, topics, servers, client, start, data_loss, on_change, "
            "rows_per_second, format, layout, options, registry, schemas, schemas_user, "
            "changes, batch, trigger, schema, "
            "bad_records, deduplicate, writers)",
        ),
        (
            changed(*STREAM, "format", to="jsn"),
            "config.meta.stream.format: 'jsn' is not allowed here, did you mean 'json'? "
            "(allowed: json, csv, parquet, avro, raw)",
        ),
        (
            changed(*STREAM, to={"from": "files", "format": "json"}),
            "config.meta.stream: path is missing: the folder, relative to the lake",
        ),
        (
            changed(*STREAM, to={"from": "kafka", "format": "json"}),
            "config.meta.stream: topics is missing: the topics to read, as a list",
        ),
        (
            changed(*STREAM, "start", to="erliest"),
            "config.meta.stream.start: 'erliest' is not allowed here, did you mean 'earliest'?",
        ),
        (
            changed(*STREAM, "start", to={"versoin": 3}),
            "config.meta.stream.start: 'versoin' is not a key here, did you mean 'version'? "
            "(allowed: offsets, version, timestamp)",
        ),
        (
            changed(*STREAM, "start", to={"version": 3}),
            "config.meta.stream: start: 'version' is not a start of files here (allowed: earliest, "
            "latest)",
        ),
        (
            changed(*STREAM, to={"from": "delta", "path": "x", "on_change": "ignor"}),
            "config.meta.stream.on_change: 'ignor' is not allowed here, did you mean 'ignore'? "
            "(allowed: fail, skip, ignore)",
        ),
        (
            changed(*STREAM, to={"from": "kafka", "topics": ["x"], "format": "csv"}),
            "config.meta.stream: format: 'csv' is not read from kafka here (allowed: json, avro, "
            "raw)",
        ),
        (
            changed(*STREAM, to={"from": "kafka", "topics": ["x"], "format": "avro"}),
            "config.meta.stream: options: avroSchema is missing: the schema that records have",
        ),
        (
            changed(*STREAM, "format", to="raw"),
            "format: raw wants one column of type binary or string, for the record as it came",
        ),
        (
            changed(*STREAM, to={"from": "rate"}),
            "is not a column of rate here (allowed: timestamp, value)",
        ),
        (
            changed(*STREAM, "trigger", to="real_time"),
            "config.meta.stream.trigger: Spark's real-time mode runs no code of its own on a batch",
        ),
        (
            changed(
                *STREAM, "deduplicate", to={"key": ["id"], "event_time": "day", "within": "1h"}
            ),
            "config.meta.stream.deduplicate: day is not a timestamp",
        ),
        (
            changed(
                *STREAM, "deduplicate", to={"key": ["idd"], "event_time": "at", "within": "1h"}
            ),
            "config.meta.stream.deduplicate: 'idd' is not a column here, did you mean 'id'?",
        ),
        (
            changed(*STREAM, "batch", to={"max_file": 3}),
            "config.meta.stream.batch: 'max_file' is not a key here, did you mean 'max_files'? "
            "(allowed: max_files, max_bytes, "
            "max_records, min_records, max_delay)",
        ),
        (
            changed(*STREAM, "options", to={"timestmpFormat": "yyyy"}),
            "config.meta.stream: options: 'timestmpFormat' is not a key here, did you mean "
            "'timestampFormat'? (allowed: timestampFormat, dateFormat, allowComments, "
            "allowSingleQuotes)",
        ),
        (
            changed(*STREAM, "changes", to={"key": ["idd"]}),
            "config.meta.stream.changes: key: 'idd' is not a column that is read here, did you "
            "mean 'id'?",
        ),
        (
            changed(*STREAM, "changes", to={"key": ["day"]}),
            "config.meta.stream.changes: key: 'day' is not a column that is read here",
        ),
        (
            changed(*STREAM, "changes", to={"envelope": "debezium"}),
            "config.meta.stream.changes.key is missing",
        ),
        (
            changed(*STREAM, "changes", to={"key": ["id"], "tombstones": "skip"}),
            "config.meta.stream.changes.tombstones: 'skip' is not allowed here (allowed: "
            "quarantine, rows)",
        ),
        (
            changed(
                *STREAM,
                to={
                    "from": "files",
                    "path": "x",
                    "format": "csv",
                    "changes": {"key": ["id"], "envelope": "debezium"},
                },
            ),
            "changes: envelope: debezium wants format: json",
        ),
        (
            changed(
                *STREAM,
                to={
                    "from": "files",
                    "path": "x",
                    "format": "json",
                    "options": {"allowComments": "true"},
                    "changes": {"key": ["id"], "envelope": "debezium"},
                },
            ),
            "options: allowComments is not possible with envelope: debezium",
        ),
        (changed("columns", "at", "data_type", to=None), "column at: data_type is missing"),
        (
            changed("columns", "at", "data_type", to="timestmp"),
            "column at: data_type 'timestmp' is not a type here, did you mean 'timestamp'? "
            "(allowed: string, boolean, tinyint, smallint, int, bigint, float, double, decimal, "
            "date, timestamp, timestamp_ntz, binary, variant, array, map, struct)",
        ),
        (
            changed("columns", "_batch_id", to={"name": "_batch_id", "data_type": "int"}),
            "column _batch_id: this name is ingestion's own; choose another: {name: batch_id, "
            'data_type: int, config: {meta: {from: "_batch_id"}}}',
        ),
        (
            changed("columns", "_RAW", to={"name": "_RAW", "data_type": "int"}),
            "column _RAW: this name is ingestion's own; choose another",
        ),
        (
            changed("columns", "ID", to={"name": "ID", "data_type": "int"}),
            "columns id and ID differ in case alone, and Spark takes them for one: write "
            '{name: id_2, data_type: int, config: {meta: {from: "ID"}}}',
        ),
        (
            changed(*STREAM, "batch", to={"max_bytes": "12 miles"}),
            "config.meta.stream.batch.max_bytes: is not a size: write a number of bytes, or 512k, "
            "64m, 1g (given: '12 miles')",
        ),
        (
            changed(*STREAM, "batch", to={"max_bytes": "512m", "max_files": 3}),
            "config.meta.stream: batch: files are counted by max_files or by max_bytes, not by "
            "both: choose one",
        ),
        (
            check("at < Now ()"),
            "column id: expression at < Now (): Now answers otherwise each time, and a batch that "
            "runs again must end in the same rows: take the moment from a column of the record",
        ),
        (
            check("at < current_timestamp"),
            "column id: expression at < current_timestamp: current_timestamp answers otherwise",
        ),
        (
            changed("columns", "day", "config", "meta", "expression", to="rand() + 1"),
            "column day: expression rand() + 1: rand answers otherwise each time",
        ),
        (
            changed("columns", to={}),
            "no columns: a stream needs its columns with their data_type",
        ),
        (
            changed("columns", "id", "constraints", to=[{"type": "check", "expression": None}]),
            "columns.0.constraints.0: a check needs an expression",
        ),
        (
            changed("columns", "id", "constraints", to=[{"type": "primary_key"}]),
            "columns.0.constraints.0.type: 'primary_key' is not allowed here "
            "(allowed: not_null, check)",
        ),
    ],
)
def test_a_wrong_contract_is_refused_by_name(node: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_contract(node)
    said = str(refused.value)
    code = "HW_CONTRACT_EXPRESSION" if "answers otherwise" in said else "HW_CONTRACT"
    assert said.startswith(f"[{code}] models/bronze/orders.yml: bronze.orders: ")
    assert message in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("array<strng>", "'strng' is not a type here, did you mean 'string'?"),
        ("array<int", "'array<int' has its end in place of >"),
        ("int>", "'int>' continues after its end, with >"),
        ("map<string>", "'map<string>' has > in place of ,"),
        ("array", "'array' has its end in place of <"),
        ("struct<a>", "'>' is not a type here"),
        ("struct<>", "'struct<>': > is not a name of a field that Delta stores"),
        ("struct<`a b`: int>", "`a b` is not a name of a field that Delta stores"),
        ("decimal(99, 2)", "'decimal(99, 2)': a decimal has 1 to 38 digits, scale included"),
        ("decimal(2, 3)", "a decimal has 1 to 38 digits, scale included"),
        ("decimal(a)", "'decimal(a)' has a in place of a number"),
        ("decimal(10.2)", "'decimal(10.2)' has . in place of , or )"),
        ("string(3)", "'string(3)' continues after its end, with ("),
        ("varchar(10)", "varchar is not a type here: declare string, and for its length a check"),
        ("array<char(1)>", "char is not a type here: declare string"),
        ("text", "'text' is not a type here"),
    ],
)
def test_a_type_that_no_table_can_have_is_refused_when_it_is_parsed(
    given: str, problem: str
) -> None:
    assert problem in str(data_type_problem(given))


def test_keys_of_maps_in_json_are_texts() -> None:
    for given in ("map<int, string>", "array<map<date,int>>", "map<string, map< bigint ,int>>"):
        assert data_type_problem(given) is None
        said = f"'{given}': the keys of a map are texts in JSON: map<string, …>"
        assert data_type_problem(given, keys_are_texts=True) == said
    assert data_type_problem("map<STRING, map<string, int>>", keys_are_texts=True) is None
    column = {"name": "id", "data_type": "map<int, string>", "constraints": []}
    with pytest.raises(UserError, match="column id: data_type 'map<int, string>': the keys of"):
        parse_contract(changed("columns", to={"id": column}))


def test_every_type_that_a_table_can_have_is_allowed() -> None:
    for given in (
        "decimal",
        "Decimal ( 38 , 38 )",
        "array<long>",
        "INTEGER",
        "timestamp_ltz",
        "map<string, struct<a int, `b-c`: array<dec(3)>>>",
        "struct<a: int not null comment 'its', B: timestamp_ntz>",
    ):
        assert data_type_problem(given) is None


@pytest.mark.parametrize(
    ("given", "spelling"),
    [
        ("integer", "int"),
        (" LONG ", "bigint"),
        ("short", "smallint"),
        ("Byte", "tinyint"),
        ("real", "float"),
        ("dec(8,2)", "decimal(8, 2)"),
        ("Numeric ( 5 )", "decimal(5, 0)"),
        ("decimal", "decimal"),
        ("timestamp_ltz", "timestamp"),
        ("array<long>", "array<bigint>"),
        ("map<STRING,array< real >>", "map<string, array<float>>"),
        (
            "struct<long long, `Byte`:byte not null comment 'its', c: struct<Date date>>",
            "struct<long: bigint, `Byte`: tinyint not null comment 'its', c: struct<Date: date>>",
        ),
        ("struct<`amount (EUR)`: dec(8,2)>", "struct<`amount (EUR)`: decimal(8, 2)>"),
        ("strng", "strng"),
    ],
)
def test_a_type_has_one_spelling_in_a_contract(given: str, spelling: str) -> None:
    assert DeclaredColumn(name="a", data_type=given).data_type == spelling
    assert in_one_spelling(spelling) == spelling


def test_a_stored_contract_with_another_name_of_a_type_is_the_same_contract() -> None:
    declared = parse_contract(changed("columns", "at", "data_type", to="timestamp_ltz"))
    stored = declared.model_dump(mode="json", by_alias=True)
    stored["columns"][1]["data_type"] = "TIMESTAMP_LTZ"
    assert Contract.model_validate(stored) == declared == parse_contract(NODE)


def reading(stream: dict[str, Any] | None = None, **fields: object) -> dict[str, Any]:
    columns = {
        name: {
            "name": name,
            "data_type": "int",
            "constraints": [],
            "config": {"meta": {"from": given} if not isinstance(given, dict) else given},
        }
        for name, given in fields.items()
    }
    node = changed("columns", to=columns)
    node["config"]["meta"]["stream"] |= stream or {}
    return node


CSV = {"format": "csv"}
EVENT = {"changes": {"key": ["id"], "envelope": "debezium"}}


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (reading(a=3), "column a: from: write a field's name in quotes, such as 'Order ID', or "),
        (reading(a=[]), "column a: from: write a field's name in quotes"),
        (reading(a={"from": "b", "expression": "1"}), "from and expression exclude each other"),
        (reading(a="x", b="x"), "columns a and b read one field, x: read it once, and compute "),
        (reading(x=None, b="x"), "columns x and b read one field, x: "),
        (reading(a="x", b=["x", "y"]), "columns a and b read one field, x: "),
        (reading(a=["x", "y", "z"], b=["x", "Y"]), "columns a and b read one field, x: "),
        (reading({"format": "parquet"}, a="X", b="x"), "columns a and b read one field, x: "),
        (reading(EVENT, id=None, a="A", b="a"), "columns a and b read one field, a: "),
        (reading(CSV, a=["x", "y"]), "column a: from: a row of csv has no paths"),
        (
            reading(CSV | {"options": {"header": "false"}}, a="x"),
            "column a: from: options: header is false, so there are no names",
        ),
        (
            reading(CSV | {"options": {"sep": "||"}}, a="x", b="x"),
            "options: sep is one character if the header has a name twice, or an empty one",
        ),
        (
            reading({"changes": {"key": ["id"]}}, id=None, a=["x", "y"]),
            "column a: from: a change event has no paths: declare x as a struct, and compute the",
        ),
        (
            reading(EVENT, id=None, payload=None),
            "column payload: this name is the envelope's own: write {name: row_payload, "
            'data_type: int, config: {meta: {from: "payload"}}}',
        ),
        (reading(a=""), "column a: from: the name is empty, which only a header of csv may have"),
        (reading({"format": "raw"}, a="x"), "format: raw wants one column"),
    ],
)
def test_a_field_that_no_column_can_read_is_refused(node: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_contract(node)
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_column_reads_any_field() -> None:
    contract = parse_contract(reading(a="Order ID", b="order id", c=["x", "y", "z"], d=["x", "q"]))
    assert [column.path for column in contract.columns] == [
        ("Order ID",),
        ("order id",),
        ("x", "y", "z"),
        ("x", "q"),
    ]
    kept = json.loads(contract.model_dump_json(by_alias=True))
    assert Contract.model_validate(kept) == contract
    read = with_objects(contract)
    assert [(c.name, c.data_type, c.expression) for c in read.columns] == [
        ("_object_0", "struct<`y`: struct<`z`: int>, `q`: int>", None),
        ("a", "int", None),
        ("b", "int", None),
        ("c", "int", "`_object_0`.`y`.`z`"),
        ("d", "int", "`_object_0`.`q`"),
    ]
    assert read.stored_columns == read.columns[1:]
    parse_contract(reading(CSV, a="x", b="x", c="X"))


def test_what_only_looks_as_if_it_changed_by_itself_is_allowed() -> None:
    for expression in ("id <> 'now()'", "now > at", "unix_timestamp(at) > 0", "x.rand(1)"):
        parse_contract(check(expression))


def test_a_size_is_in_bytes_also_in_a_contract_that_was_kept() -> None:
    sizes = {"512m": 512 * 2**20, "16 MB": 16 * 2**20, "7": 7, 7: 7, "2G": 2**31}
    for given, size in sizes.items():
        contract = parse_contract(changed(*STREAM, "batch", to={"max_bytes": given}))
        assert contract.stream.batch.max_bytes == size
        kept = json.loads(contract.model_dump_json(by_alias=True))
        kept["stream"]["batch"]["max_bytes"] = given
        assert type(contract).model_validate(kept) == contract


def test_a_new_field_does_not_take_a_name_that_is_ingestions_own() -> None:
    found = ["_raw", "_Change_Type", "_source_file", "ID", "new", "New"]
    assert new_columns(parse_contract(NODE), found, {}) == [("new", "string")]


@pytest.mark.parametrize(
    ("text", "value"),
    [("500ms", 0.5), ("30s", 30), ("5m", 300), ("1.5h", 5400), ("6 hours", 21600)],
)
def test_lengths_of_time(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "5", True, "5 months", "-1s", "s"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write 500ms, 30s, 5m or 1h"):
        seconds(text)


def test_a_stream_reads_a_table_if_its_source_does() -> None:
    assert [name for name in SOURCES if reads_table({"from": name})] == ["delta", "delta_changes"]
    assert not any(map(reads_table, [None, "delta", {}, {"from": "dleta"}]))
