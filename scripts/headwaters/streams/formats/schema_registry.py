"""Schemas of Avro by their numbers: from a registry over HTTP, or from a folder of files.

A record that a registry's client wrote begins with five bytes: a zero and the number of the schema
that wrote it.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from pyspark.sql import Column
from pyspark.sql import functions as F

from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.kafka_settings import Reference
from headwaters.streams.contract import Contract

SECONDS = 10.0  # the wait for one answer


@dataclass(frozen=True)
class WriterSchema:
    """The schema of some records, or the reason why they cannot be read."""

    text: str = ""
    problem: str | None = None


@dataclass(frozen=True)
class SchemaPlace:
    """A registry, or a folder of files such as `42.avsc`."""

    where: str
    place: str
    user: Reference | None = None

    def find(self, number: int) -> WriterSchema:
        """Return the schema of a number. Raises WorkError if the registry does not answer."""
        text = self._ask(number) if "://" in self.place else self._read(number)
        if text is None:
            return WriterSchema(problem=f"has the schema {number}, which {self.place} has not")
        return _of_avro(number, text)

    def _read(self, number: int) -> str | None:
        file = Path(self.place) / f"{number}.avsc"
        try:
            return json.dumps({"schema": file.read_text()})
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise _away(self.where, str(file), error) from None

    def _ask(self, number: int) -> str | None:
        url = f"{self.place.rstrip('/')}/schemas/ids/{number}"
        request = Request(url, headers={"Accept": "application/vnd.schemaregistry.v1+json"})
        if self.user is not None:
            if not (user := os.environ.get(self.user.env)):
                raise UserError(
                    "HW_KAFKA_CLIENT",
                    f"{self.where}: schemas_user: the environment variable {self.user.env} is not "
                    "set",
                )
            known = base64.b64encode(user.encode()).decode()
            request.add_header("Authorization", f"Basic {known}")
        try:
            with urlopen(request, timeout=SECONDS) as answer:
                found: str = answer.read().decode()
                return found
        except HTTPError as error:
            if error.code == 404:
                return None
            raise _away(self.where, url, error) from None
        except (URLError, HTTPException, OSError, ValueError) as error:
            raise _away(self.where, url, error) from None


def _away(where: str, place: str, error: Exception) -> WorkError:
    reason = " ".join(str(getattr(error, "reason", error)).split()) or type(error).__name__
    if isinstance(error, HTTPError):
        reason = f"HTTP {error.code} {reason}"
    return WorkError("HW_SCHEMA_REGISTRY", f"{where}: {place} cannot be read: {reason}")


def _of_avro(number: int, answer: str) -> WriterSchema:
    """Return the schema in an answer, with the definitions that it refers to missing."""
    try:
        found: Mapping[str, Any] = json.loads(answer)
        kind, text = found.get("schemaType") or "AVRO", str(found["schema"])
        if kind != "AVRO":
            return WriterSchema(problem=f"has the schema {number}, which is one of {kind}")
        if found.get("references"):
            said = f"has the schema {number}, which refers to other schemas: register it as one"
            return WriterSchema(problem=said)
        schema = json.loads(text)
    except (ValueError, LookupError, AttributeError):
        return WriterSchema(problem=f"has the schema {number}, which is not JSON")
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return WriterSchema(problem=f"has the schema {number}, which is not one of records")
    return WriterSchema(text)


@cache
def _found(place: SchemaPlace) -> dict[int, WriterSchema]:
    return {}


def writer_schema(contract: Contract, number: int) -> WriterSchema:
    """Return the schema of a number. A readable one is asked for once: it never changes."""
    stream = contract.stream
    place = SchemaPlace(
        f"{contract.file}: {contract.name}", str(stream.schemas), stream.schemas_user
    )
    known = _found(place)
    if number in known:
        return known[number]
    found = place.find(number)
    if found.problem is None:
        known[number] = found
    return found


def is_framed(value: Column) -> Column:
    """Return whether bytes begin with those of a registry."""
    return (F.substring(value, 1, 1) == F.lit(b"\0")) & (F.octet_length(value) >= 5)


def unframed(value: Column) -> Column:
    """Return bytes without those of a registry, if they have them."""
    return F.when(is_framed(value), F.substr(value, F.lit(6))).otherwise(value)


def schema_number(value: Column) -> Column:
    """Return the number of the schema that wrote a record, of its first bytes."""
    return F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).cast("bigint")
