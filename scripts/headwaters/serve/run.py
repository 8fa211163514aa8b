"""`headwaters serve`: which streams have a target, their writers, and the server."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import uvicorn

from headwaters import lake as lakes
from headwaters.contract import Contract
from headwaters.errors import UserError
from headwaters.project import Project
from headwaters.serve.delta import DeltaWriter, arrow_schema
from headwaters.serve.door import Endpoint, FrontDoor, Limits
from headwaters.serve.events import reader_of
from headwaters.serve.http import configured
from headwaters.serve.kafka import KafkaWriter
from headwaters.serve.keys import keys_from
from headwaters.serve.records import Reader
from headwaters.servers import LOOPBACK, check_port
from headwaters.sources import kafka_client

KAFKA_LINGER, DELTA_LINGER = 0.005, 0.2  # seconds: a transaction is cheaper than a commit of Delta
MOST = 10_000  # records of one batch, unless one request has more


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    host: str = "127.0.0.1"
    port: int = 8080
    keys_from: str | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    linger: float | None = None
    create_topics: bool = False
    limits: Limits = field(default_factory=Limits)


def serve(
    project: Project,
    contracts: Sequence[Contract],
    named: Sequence[str],
    options: Options,
    say: Callable[[str], None],
) -> None:
    """Serve streams until SIGTERM or Ctrl-C, which finish what is in flight.

    `named` are the words of the selection. Raises UserError and WorkError for what cannot be.
    """
    check_port(options.port, "--port")
    keys = keys_from(options.keys_from, options.host)
    if (options.tls_cert is None) != (options.tls_key is None):
        raise UserError("HW_ARGUMENT", "--tls-cert and --tls-key belong together: name both")
    lakes.enter(project.lake)
    served = with_target(project.lake, contracts, named, say)
    with listening(options.host, options.port) as listener:
        port = int(listener.getsockname()[1])
        _check_certificate(options)
        endpoints = endpoints_of(project, served, options, port)
        door = FrontDoor(endpoints, keys, options.limits)
        for writer in {id(one.writer): one.writer for one in endpoints}.values():
            writer.on_failure = partial(_journal, project.lake)
        config = configured(
            door.application(),
            ssl_certfile=options.tls_cert,
            ssl_keyfile=options.tls_key,
            timeout_graceful_shutdown=60,
        )
        config.load()
        for endpoint in endpoints:
            for left in endpoint.reader.unchecked:
                say(f"{endpoint.name}: evaluated by ingestion: {left}")
            say(f"{endpoint.name}: POST /streams/{endpoint.name} → {endpoint.target}")
        scheme = "https" if options.tls_cert else "http"
        if keys and not options.tls_cert and options.host not in LOOPBACK:
            say("keys are sent unencrypted: use --tls-cert and --tls-key, or a proxy with TLS")
        shown = f"[{options.host}]" if ":" in options.host else options.host
        listener.listen(2048)
        say(f"serving at {scheme}://{shown}:{port} (page: /docs)")
        # uvicorn raises the signal again when all is done: it is then done
        before = {n: signal.signal(n, lambda *_: None) for n in (signal.SIGTERM, signal.SIGINT)}
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def endpoints_of(
    project: Project, contracts: Sequence[Contract], options: Options, port: int
) -> list[Endpoint]:
    """The endpoints of streams that have a target, with their writers connected.

    Raises UserError and WorkError where a target cannot be written.
    """
    topics = _to_topics(project, contracts, options, port)
    return [*topics, *_to_tables(project, contracts, options)]


def with_target(
    lake: Path, contracts: Sequence[Contract], named: Sequence[str], say: Callable[[str], None]
) -> list[Contract]:
    """The streams that the door can write to; of others a line says why not.

    Raises UserError where one of these was selected by its name, or nothing is left.
    """
    found = []
    for contract in contracts:
        problem = no_target(lake, contract)
        if problem is None:
            found.append(contract)
        elif contract.name in named or any(one.endswith(f".{contract.name}") for one in named):
            raise UserError("HW_SERVE_TARGET", f"{contract.file}: {contract.name}: {problem}")
        else:
            say(f"{contract.name}: not served: {problem}")
    if not found:
        raise UserError(
            "HW_SERVE_TARGET",
            "no stream has a target: the front door writes to streams `from: kafka` with "
            "`format: json`, and `from: delta` with a path in the lake",
        )
    paths: dict[str, str] = {}
    for contract in found:
        path = str(contract.stream.path)
        if contract.stream.source == "delta" and (other := paths.get(path)):
            raise UserError(
                "HW_SERVE_TARGET",
                f"{contract.file}: {other} and {contract.name} read one table, {path}: select one "
                "of them",
            )
        if contract.stream.source == "delta":
            paths[path] = contract.name
    return found


def no_target(lake: Path, contract: Contract) -> str | None:
    """Why the front door cannot write to a stream, or None."""
    stream = contract.stream
    try:
        if stream.source == "kafka":
            if stream.format != "json":
                return f"format {stream.format}: the front door takes JSON, and sends it as it is"
            reader_of(contract)
            return None
        if stream.source == "delta":
            arrow_schema(contract)
            path = Path(os.path.normpath(lake / str(stream.path)))
            if "://" in str(stream.path) or lake not in path.parents:
                return f"{stream.path} is not in the lake, where the door alone writes"
            Reader(contract)
            return None
    except ValueError as error:
        return str(error)
    return f"from {stream.source}: the front door writes to topics and to Delta tables"


def _to_topics(
    project: Project, contracts: Sequence[Contract], options: Options, port: int
) -> list[Endpoint]:
    """The endpoints of topics: one writer for each broker, so that requests share transactions."""
    brokers: dict[str, list[Contract]] = {}
    servers: dict[str, str] = {}
    for contract in contracts:
        if contract.stream.source == "kafka":
            named = contract.stream.servers or kafka_client.servers(project.lake)
            client = {key: str(value) for key, value in contract.stream.client.items()}
            broker = json.dumps([named, client], sort_keys=True)
            servers[broker] = named
            brokers.setdefault(broker, []).append(contract)
    found = []
    linger = KAFKA_LINGER if options.linger is None else options.linger
    for number, (broker, streams) in enumerate(brokers.items()):
        first = streams[0]
        settings: Callable[[], Mapping[str, str]] = partial(
            kafka_client.resolved, f"{first.file}: {first.name}", first.stream.client
        )
        identity = _identity(project.lake, port, number)
        writer = KafkaWriter(servers[broker], identity, settings, linger, MOST)
        topics = sorted({topic for contract in streams for topic in contract.stream.topics})
        writer.open(topics, options.create_topics)
        found += [Endpoint(one, reader_of(one), writer, one.stream.topics) for one in streams]
    return found


def _to_tables(project: Project, contracts: Sequence[Contract], options: Options) -> list[Endpoint]:
    found = []
    linger = DELTA_LINGER if options.linger is None else options.linger
    for contract in contracts:
        if contract.stream.source == "delta":
            path = project.lake / str(contract.stream.path)
            writer = DeltaWriter(contract, path, linger, MOST)
            writer.open()
            found.append(Endpoint(contract, Reader(contract, no_others=True), writer))
    return found


def _identity(lake: Path, port: int, number: int) -> str:
    """The `transactional.id` of a door: the same after a restart, another for each door."""
    place = hashlib.sha256(f"{os.uname().nodename}:{lake}".encode()).hexdigest()[:12]
    return f"headwaters-serve-{place}-{port}-{number}"


def listening(host: str, port: int) -> socket.socket:
    """A socket that is bound; 0 is any port. Raises UserError where the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UserError(
            "HW_PORT",
            f"{host}:{port} cannot be listened on ({error.strerror}): choose another "
            "--host or --port",
        ) from None
    return listener


def _check_certificate(options: Options) -> None:
    """Raises UserError for a certificate that cannot be used."""
    if options.tls_cert and options.tls_key:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                options.tls_cert, options.tls_key
            )
        except OSError as error:  # also of ssl's own
            raise UserError(
                "HW_SERVE_TLS",
                f"--tls-cert {options.tls_cert}, --tls-key {options.tls_key}: {error}",
            ) from None


def _journal(lake: Path, error: Exception) -> None:
    """One line of JSON for each batch that was not written, in `<lake>/logs/serve.jsonl`."""
    line = {"at": datetime.now(UTC).isoformat(), "error": str(error)}
    file = lake / "logs" / "serve.jsonl"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as journal:
            journal.write(json.dumps(line) + "\n")
    except OSError:  # a full disk must not stop the door
        return
