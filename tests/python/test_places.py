"""Test the places of a lake: their names, and files in a store as those of a folder."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from obstore.store import MemoryStore

from headwaters.platform import places
from headwaters.platform.checkpoint import Checkpoint, landed
from headwaters.platform.errors import UserError
from headwaters.platform.lake import enter_store
from headwaters.platform.places import Bucket, Place, RemotePath, check_uri, join, open_uri, uri
from headwaters.streams.formats import look
from headwaters.tables import delta_log
from headwaters.tables.table_folders import check_table_of_stream, table_folders


@pytest.fixture
def lake() -> RemotePath:
    """Return an empty lake in memory."""
    return RemotePath(Bucket("s3a://bucket", opened=MemoryStore()), "the/lake")


@pytest.mark.parametrize("named", ["s3a://bucket", "s3a://my-bucket/a/lake_1", "s3a://b/läke"])
def test_a_lake_may_be_in_a_store(named: str) -> None:
    check_uri(named, "the lake", {})
    assert str(open_uri(named, {})) == named


@pytest.mark.parametrize(
    ("named", "code", "text"),
    [
        ("s3a://bucket/a lake", "HW_STORE_URI", "name a place without blanks"),
        ("s3a://bucket/a%20lake", "HW_STORE_URI", "name a place without blanks"),
        ("s3a://bucket/lake?x=1", "HW_STORE_URI", "name a place without blanks"),
        ("s3a://bucket/lake/", "HW_STORE_URI", "write s3a://bucket/lake"),
        ("s3a://bucket//lake", "HW_STORE_URI", "write s3a://bucket/lake"),
        ("s3a://", "HW_STORE_URI", "without a bucket: name one"),
        ("s3://bucket/lake", "HW_STORE_URI", "write s3a://bucket/lake"),
        ("hdfs://name:9000/lake", "HW_STORE_URI", "or in a store of s3a, abfss, gs"),
        ("ftp://host/lake", "HW_STORE_URI", "or in a store of s3a, abfss, gs"),
        ("gs://bucket/lake", "HW_STORE_SCHEME", "add them to spark.jars"),
        ("abfss://box@account.dfs.core.windows.net/lake", "HW_STORE_SCHEME", "hadoop-azure"),
        ("s3a://KEY:SECRET@bucket/lake", "HW_STORE_SECRET", "the lake is s3a://…@bucket/lake: "),
    ],
)
def test_another_uri_is_one_line_with_the_remedy(named: str, code: str, text: str) -> None:
    with pytest.raises(UserError) as caught:
        check_uri(named, "the lake", {"spark.master": "local"})
    assert caught.value.code == code
    assert text in caught.value.text
    assert "\n" not in str(caught.value)
    assert "SECRET" not in caught.value.text


def test_a_scheme_is_right_if_a_setting_names_its_jars() -> None:
    jars = {"spark.jars.packages": "org.apache.hadoop:hadoop-azure:3.5.0"}
    check_uri("abfss://box@account.dfs.core.windows.net/lake", "the lake", jars)


def test_a_name_is_relative_absolute_or_a_uri(lake: RemotePath) -> None:
    assert str(join(lake, "landing/orders")) == "s3a://bucket/the/lake/landing/orders"
    assert str(join(lake, "s3a://other/orders")) == "s3a://other/orders"
    assert join(lake, "/mnt/orders") == Path("/mnt/orders")
    assert join(Path("/lake"), "landing") == Path("/lake/landing")
    for place in (lake, Path("/lake")):
        assert join(place, "file:///a b/c") == join(place, "file:/a b/c") == Path("/a b/c")
        for wrong in ("file://host/a", "file:a", "file:////a"):
            with pytest.raises(UserError, match=rf"^\[HW_STORE_URI\] the place is {wrong}, and a"):
                join(place, wrong)
    assert str(join(Path("/lake"), "s3a://other/orders")) == "s3a://other/orders"
    assert [uri(lake / "a b"), uri(Path("/a b"))] == ["s3a://bucket/the/lake/a b", "file:///a b"]


def test_files_in_a_store_are_read_like_those_in_a_folder(lake: RemotePath, tmp_path: Path) -> None:
    for place in (lake, tmp_path):
        for name in ("a/1.json", "a/b/2.json", "a/b/3.txt", "c/ä #?.json"):
            places.write(place / name, name)
    for pattern in ("*", "a/*", "*/b/*.json", "a/b/2.json", "a/x.json", "x/*", "*.json"):
        found, local = (
            sorted(str(one).removeprefix(f"{place}/") for one in place.glob(pattern))
            for place in (lake, tmp_path)
        )
        assert found == local, pattern
    for name in ("a/1.json", "a", "x"):
        there, here = lake / name, tmp_path / name
        for question in ("exists", "is_file", "is_dir"):
            assert getattr(there, question)() == getattr(here, question)(), (name, question)
        assert (there.name, there.stem, there.suffix) == (here.name, here.stem, here.suffix)
    assert (lake / "c" / "ä #?.json").read_text() == "c/ä #?.json"
    assert (lake / "a" / "1.json").stat().st_size == 8
    with pytest.raises(FileNotFoundError, match="s3a://bucket/the/lake/x"):
        (lake / "x").read_bytes()
    assert (lake / "new").create(b"1")
    assert (lake / "new").create(b"1")  # as after a lost answer
    assert not (lake / "new").create(b"2")
    places.remove_tree(lake / "a")
    assert sorted(map(str, lake.iterdir())) == [f"{lake}/c", f"{lake}/new"]


def test_an_open_file_is_read_by_ranges(lake: RemotePath) -> None:
    data = bytes(range(256)) * 10_000
    (lake / "big").write_bytes(data)
    with (lake / "big").open() as opened:
        assert opened.seek(-3, io.SEEK_END) == len(data) - 3
        assert opened.read() == data[-3:]
        opened.seek(100)
        assert opened.read(5) == data[100:105]
        opened.seek(0)
        assert opened.read() == data
    for name, packed in (("a.gz", gzip.compress(b"x")), ("a.bz2", bz2.compress(b"x"))):
        (lake / name).write_bytes(packed)
        with look.open_file(lake / name) as unpacked:
            assert unpacked.read() == b"x"
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), file)
    (lake / "a.parquet").write_bytes(file.getvalue())
    assert pq.read_table((lake / "a.parquet").open()).to_pydict() == {"a": [1, 2]}


def test_landed_files_and_the_backlog_are_those_that_spark_sees(lake: RemotePath) -> None:
    folder = lake / "landing" / "orders"
    for name in ("b.json", "deep/a.json", "k=v/c.json", "_log", ".hidden/x", "_tmp/x", "_k=v/d"):
        (folder / name).write_bytes(b"12345")
    assert [str(file).removeprefix(f"{folder}/") for file in landed(folder)] == [
        *("_k=v/d", "b.json", "deep/a.json", "k=v/c.json")
    ]
    checkpoint = Checkpoint(lake / "checkpoints" / "orders")
    assert (checkpoint.id, checkpoint.planned, checkpoint.committed) == (None, -1, -1)
    entry = f'{{"path":"{folder}/b.json","timestamp":1,"batchId":0}}'
    (checkpoint.path / "sources" / "0" / "0").write_text(f"v1\n{entry}")
    pending = checkpoint.pending(folder)
    assert (pending.number, pending.size) == (3, 15)


def test_a_log_in_a_store_is_read_like_one_in_a_folder(lake: RemotePath, tmp_path: Path) -> None:
    local = tmp_path / "orders"
    for number in range(3):
        write_deltalake(local, pa.table({"id": [number]}), mode="append")
    DeltaTable(local).create_checkpoint()
    write_deltalake(local, pa.table({"id": [4, 5]}), mode="append")
    remote = lake / "warehouse" / "bronze.db" / "orders"
    for file in local.rglob("*"):
        if file.is_file():
            (remote / str(file.relative_to(local))).write_bytes(file.read_bytes())
    assert delta_log.state(remote) == delta_log.state(local)
    assert delta_log.snapshot(remote) == delta_log.snapshot(local)
    assert delta_log.few_rows(remote) == 5
    assert delta_log.version(remote) == 3
    assert delta_log.schema_at(remote, 1) == delta_log.schema_at(local, 1)
    assert delta_log.properties_of_log(remote) == delta_log.properties_of_log(local)
    versions = [commit.version for commit in delta_log.commits_of_log(remote, 3)]
    assert versions == [3, 2, 1]
    assert table_folders(lake / "warehouse", {}) == {"bronze.orders": remote}
    assert delta_log.state(lake / "warehouse" / "nothing") is None


def test_a_lake_notes_its_place_and_its_folder_on_this_machine(
    lake: RemotePath, tmp_path: Path
) -> None:
    local = tmp_path / ".headwaters" / "lake"
    enter_store(lake, local)
    enter_store(lake, local)
    assert (lake / "lake.json").read_text() == '{"made_at": "s3a://bucket/the/lake"}\n'
    assert (tmp_path / ".headwaters" / ".gitignore").read_text() == "*\n"
    other = RemotePath(lake.bucket, "other")
    with pytest.raises(UserError, match=r"HW_LAKE_MOVED.* of another lake than s3a://bucket/other"):
        enter_store(other, local)
    (other / "lake.json").write_bytes((lake / "lake.json").read_bytes())
    with pytest.raises(UserError, match=r"the lake s3a://bucket/other was copied from s3a://buc"):
        enter_store(other, tmp_path / "other")


def test_an_empty_table_of_a_stream_is_refused_if_the_lake_has_its_rows(
    lake: RemotePath, tmp_path: Path
) -> None:
    def check(place: Place, location: str, has_rows: bool = False) -> None:
        check_table_of_stream(place, "Shop_Raw", "orders", location, lambda: has_rows)

    for place in (lake, tmp_path):
        there = place / "warehouse" / "shop_raw.db" / "orders"
        check(place, "s3a://cluster/shop_raw.db/orders")
        check(place, uri(there))
        write_deltalake(tmp_path / "written", pa.table({"id": [1, 2]}), mode="overwrite")
        for file in (tmp_path / "written").rglob("*.json"):
            places.write(there / "_delta_log" / file.name, file.read_text())
        check(place, uri(there))
        check(place, "s3://cluster/shop_raw.db/orders", has_rows=True)
        with pytest.raises(UserError) as caught:
            check(place, "s3://cluster/shop_raw.db/orders")
        assert str(caught.value) == (
            "[HW_BRONZE_ELSEWHERE] Shop_Raw.orders would be empty in "
            "s3a://cluster/shop_raw.db/orders, and the lake of the target has its rows in "
            f"{there}: put the lake of this Spark's warehouse into the target (lake: …), and "
            "ingest there"
        )


def test_only_a_lake_in_a_store_needs_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    for made in (places._obstore, places._client):
        made.cache_clear()
    place: Any = open_uri("s3a://bucket/lake", {}) / "x"
    assert str(place) == "s3a://bucket/lake/x"
    with pytest.raises(UserError, match=r"HW_NO_EXTRA.*dbt-headwaters\[object-store\]"):
        place.exists()
    places._obstore.cache_clear()
