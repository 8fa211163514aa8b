"""Test the log store, and `headwaters store check`, on a real S3 gateway.

All tests share one gateway and one Java without Spark.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from log_store import build
from processes import environment
from py4j.protocol import Py4JJavaError
from s3_gateway import Faults, Gateway, free_port, running_gateway, running_proxy, times

from headwaters.devkit.objects import BUCKET
from headwaters.platform.errors import CodedError
from headwaters.platform.java_gateway import java_gateway
from headwaters.platform.object_store import LOG_STORE, LOG_STORE_JAR, jars
from headwaters.platform.store_race import IMPATIENT, Competitor, java_error, race

pytestmark = pytest.mark.platform


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway") / "buckets") as started:
        yield started


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    """Yield a Java with S3A and the log store."""
    with java_gateway(jars(print)) as started:
        yield started


@pytest.fixture(scope="module")
def proxy(gateway: Gateway) -> Iterator[tuple[int, Faults]]:
    faults = Faults()
    with running_proxy(gateway.port, faults) as port:
        yield port, faults


@pytest.fixture
def faults(proxy: tuple[int, Faults]) -> Iterator[Faults]:
    """Yield the faults of the proxy, which has none when a test begins and ends."""
    proxy[1].clear()
    yield proxy[1]
    proxy[1].clear()


class LogStore:
    """The log store in a Java, at a gateway or its proxy."""

    def __init__(self, java: Any, settings: Mapping[str, str]) -> None:
        self.java = java
        self.configuration = java.jvm.org.apache.hadoop.conf.Configuration()
        # so that each writer has its own client
        for name, value in {**settings, "fs.s3a.impl.disable.cache": "true"}.items():
            self.configuration.set(name, value)
        loaded = java.jvm
        for part in LOG_STORE.split("."):
            loaded = getattr(loaded, part)
        self.store = loaded(self.configuration)

    def path(self, name: str) -> Any:
        return self.java.jvm.org.apache.hadoop.fs.Path(f"s3a://{BUCKET}/{name}")

    def write(self, name: str, *lines: Any, overwrite: bool = False) -> None:
        texts = self.java.jvm.java.util.ArrayList()
        for line in lines:
            texts.add(line)
        self.store.write(self.path(name), texts.iterator(), overwrite, self.configuration)

    def refusal(self, name: str, *lines: Any) -> str:
        """Return the name of the exception of a write."""
        with pytest.raises(Py4JJavaError) as caught:
            self.write(name, *lines)
        return java_error(caught.value).name

    def read(self, name: str) -> list[str]:
        lines = self.store.read(self.path(name), self.configuration)
        found = []
        while lines.hasNext():
            found.append(lines.next())
        lines.close()
        return found

    def names_from(self, name: str) -> list[str]:
        files = self.store.listFrom(self.path(name), self.configuration)
        found = []
        while files.hasNext():
            found.append(files.next().getPath().getName())
        return found


@pytest.fixture(scope="module")
def store(java: Any, gateway: Gateway) -> LogStore:
    return LogStore(java, gateway.settings())


@pytest.fixture(scope="module")
def store_by_proxy(java: Any, gateway: Gateway, proxy: tuple[int, Faults]) -> LogStore:
    return LogStore(java, gateway.settings(proxy[0]))


def test_the_jar_is_the_one_that_its_source_builds() -> None:
    assert build() == LOG_STORE_JAR.read_bytes()


def test_a_file_is_created_once_listed_and_read(store: LogStore, gateway: Gateway) -> None:
    store.write("a/1.json", "one", "zwei ä")
    store.write("a/2.json", "two")
    store.write("a/0.json", "none")
    assert (gateway.bucket / "a" / "1.json").read_bytes() == "one\nzwei ä\n".encode()
    assert store.read("a/1.json") == ["one", "zwei ä"]
    assert store.names_from("a/1.json") == ["1.json", "2.json"]
    assert store.refusal("a/1.json", "another") == "FileAlreadyExistsException"
    assert store.read("a/1.json") == ["one", "zwei ä"]
    store.write("a/1.json", "another", overwrite=True)
    assert store.read("a/1.json") == ["another"]
    assert store.store.isPartialWriteVisible(store.path("a/1.json"), store.configuration) is False
    with pytest.raises(Py4JJavaError) as caught:
        store.names_from("absent/1.json")
    assert java_error(caught.value).name == "FileNotFoundException"


def test_a_commit_that_cannot_be_computed_leaves_nothing(store: LogStore, gateway: Gateway) -> None:
    assert store.refusal("b/1.json", "one", 2) == "ClassCastException"
    assert not (gateway.bucket / "b" / "1.json").exists()


def test_a_lost_answer_is_a_success_and_never_a_second_commit(
    store_by_proxy: LogStore, faults: Faults, gateway: Gateway
) -> None:
    faults.lose_answer = times(1, "PUT", "c/1.json")
    store_by_proxy.write("c/1.json", "ours")
    assert (gateway.bucket / "c" / "1.json").read_text() == "ours\n"
    # the client has sent it again, and read it after the refusal
    assert len([line for line in faults.seen if line.startswith("PUT /lake/c/1.json")]) == 2
    faults.lose_answer = times(99, "PUT", "c/2.json")  # every answer is lost
    store_by_proxy.write("c/2.json", "ours")
    assert (gateway.bucket / "c" / "2.json").read_text() == "ours\n"


def test_a_lost_answer_to_a_refused_commit_is_a_refusal(
    store: LogStore, store_by_proxy: LogStore, faults: Faults
) -> None:
    store.write("d/1.json", "theirs")
    faults.lose_answer = times(99, "PUT", "d/1.json")
    assert store_by_proxy.refusal("d/1.json", "ours") == "FileAlreadyExistsException"
    assert store.read("d/1.json") == ["theirs"]


def test_a_conflict_without_a_file_is_tried_again(
    store_by_proxy: LogStore, faults: Faults, gateway: Gateway
) -> None:
    faults.conflict = times(2, "PUT", "e/1.json")
    store_by_proxy.write("e/1.json", "ours")
    assert (gateway.bucket / "e" / "1.json").read_text() == "ours\n"
    faults.conflict = times(999, "PUT", "e/2.json")
    assert store_by_proxy.refusal("e/2.json", "ours") != "FileAlreadyExistsException"
    assert not (gateway.bucket / "e" / "2.json").exists()


def writers(java: Any, uri: str, settings: Mapping[str, str]) -> list[Competitor]:
    """Return two writers in one Java, with a client each."""
    return [Competitor(number, java, uri, {**settings, **IMPATIENT}) for number in (0, 1)]


def test_the_gateway_is_safe_and_the_check_leaves_nothing(java: Any, gateway: Gateway) -> None:
    found = race(10, writers(java, f"s3a://{BUCKET}/checked", gateway.settings()))
    assert found.lines == (
        "conditional put: 10 keys, one winner each for 10",
        "conditional multipart completion: 10 keys, one winner each for 10",
    )
    assert found.is_safe
    assert [path for path in gateway.bucket.rglob("*check*/*") if path.is_file()] == []


def test_a_store_that_ignores_the_condition_is_unsafe(
    java: Any, gateway: Gateway, proxy: tuple[int, Faults], faults: Faults
) -> None:
    faults.ignored_in = gateway.bucket
    found = race(2, writers(java, f"s3a://{BUCKET}/ignored", gateway.settings(proxy[0])))
    assert not found.is_safe
    assert found.lines == (
        "conditional put: the store ignores the condition and overwrites",
        "conditional multipart completion: the store ignores the condition and overwrites",
    )


def first_of_each(method: str, *parts: str) -> Callable[[str, str], bool]:
    """Return a fault of the first request for each part of a path."""
    taken = [times(1, method, part) for part in parts]
    return lambda given, path: any(one(given, path) for one in taken)


def test_a_lost_answer_is_counted_and_the_store_is_safe(
    java: Any, gateway: Gateway, proxy: tuple[int, Faults], faults: Faults
) -> None:
    """The client sends the request again: S3A finds its upload complete, and its put refused."""
    put = first_of_each("PUT", "/put-00001")
    completion = first_of_each("POST", "/multipart-00000?uploadId")
    faults.lose_answer = lambda method, path: put(method, path) or completion(method, path)
    alone = writers(java, f"s3a://{BUCKET}/lost", gateway.settings(proxy[0]))[:1]
    found = race(3, alone)
    assert found.lines == (
        "conditional put: 3 keys, one winner each for 2; 1 whose answer was lost, which the log "
        "store finds by reading the file",
        "conditional multipart completion: 3 keys, one winner each for 3",
    )
    assert found.is_safe
    completed = [line for line in faults.seen if "/multipart-00000?uploadId" in line]
    assert len(completed) == 2


def test_a_race_in_which_answers_are_lost_has_no_double_winner(
    java: Any, gateway: Gateway, proxy: tuple[int, Faults], faults: Faults
) -> None:
    faults.lose_answer = first_of_each("PUT", *(f"/put-{number:05}" for number in range(5)))
    found = race(5, writers(java, f"s3a://{BUCKET}/lost", gateway.settings(proxy[0])))
    assert found.is_safe, found.lines
    sent = [line for line in faults.seen if line.startswith("PUT") and "/put-" in line]
    assert len(sent) == 15  # two writers, and one of them again


def test_the_command_names_a_store_that_ignores_the_condition_and_fails(
    gateway: Gateway, proxy: tuple[int, Faults], faults: Faults, tmp_path: Path
) -> None:
    faults.ignored_in = gateway.bucket
    variables = {
        **environment(),
        **gateway.variables(),
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy[0]}",
    }
    words = ["store", "check", f"s3a://{BUCKET}/by-command", "--keys", "1", "--processes", "2"]
    ran = subprocess.run(
        [sys.executable, "-m", "headwaters.cli", *words],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.splitlines() == [
        "conditional put: the store ignores the condition and overwrites",
        "conditional multipart completion: the store ignores the condition and overwrites",
    ]
    assert ran.stderr.splitlines()[-1] == (
        "headwaters: [HW_STORE_UNSAFE] two drivers can overwrite each other's commits in "
        f"s3a://{BUCKET}/by-command: write its tables from one driver at a time, or use another "
        "store"
    )


@pytest.mark.parametrize(
    ("bucket", "fault", "code"),
    [
        ("absent", {}, "HW_STORE_BUCKET"),
        (BUCKET, {"secret": "wrong"}, "HW_STORE_KEYS"),
        (BUCKET, {"port": 0}, "HW_STORE_AWAY"),
    ],
)
def test_a_store_that_cannot_be_used_is_one_line(
    java: Any, gateway: Gateway, bucket: str, fault: dict[str, Any], code: str
) -> None:
    if "port" in fault:
        fault = {"port": free_port()}
    with pytest.raises(CodedError) as caught:
        race(1, writers(java, f"s3a://{bucket}/x", gateway.settings(**fault)))
    assert caught.value.code == code
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_read_only_is_one_line(
    java: Any, gateway: Gateway, proxy: tuple[int, Faults], faults: Faults
) -> None:
    faults.deny = times(9, "PUT", "/")
    with pytest.raises(CodedError) as caught:
        race(1, writers(java, f"s3a://{BUCKET}/read-only", gateway.settings(proxy[0])))
    assert caught.value.code == "HW_STORE_READ_ONLY"
    assert "\n" not in str(caught.value)
