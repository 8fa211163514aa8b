"""A Trino of one node for development and tests, on the metastore service and the S3 store.

The server is downloaded once into the user's cache. `<lake>/trino` has its settings and its log.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path

from headwaters.devkit.servers import end, page, starting
from headwaters.platform import atomic_write, object_store
from headwaters.platform import lake as lakes
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.jars import (
    Java,
    Say,
    cache_folder,
    fetch_locked,
    find_java,
    installed_pyspark,
)
from headwaters.platform.project import Project
from headwaters.platform.servers import Server

VERSION = "476"
# The class files of this release are those of Java 24.
OLDEST_JAVA = 24
VARIABLE = "HEADWATERS_TRINO_JAVA"
PLUGINS = ("delta-lake", "hive")
CATALOG = "delta"
MEMORY = "1500m"
LOCK = Path(__file__).with_name("trino-server")


def record(lake: Path) -> Path:
    """Return the file with the address of a lake's Trino."""
    return lake / "trino" / "trino.json"


def find(lake: Path) -> Server | None:
    """Return the Trino that runs on this lake, or None."""
    return Server.running(record(lake))


def start(project: Project, metastore: str, say: Say, patience: float = 300.0) -> Server:
    """Start the Trino of this lake and wait until it answers, or return the running one.

    `metastore` is the address of a Thrift service. Raises UserError without a Java that is new
    enough, and WorkError if the server cannot be downloaded, or ends while it starts.
    """
    lake = project.local
    lakes.enter(lake)
    if running := find(lake):
        return running
    java = new_java(find_java(VARIABLE if os.environ.get(VARIABLE) else "JAVA_HOME"))
    server = program(say)
    folder = record(lake).parent
    before = Server.last(record(lake))

    def command(port: int) -> list[str]:
        written = files(port, folder / "data", metastore, object_store.addresses(os.environ))
        for name, text in written.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            atomic_write.write(folder / name, text)
        return java_command(java.path, server, folder)

    (folder / "data").mkdir(parents=True, exist_ok=True)
    with (
        (folder / "trino.log").open("wb") as output,
        starting(
            command,
            "Trino",
            output,
            patience,
            usual=before.port if before else 0,
            cwd=folder / "data",
        ) as found,
    ):
        trino = Server(*found)
        until = time.monotonic() + patience
        # it listens before it has loaded its catalogs
        while page(trino.port, "/v1/info").get("starting") is not False:
            if time.monotonic() > until:
                raise WorkError(
                    "HW_SERVER", f"Trino does not answer after {patience:.0f} s (see {output.name})"
                )
            time.sleep(0.3)
        trino.remember(record(lake))
    return trino


def stop(lake: Path) -> Server | None:
    """Stop the Trino of this lake and wait until it ends; None if none runs."""
    trino = find(lake)
    if trino is not None:
        end(trino.pid)
    return trino


def new_java(java: Java) -> Java:
    """Return a Java that can run Trino. Raises UserError for an older one."""
    if java.major < OLDEST_JAVA:
        raise UserError(
            "HW_NO_JAVA",
            f"Trino {VERSION} needs Java {OLDEST_JAVA} or newer, and {java.path} is Java "
            f"{java.major}: install Java 25 beside it, and set {VARIABLE} to its folder",
        )
    return java


def program(say: Say) -> Path:
    """Return the folder of the server, downloaded once for all checkouts.

    Only the plugins that read Delta tables are kept: 405 of 896 MB.
    """
    folder = cache_folder() / f"trino-server-{VERSION}"
    if folder.is_dir():
        return folder
    say(f"fetching Trino {VERSION} (821 MB, once)")
    fetched = folder.with_name(f"{folder.name}.fetched")
    module, hashes = LOCK.with_suffix(".xml"), LOCK.with_suffix(".sha256")
    fetch_locked(module, hashes, installed_pyspark(), find_java(), fetched)
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    with tarfile.open(fetched / f"{folder.name}.tar.gz") as archive:
        archive.extractall(part, filter="data")
    for plugin in (part / folder.name / "plugin").iterdir():
        if plugin.name not in PLUGINS:
            shutil.rmtree(plugin)
    (part / folder.name).replace(folder)
    shutil.rmtree(part)
    shutil.rmtree(fetched)
    shutil.rmtree(cache_folder() / "ivy" / "io.trino", ignore_errors=True)
    return folder


def catalog(metastore: str, store: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a catalog that reads and writes the tables of a lake.

    `metastore` is a Thrift address, `store` has Hadoop's settings of the S3 store. The keys come
    from the environment of Trino.
    """
    settings = {
        "connector.name": "delta_lake",
        "hive.metastore": "thrift",
        "hive.metastore.uri": metastore,
        "fs.native-s3.enabled": "true",
        "s3.region": store.get("fs.s3a.endpoint.region", "us-east-1"),
        # commits by a conditional put, as those of headwaters' log store
        "s3.exclusive-create": "true",
        "delta.enable-non-concurrent-writes": "true",
        # a table is read as its newest commit has it
        "delta.metadata.cache-ttl": "0s",
        "delta.metadata.live-files.cache-ttl": "0s",
        # with it, releases before 481 delete other rows of Spark's files than the condition names
        "parquet.use-column-index": "false",
    }
    if endpoint := store.get("fs.s3a.endpoint"):
        settings["s3.endpoint"] = endpoint
        settings["s3.path-style-access"] = store.get("fs.s3a.path.style.access", "false")
        settings["s3.aws-access-key"] = "${ENV:AWS_ACCESS_KEY_ID}"
        settings["s3.aws-secret-key"] = "${ENV:AWS_SECRET_ACCESS_KEY}"
    else:  # a lake in a folder of this machine
        settings["fs.hadoop.enabled"] = "true"
    return settings


def files(port: int, data: Path, metastore: str, store: Mapping[str, str]) -> dict[str, str]:
    """Return the settings files of a server by their names."""
    config = {
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": str(port),
        "discovery.uri": f"http://127.0.0.1:{port}",
        "query.max-memory": "500MB",
        "query.max-memory-per-node": "500MB",
        "memory.heap-headroom-per-node": "300MB",
        "task.concurrency": "2",
        "web-ui.enabled": "false",
    }
    node = {
        "node.environment": "headwaters",
        "node.id": "one",
        "node.data-dir": str(data),
        "node.bind-ip": "127.0.0.1",
        "node.internal-address": "127.0.0.1",
    }
    return {
        "config.properties": text(config),
        "node.properties": text(node),
        "log.properties": "io.trino=WARN\n",
        f"catalog/{CATALOG}.properties": text(catalog(metastore, store)),
    }


def text(settings: Mapping[str, str]) -> str:
    """Return the text of a properties file."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def java_command(java: Path, server: Path, folder: Path) -> list[str]:
    """Return the command of a server with the settings files of a folder."""
    node = dict(
        line.split("=", 1) for line in (folder / "node.properties").read_text().splitlines()
    )
    options = [
        f"-Xmx{MEMORY}",
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:ReservedCodeCacheSize=256M",
        "-XX:MaxDirectMemorySize=256M",
        "-Djdk.attach.allowAttachSelf=true",
        "-Djdk.nio.maxCachedBufferSize=2000000",
        "--enable-native-access=ALL-UNNAMED",
        "--sun-misc-unsafe-memory-access=allow",
        *(f"-D{name}={value}" for name, value in node.items()),
        f"-Dconfig={folder / 'config.properties'}",
        f"-Dlog.levels-file={folder / 'log.properties'}",
        f"-Dcatalog.config-dir={folder / 'catalog'}",
        f"-Dplugin.dir={server / 'plugin'}",
    ]
    return [str(java), "-cp", f"{server}/lib/*", *options, "io.trino.server.TrinoServer"]
