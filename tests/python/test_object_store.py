"""Test the settings of Delta tables on S3, and the verdicts of `headwaters store check`."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from log_store import MANIFEST, manifest

from headwaters.platform import jars as jars_of_cache
from headwaters.platform import object_store
from headwaters.platform.errors import CodedError, UserError, WorkError
from headwaters.platform.jars import LOCKS, read_hashes
from headwaters.platform.object_store import (
    BY_DYNAMODB,
    CHECKPOINT_FILES,
    COMMIT_INFO,
    LOG_STORE,
    LOG_STORE_JAR,
    OF_ALL_SCHEMES,
    OF_S3A,
    WAREHOUSE,
)
from headwaters.platform.store_check import Kind, Race, StoreError, parse_uri, refusal, verdict

LAKE = "s3a://lake/warehouse"
OWN = "io.delta.storage.S3SingleDriverLogStore"


# -- settings -------------------------------------------------------------------------------------


def test_the_log_store_is_set_always_and_the_address_where_s3_is_named() -> None:
    environment = {"AWS_ENDPOINT_URL": "http://127.0.0.1:7070", "AWS_REGION": "eu-central-1"}
    assert object_store.defaults({WAREHOUSE: "/data/lake"}, environment) == {OF_S3A: LOG_STORE}
    assert object_store.defaults({WAREHOUSE: LAKE}, {}) == {OF_S3A: LOG_STORE}
    assert object_store.defaults({WAREHOUSE: LAKE}, environment) == {
        OF_S3A: LOG_STORE,
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:7070",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
    }
    given = {"spark.hadoop.fs.s3a.endpoint": "http://given:1", "spark.app.name": "a"}
    assert object_store.hadoop_settings(given, environment) == {
        "fs.s3a.endpoint": "http://given:1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.endpoint.region": "eu-central-1",
    }


def test_jars_are_fetched_where_s3_is_named_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fetched: list[Path] = []

    def fetch(module: Path, hashes: Path, pyspark: Path, java: object, into: Path) -> None:
        fetched.append(into)
        into.mkdir(parents=True)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jars_of_cache, "fetch_locked", fetch)
    monkeypatch.setattr(jars_of_cache, "changed_jar", lambda folder, locked: "")
    monkeypatch.setattr(jars_of_cache, "find_java", lambda: None)
    said: list[str] = []
    local = {WAREHOUSE: "/data/lake", "spark.app.name": "a"}
    assert object_store.with_jars(local, said.append) == local
    assert (fetched, said) == ([], [])
    for settings in ({WAREHOUSE: LAKE}, {"spark.hadoop.fs.s3a.endpoint": "http://x"}):
        jars = object_store.with_jars({**settings, "spark.jars": "mine.jar"}, said.append)
        names = jars["spark.jars"].split(",")
        assert names[:2] == ["mine.jar", str(LOG_STORE_JAR)]
        assert [Path(name).name for name in names[2:]] == list(read_hashes(LOCKS / "s3a.sha256"))
    assert len(fetched) == 1
    assert said == ["fetching 36 jars for S3 (once)"]


@pytest.mark.parametrize(
    ("settings", "code", "text"),
    [
        (
            {"spark.hadoop.fs.s3a.secret.key": "hunter2"},
            "HW_STORE_SECRET",
            "the target sets spark.hadoop.fs.s3a.secret.key: remove it, and set AWS_ACCESS_KEY_ID "
            "and AWS_SECRET_ACCESS_KEY in the environment, or use the role of the machine",
        ),
        (
            {"spark.hadoop.fs.s3a.bucket.a.b.session.token": "hunter2"},
            "HW_STORE_SECRET",
            "the target sets spark.hadoop.fs.s3a.bucket.a.b.session.token: remove it, and set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or use the role of "
            "the machine",
        ),
        (
            {"spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net": "hunter2"},
            "HW_STORE_SECRET",
            "the target sets spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net: remove "
            "it, and keep it in a credential provider of Hadoop (spark.hadoop.hadoop.security."
            "credential.provider.path), or use the role of the machine",
        ),
        (
            {WAREHOUSE: "s3://lake/warehouse"},
            "HW_LOG_STORE",
            "the target has tables in s3://lake/warehouse, where commits are not safe: write "
            "s3a://lake/warehouse",
        ),
        *(
            (
                {WAREHOUSE: LAKE, name: value},
                "HW_LOG_STORE",
                f"the target sets {name} to {value}, with which two drivers can overwrite each "
                "other's commits on S3: remove it",
            )
            for name, value in ((OF_S3A, OWN), (OF_ALL_SCHEMES, OWN), (COMMIT_INFO, "false"))
        ),
    ],
)
def test_settings_that_are_not_safe_are_refused(
    settings: Mapping[str, str], code: str, text: str
) -> None:
    with pytest.raises(UserError) as caught:
        object_store.check(settings, "the target")
    assert (caught.value.code, caught.value.text) == (code, text)


ACCOUNT = "shop.dfs.core.windows.net"


@pytest.mark.parametrize(
    "name",
    [
        "fs.s3a.secret.key",  # which a session of Spark passes on to Hadoop
        "spark.hadoop.fs.s3a.proxy.password",
        "spark.hadoop.fs.s3a.encryption.key",
        "spark.hadoop.fs.s3a.bucket.lake.server-side-encryption.key",
        f"spark.hadoop.fs.azure.account.key.{ACCOUNT}",
        "spark.hadoop.fs.azure.account.oauth2.client.secret",
        f"spark.hadoop.fs.azure.account.oauth2.client.secret.{ACCOUNT}",
        f"spark.hadoop.fs.azure.sas.fixed.token.{ACCOUNT}",
        "spark.hadoop.fs.azure.account.oauth2.refresh.token",
        "spark.hadoop.fs.azure.encryption.encoded.client-provided-key",
        "spark.hadoop.fs.gs.auth.service.account.private.key",
        "spark.hadoop.fs.gs.auth.client.secret",
        "spark.hadoop.google.cloud.auth.service.account.private.key",
        "spark.executorEnv.AWS_SECRET_ACCESS_KEY",
        "spark.executorEnv.AWS_ACCESS_KEY_ID",
        "spark.yarn.appMasterEnv.AWS_SESSION_TOKEN",
        "spark.kubernetes.driverEnv.AZURE_CLIENT_SECRET",
    ],
)
def test_secrets_of_every_store_are_refused(name: str) -> None:
    with pytest.raises(UserError) as caught:
        object_store.check({name: "hunter2"}, "it")
    assert str(caught.value).startswith(f"[HW_STORE_SECRET] it sets {name}: remove it")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.hadoop.fs.s3a.endpoint", "http://store:9000"),
        ("spark.hadoop.fs.s3a.endpoint.region", "eu-central-1"),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", "org.example.Provider"),
        ("spark.hadoop.fs.s3a.bucket.key.endpoint", "http://store:9000"),
        ("spark.hadoop.fs.s3a.encryption.key", "arn:aws:kms:eu-central-1:1:key/shop"),
        ("spark.hadoop.fs.s3a.assumed.role.arn", "arn:aws:iam::1:role/shop"),
        (f"spark.hadoop.fs.azure.account.auth.type.{ACCOUNT}", "OAuth"),
        (f"spark.hadoop.fs.azure.account.keyprovider.{ACCOUNT}", "org.example.Provider"),
        (f"spark.hadoop.fs.azure.account.oauth2.client.id.{ACCOUNT}", "shop"),
        ("spark.hadoop.fs.azure.sas.token.provider.type", "org.example.Provider"),
        ("spark.hadoop.fs.gs.auth.service.account.json.keyfile", "/run/secrets/gs.json"),
        ("spark.hadoop.hadoop.security.credential.provider.path", "jceks://file/run/secrets/x"),
        ("spark.executorEnv.AWS_REGION", "eu-central-1"),
        ("spark.executorEnv.AWS_WEB_IDENTITY_TOKEN_FILE", "/run/secrets/token"),
        ("spark.authenticate.secret", "of a cluster, by env_var"),
    ],
)
def test_settings_that_name_no_secret_are_allowed(name: str, value: str) -> None:
    object_store.check({name: value}, "the target")


def test_settings_that_are_safe_or_not_on_s3_are_allowed() -> None:
    object_store.check({WAREHOUSE: LAKE}, "the target")
    object_store.check({WAREHOUSE: LAKE, OF_S3A: LOG_STORE, COMMIT_INFO: "true"}, "the target")
    object_store.check({WAREHOUSE: LAKE, OF_S3A: BY_DYNAMODB}, "the target")
    object_store.check({WAREHOUSE: "/data", OF_ALL_SCHEMES: OWN, COMMIT_INFO: "false"}, "it")
    object_store.check({WAREHOUSE: "gs://lake", OF_ALL_SCHEMES: OWN}, "it")


def check_server(location: str = "", **settings: str) -> str:
    """Return the refusal of a server with these settings and a location of tables, or ''."""
    named = {"warehouse": WAREHOUSE, "s3a": OF_S3A, "every": OF_ALL_SCHEMES, "info": COMMIT_INFO}
    given = {named[name]: value for name, value in settings.items()}
    try:
        object_store.check_server(given.get, "sc://host:15002", location)
    except UserError as error:
        return str(error)
    return ""


def test_a_server_on_s3_without_the_log_store_is_refused() -> None:
    assert check_server(warehouse="file:/data") == ""
    assert check_server(warehouse=LAKE, s3a=LOG_STORE) == ""
    assert check_server(warehouse=LAKE) == (
        "[HW_LOG_STORE] the Spark at sc://host:15002 has tables in s3a://lake/warehouse and "
        "Delta's own log store, with which two drivers overwrite each other's commits: start it "
        f'with --conf {OF_S3A}={LOG_STORE} --jars "$(headwaters store jars)"'
    )
    own = "has tables in s3a://other/at and Delta's own log store, with which two drivers"
    assert own in check_server(location="s3a://other/at", warehouse="file:/data")
    assert check_server(location="s3a://other/at", warehouse="file:/data", s3a=LOG_STORE) == ""
    assert check_server(location="/data/at", warehouse=LAKE) == ""
    assert check_server(warehouse=LAKE, s3a=OWN).startswith(
        f"[HW_LOG_STORE] the Spark at sc://host:15002 sets {OF_S3A} to {OWN}, with which"
    )
    assert "sets spark.delta.logStore.class to" in check_server(
        warehouse=LAKE, s3a=LOG_STORE, every=OWN
    )
    assert "write s3a://lake" in check_server(warehouse="s3://lake", s3a=LOG_STORE)


# -- the jar --------------------------------------------------------------------------------------


def test_the_jar_was_built_from_the_source_beside_it() -> None:
    """A change of the source needs `python tests/python/log_store.py`."""
    with zipfile.ZipFile(LOG_STORE_JAR) as jar:
        classes = (LOG_STORE, CHECKPOINT_FILES)
        names = {MANIFEST, *(f"{name.replace('.', '/')}.class" for name in classes)}
        assert names <= set(jar.namelist())
        assert jar.read(MANIFEST).decode() == manifest()


# -- the check ------------------------------------------------------------------------------------

REFUSED = StoreError("RemoteFileChangedException", "refused by the store")
BUSY = StoreError("AWSServiceIOException", "conflict (Service: S3, Status Code: 409)")


def race(kind: Kind, *winners: int, stored: int | None, writers: int = 2) -> Race:
    """Return a race in which these writers won."""
    return Race(kind, tuple(None if one in winners else REFUSED for one in range(writers)), stored)


def test_one_winner_for_each_key_is_safe() -> None:
    put, multipart = race("put", 0, stored=0), race("multipart", 2, stored=2, writers=3)
    found = verdict([put, put, multipart], [])
    assert found.is_safe
    assert found.lines == (
        "conditional put: 2 keys, one winner each for 2",
        "conditional multipart completion: 1 keys, one winner each for 1",
    )


def test_a_lost_answer_is_counted_and_safe() -> None:
    found = verdict([race("put", stored=1), race("put", 0, stored=0)], [])
    assert found.is_safe
    assert found.lines[0] == (
        "conditional put: 2 keys, one winner each for 1; 1 whose answer was lost, which the log "
        "store finds by reading the file"
    )


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (
            race("put", 0, 1, stored=1),
            "conditional put: 1 keys with two winners or more: a commit of each would be lost",
        ),
        (
            race("multipart", 0, stored=1),
            "conditional multipart completion: 1 keys with the content of a writer that was "
            "refused",
        ),
        (race("put", 0, stored=None), "conditional put: 1 keys with a winner and no file"),
        (
            race("put", stored=None),
            "conditional put: 1 keys that the store refused to all writers",
        ),
        (
            Race("put", (None, StoreError("AWSStatus500Exception", "internal")), 0),
            "conditional put: 1 requests failed: AWSStatus500Exception: internal",
        ),
    ],
)
def test_each_fault_is_a_line(found: Race, line: str) -> None:
    result = verdict([found], [])
    assert not result.is_safe
    assert result.lines[2:] == (line,)


def test_a_conflict_is_a_refusal_and_no_failure() -> None:
    assert verdict([Race("put", (None, BUSY), 0)], []).is_safe


def test_a_store_that_ignores_the_condition_is_named() -> None:
    result = verdict([race("multipart", 0, stored=0)], ["put"])
    assert not result.is_safe
    assert result.lines == (
        "conditional multipart completion: 1 keys, one winner each for 1",
        "conditional put: the store ignores the condition and overwrites",
    )


def test_a_place_is_a_uri_of_s3a() -> None:
    assert parse_uri("s3a://lake") == "s3a://lake"
    assert parse_uri("s3a://lake/a prefix/") == "s3a://lake/a prefix"
    for wrong in ("lake", "/lake", "s3a:///lake", "https://lake", "s3a://key:secret@lake/x"):
        with pytest.raises(UserError, match="name s3a://bucket/prefix") as caught:
            parse_uri(wrong)
        assert caught.value.code == "HW_STORE_URI"
        assert "secret" not in str(caught.value)
    with pytest.raises(UserError, match=r"such as s3a://lake/x$"):
        parse_uri("s3://lake/x")


@pytest.mark.parametrize(
    ("name", "message", "is_write", "code"),
    [
        ("UnknownStoreException", "`s3a://b/': Bucket does not exist", False, "HW_STORE_BUCKET"),
        (
            "AccessDeniedException",
            "s3a://b/x: getFileStatus: The AWS Access Key Id you provided does not exist "
            "(Service: S3, Status Code: 403): InvalidAccessKeyId",
            False,
            "HW_STORE_KEYS",
        ),
        ("AccessDeniedException", "SignatureDoesNotMatch: 403", False, "HW_STORE_KEYS"),
        ("AWSBadRequestException", "ExpiredToken: Status Code: 400", False, "HW_STORE_KEYS"),
        ("AWSBadRequestException", "RequestTimeTooSkewed: 403", False, "HW_STORE_CLOCK"),
        ("NoAuthWithAWSException", "No AWS Credentials provided", False, "HW_STORE_KEYS"),
        ("AccessDeniedException", "null (Status Code: 403): 403", False, "HW_STORE_KEYS"),
        ("AccessDeniedException", "AccessDenied: 403", True, "HW_STORE_READ_ONLY"),
        ("ConnectException", "Connection refused", False, "HW_STORE_AWAY"),
        ("AWSServiceIOException", "a\nstrange answer", False, "HW_STORE_AWAY"),
    ],
)
def test_each_refusal_of_a_store_is_one_line(
    name: str, message: str, is_write: bool, code: str
) -> None:
    error: CodedError = refusal("s3a://b/x", StoreError(name, message), is_write)
    assert error.code == code
    assert "\n" not in str(error)
    assert isinstance(error, WorkError if code == "HW_STORE_AWAY" else UserError)
