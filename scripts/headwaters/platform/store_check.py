"""The check of an S3 store: does it let exactly one of several writers create a file?

`headwaters store check` races processes for the same keys, by a put and by the completion of a
multipart upload, each with the condition that the key does not exist. Every process is a Java with
S3A, the way of the log store. This module has the verdict; `store_race` has the race.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from headwaters.platform.errors import CodedError, UserError, WorkError

Kind = Literal["put", "multipart"]
KINDS: tuple[Kind, ...] = ("put", "multipart")
NAMES = {"put": "conditional put", "multipart": "conditional multipart completion"}


@dataclass(frozen=True)
class StoreError:
    """An error of a client of S3: the name of its class, without the package, and its message."""

    name: str
    message: str

    @property
    def is_refusal(self) -> bool:
        """Return true if the store refused the request for its condition (412 or 409)."""
        return self.name in ("RemoteFileChangedException", "FileAlreadyExistsException") or any(
            f"Status Code: {status}" in self.message for status in (409, 412)
        )


@dataclass(frozen=True)
class Race:
    """A key that all writers wrote at the same moment.

    `answers` has for each writer None for success, or the error. `stored` is the writer whose
    content the key has, or None without a file.
    """

    kind: Kind
    answers: tuple[StoreError | None, ...]
    stored: int | None

    @property
    def winners(self) -> tuple[int, ...]:
        """Return the writers that the store told of success."""
        return tuple(who for who, error in enumerate(self.answers) if error is None)


@dataclass(frozen=True)
class StoreVerdict:
    """The result of a check, in lines for people."""

    lines: tuple[str, ...]
    is_safe: bool


def verdict(races: Sequence[Race], ignores: Sequence[Kind]) -> StoreVerdict:
    """Return the verdict on the races of a store; `ignores` has the ways without any condition."""
    lines, problems = [], []
    for kind in KINDS:
        if kind in ignores:
            problems.append(f"{NAMES[kind]}: the store ignores the condition and overwrites")
            continue
        line, faults = _one_kind(kind, [race for race in races if race.kind == kind])
        lines.append(line)
        problems += [f"{NAMES[kind]}: {fault}" for fault in faults]
    return StoreVerdict((*lines, *problems), not problems)


def _one_kind(kind: Kind, races: Sequence[Race]) -> tuple[str, list[str]]:
    counts = Counter(_outcome(race) for race in races)
    line = f"{NAMES[kind]}: {len(races)} keys, one winner each for {counts['right']}"
    if lost := counts["lost answer"]:
        line += f"; {lost} whose answer was lost, which the log store finds by reading the file"
    faults = {
        "double": "{} keys with two winners or more: a commit of each would be lost",
        "other": "{} keys with the content of a writer that was refused",
        "gone": "{} keys with a winner and no file",
        "nobody": "{} keys that the store refused to all writers",
    }
    found = [text.format(counts[name]) for name, text in faults.items() if counts[name]]
    errors = Counter(
        f"{error.name}: {error.message}"[:200]
        for race in races
        for error in race.answers
        if error is not None and not error.is_refusal
    )
    found += [f"{count} requests failed: {text}" for text, count in errors.most_common(3)]
    return line, found


def _outcome(race: Race) -> str:
    if len(race.winners) > 1:
        return "double"
    if not race.winners:
        return "nobody" if race.stored is None else "lost answer"
    if race.stored is None:
        return "gone"
    return "right" if race.stored == race.winners[0] else "other"


def parse_uri(uri: str) -> str:
    """Return the URI of a folder in a bucket, without a slash at its end.

    Raises UserError for anything else than `s3a://bucket` or `s3a://bucket/prefix`.
    """
    parts = urlsplit(uri)
    if parts.scheme != "s3a" or not parts.netloc or "@" in parts.netloc or parts.query:
        shown = uri.replace(parts.netloc.rpartition("@")[0] + "@", "…@")  # it may have a secret
        hint = f", such as s3a://{parts.netloc}{parts.path}" if parts.scheme == "s3" else ""
        raise UserError(
            "HW_STORE_URI", f"'{shown}' is no place on S3: name s3a://bucket/prefix{hint}"
        )
    return uri.rstrip("/")


# Codes of S3 and classes of S3A for keys that the store does not accept.
_KEYS = (
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"),
    *("TokenRefreshRequired", "NoAuthWithAWSException", "No AWS Credentials", "Status Code: 401"),
    *("NoAwsCredentialsException", "CredentialInitializationException"),
    *("UnauthenticatedError", "169.254.169.254", "XAdminUserNotFound"),
)
_AWAY = (
    *("ConnectException", "UnknownHostException", "SocketTimeoutException", "Unable to execute"),
    *("ConnectTimeoutException", "NoRouteToHostException", "AWSClientIOException"),
    *("ApiCallTimeoutException", "NoHttpResponseException"),
    *("error sending request", "tcp connect error", "operation timed out"),
)


def refusal(uri: str, error: StoreError, is_write: bool) -> CodedError:
    """Return the one-line error for what S3A says about a first request to a store."""
    bucket = urlsplit(uri).netloc
    message = " ".join(error.message.split())
    text, reason = f"{error.name}: {message}", message[:160]
    if "UnknownStoreException" in text or "NoSuchBucket" in text:
        return UserError(
            "HW_STORE_BUCKET", f"there is no bucket {bucket}: create it, or correct the URI"
        )
    if "RequestTimeTooSkewed" in text:
        return UserError(
            "HW_STORE_CLOCK",
            f"the store of {bucket} refuses requests of this machine, whose clock differs from the "
            f"store's by more than 15 minutes: set the clock ({reason})",
        )
    if any(mark in text for mark in _KEYS):
        return UserError(
            "HW_STORE_KEYS",
            f"the store of {bucket} does not accept the keys, or there are none: set "
            f"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY ({reason})",
        )
    if any(mark in text for mark in ("AccessDenied", "Status Code: 403", "PermissionDeniedError")):
        remedy = f"permit it, or name another prefix ({reason})"
        if is_write:
            return UserError("HW_STORE_READ_ONLY", f"these keys may not write to {uri}: {remedy}")
        return UserError("HW_STORE_KEYS", f"these keys may not read {uri}: {remedy}")
    if any(mark in text for mark in _AWAY):
        return WorkError(
            "HW_STORE_AWAY",
            f"the store of {bucket} does not answer: check AWS_ENDPOINT_URL and the network "
            f"({reason})",
        )
    return WorkError("HW_STORE_AWAY", f"the store of {bucket} fails: {text[:200]}")


def report(found: StoreVerdict) -> Iterator[str]:
    """Yield the lines of a verdict, with the conclusion last."""
    yield from found.lines
    if found.is_safe:
        yield "safe: any number of drivers may write Delta tables here with headwaters' log store"
