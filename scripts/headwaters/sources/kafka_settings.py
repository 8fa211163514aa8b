"""`client`: the settings of Kafka's clients, of which secrets are references and no values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator

from headwaters.declared.fields import Part, text_of

# Settings of Kafka's clients, Java's and librdkafka's, that hold a secret or may hold one.
_SECRET = re.compile(
    r"(?i)password|passphrase|secret|jaas|private[._]key|basic\.auth|oauthbearer\.config"
    r"|ssl\.key\.pem|keystore\.key$"
)
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def is_secret(setting: str) -> bool:
    """Whether a setting of Kafka's client is one whose value nobody else may read."""
    return bool(_SECRET.search(setting))


class Reference(Part):
    """A value that stands in an environment variable: it is read where it is used, and not kept."""

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
    """What is wrong with the settings of Kafka's client, or None; a value is never shown.

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
