"""Delta tables on S3: the settings that a Spark needs, its jars, and the log store.

Delta's own log store for S3 is safe for one driver only: two that commit at the same moment both
report success, and the rows of one are lost. `ConditionalLogStore` (in `java/`) commits with one
conditional request, so any number of drivers may write a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from headwaters.platform.errors import UserError
from headwaters.platform.jars import LOCKS, CachedJars, Say

LOG_STORE = "headwaters.delta.ConditionalLogStore"
CHECKPOINT_FILES = "headwaters.delta.ConditionalCheckpointFiles"
LOG_STORE_JAR = Path(__file__).resolve().parent / "java" / "headwaters-log-store.jar"

# Delta's own, for teams whose other writers commit by a table in DynamoDB as well.
BY_DYNAMODB = "io.delta.storage.S3DynamoDBLogStore"

SCHEME = "s3a"
WAREHOUSE = "spark.sql.warehouse.dir"
OF_S3A = "spark.delta.logStore.s3a.impl"
# Delta takes this one for all schemes, if it is set.
OF_ALL_SCHEMES = "spark.delta.logStore.class"
# It gives each commit a random txnId. The log store recognises its own commits by their txnId.
COMMIT_INFO = "spark.databricks.delta.commitInfo.enabled"
JARS = "spark.jars"
_S3A = "spark.hadoop.fs.s3a."
# Settings of Hadoop's clients by the end of their names, which may be followed by an account of
# Azure; and variables of clients, which Spark passes on to its processes.
_SECRET = re.compile(
    r"(?:spark\.hadoop\.)?(?:fs|google\.cloud)\..*[.-](?:key|secret|token|password)"
    r"(?:\.[^.]+\.(?:blob|dfs)\..+)?"
    r"|spark\.(?:executorEnv|yarn\.appMasterEnv|kubernetes\.driverEnv)"
    r"\.(?:AWS|AZURE|GOOGLE)_(?:\w+_)?(?:KEY|KEY_ID|SECRET|TOKEN|PASSWORD)"
)
_OF_AWS = re.compile(
    r".*(?:\bfs\.s3a\.(?:.+\.)?(?:access\.key|secret\.key|session\.token)|Env\.AWS_\w+)"
)
_NAME_OF_KEY = "arn:"  # a key of AWS's key service, by its name
_OF_CLIENT = CachedJars(LOCKS / "s3a")


def is_named(settings: Mapping[str, str]) -> bool:
    """Return true if the settings of a Spark name S3: a setting of S3A, or a place there."""
    return any(name.startswith(_S3A) or f"{SCHEME}://" in value for name, value in settings.items())


def defaults(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a Spark inside the process, in addition to those given.

    The log store is always set: a Spark without its jar fails at the first table on S3, instead of
    taking Delta's own.
    """
    added = {OF_S3A: LOG_STORE}
    if is_named(given):
        for name, value in addresses(environment).items():
            added[f"spark.hadoop.{name}"] = value
    return added


def of_checkpoints(lake: str) -> dict[str, str]:
    """Return the settings of a Spark whose streams have their checkpoints in a lake on S3.

    Spark's own files of a checkpoint are renamed, which S3 does not do in one step.
    """
    is_on_s3 = urlsplit(lake).scheme == SCHEME
    return {"spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES} if is_on_s3 else {}


def addresses(environment: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop's settings for the store that the variables of AWS name.

    S3A itself reads the keys from the environment, or from the platform's chain.
    """
    settings = {}
    if endpoint := environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"):
        settings["fs.s3a.endpoint"] = endpoint
        settings["fs.s3a.path.style.access"] = "true"  # no name server knows the buckets
    if region := environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"):
        settings["fs.s3a.endpoint.region"] = region
    return settings


def hadoop_settings(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop's settings of S3A, from those of a Spark and from the variables of AWS."""
    given = {
        name.removeprefix("spark.hadoop."): value
        for name, value in settings.items()
        if name.startswith(_S3A)
    }
    return {**addresses(environment), **given}


def client_options(
    scheme: str, settings: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the options of a client without Java, which reads the same store as a Spark.

    Such a client finds the keys as S3A does: in the environment, or from the platform's chain.
    """
    if scheme != SCHEME:
        return {}
    given = hadoop_settings(settings, environment)
    found = {}
    if endpoint := given.get("fs.s3a.endpoint"):
        found["endpoint"] = endpoint if "://" in endpoint else f"https://{endpoint}"
        by_path = given.get("fs.s3a.path.style.access", "false").lower() == "true"
        found["virtual_hosted_style_request"] = str(not by_path).lower()
    if region := given.get("fs.s3a.endpoint.region"):
        found["region"] = region
    return found


def check(settings: Mapping[str, str], whose: str) -> None:
    """Raise UserError for keys in the settings of a Spark, or commits that others may overwrite."""
    for name, value in settings.items():
        if _SECRET.fullmatch(name) and not value.startswith(_NAME_OF_KEY):
            instead = (
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
                if _OF_AWS.fullmatch(name)
                else "keep it in a credential provider of Hadoop (spark.hadoop.hadoop.security."
                "credential.provider.path)"
            )
            raise UserError(
                "HW_STORE_SECRET",
                f"{whose} sets {name}: remove it, and {instead}, or use the role of the machine",
            )
    warehouse = settings.get(WAREHOUSE, "")
    scheme = urlsplit(warehouse).scheme
    if scheme in ("s3", "s3n"):
        remedy = warehouse.replace(f"{scheme}://", f"{SCHEME}://", 1)
        raise UserError(
            "HW_LOG_STORE",
            f"{whose} has tables in {warehouse}, where commits are not safe: write {remedy}",
        )
    if not is_named(settings):
        return
    safe = {OF_ALL_SCHEMES: (), OF_S3A: (LOG_STORE, BY_DYNAMODB), COMMIT_INFO: ("true",)}
    for name, values in safe.items():
        given = settings.get(name)
        if given is not None and given not in values:
            raise UserError(
                "HW_LOG_STORE",
                f"{whose} sets {name} to {given}, with which two drivers can overwrite each "
                "other's commits on S3: remove it",
            )


def check_server(
    setting: Callable[[str, str], str | None], address: str, location: str = ""
) -> None:
    """Raise UserError if a running Spark has tables on S3, and another log store.

    `setting` returns a setting of the server, or the default that it gets. `location` is that of
    tables outside of the server's warehouse.
    """
    tables = location or setting(WAREHOUSE, "") or ""
    if not tables.startswith(("s3://", "s3n://", f"{SCHEME}://")):
        return
    whose = f"the Spark at {address}"
    names = {OF_S3A: "Delta's own log store", OF_ALL_SCHEMES: "", COMMIT_INFO: ""}
    found = {name: value for name, other in names.items() if (value := setting(name, other))}
    try:
        check({WAREHOUSE: tables, **found}, whose)
    except UserError:
        if found.get(OF_S3A) != names[OF_S3A]:
            raise
        raise UserError(
            "HW_LOG_STORE",
            f"{whose} has tables in {tables} and Delta's own log store, with which two drivers "
            f"overwrite each other's commits: start it with --conf {OF_S3A}={LOG_STORE} --jars "
            '"$(headwaters store jars)"',
        ) from None


def with_jars(settings: Mapping[str, str], say: Say) -> dict[str, str]:
    """Return the settings of a Spark, with the jars of S3A and the log store if they name S3.

    `spark.jars` reaches the driver and the executors, and does not change the class path of Java.
    """
    if not is_named(settings):
        return dict(settings)
    given = [jar for jar in settings.get(JARS, "").split(",") if jar]
    return {**settings, JARS: ",".join([*given, *map(str, jars(say))])}


def jars(say: Say) -> list[Path]:
    """Return the log store's jar and those of S3A, downloaded once for all checkouts.

    Raises WorkError if they cannot be downloaded, and UserError if one was changed.
    """
    if not is_fetched():
        say(f"fetching {len(_OF_CLIENT.names)} jars for S3 (once)")
    return [LOG_STORE_JAR, *_OF_CLIENT.fetch()]


def is_fetched() -> bool:
    """Return true if the jars of S3A have been downloaded."""
    return _OF_CLIENT.are_fetched
