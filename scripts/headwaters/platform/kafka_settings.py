"""The settings of Kafka's clients in `client`. Secrets are references, never values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator

from headwaters.platform.fields import Part, text_of

# Settings of Kafka's clients, Java's and librdkafka's, that contain or may contain a secret.
_SECRET = re.compile(
    r"(?i)password|passphrase|secret|jaas|private[._]key|basic\.auth|oauthbearer\.config"
    r"|ssl\.key\.pem|keystore\.key$"
)
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def is_secret(setting: str) -> bool:
    """Return true if a setting's value is or may be secret."""
    return bool(_SECRET.search(setting))


class Reference(Part):
    """A reference to an environment variable, resolved on each use and never stored."""

    env: str


def _settings(values: object) -> object:
    if not isinstance(values, dict):
        return values
    return {
        key: value if isinstance(value, dict | Reference) else text_of(value)
        for key, value in values.items()
    }


Settings = Annotated[dict[str, str | Reference], BeforeValidator(_settings)]


def client_problem(client: object) -> str | None:
    """Return the problem of a Kafka client's settings, or None; it never shows a value.

    A secret in the YAML, or from `env_var`, would be in dbt's manifest and in the checkpoint.
    """
    if client is None:
        return None
    if not isinstance(client, Mapping):
        return "is not a mapping of settings to values"
    for key, value in client.items():
        if isinstance(value, Mapping):
            name = value.get("env")
            if set(value) != {"env"} or not _VARIABLE.fullmatch(str(name)):
                return f"{key}: a value from the environment is written {{env: VARIABLE}}"
        elif is_secret(str(key)):
            return (
                f"{key} is a secret, and dbt writes what the YAML says into target/: write "
                f"{key}: {{env: VARIABLE}}, naming the environment variable that has it. Delete "
                "target/ if the value was real"
            )
    return None
