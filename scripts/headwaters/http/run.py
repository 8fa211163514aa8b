"""`headwaters serve`: the streams that have a target, their writers, and the server."""

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

from headwaters.http.app import Application, Endpoint
from headwaters.http.delta import DeltaWriter, arrow_schema
from headwaters.http.kafka import KafkaWriter
from headwaters.http.keys import keys_from
from headwaters.http.limits import Limits, configured
from headwaters.http.schema import RequestReader, reader_of
from headwaters.platform.errors import UserError
from headwaters.platform.places import Place
from headwaters.platform.project import Project
from headwaters.platform.servers import LOOPBACK, check_port
from headwaters.streams.contract import Contract
from headwaters.streams.sources import kafka_client

KAFKA_LINGER, DELTA_LINGER = 0.005, 0.2  # seconds: a transaction is cheaper than a commit of Delta
MOST = 10_000  # records of one batch, unless one request has more


@dataclass(frozen=True)
class ServeOptions:
    """The options of the command line."""

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
    options: ServeOptions,
    say: Callable[[str], None],
) -> None:
    """Serve streams until SIGTERM or Ctrl-C, which finish the requests in flight.

    `named` are the words of the selection. Raises UserError and WorkError before it listens.
    """
    check_port(options.port, "--port")
    keys = keys_from(options.keys_from, options.host)
    if (options.tls_cert is None) != (options.tls_key is None):
        raise UserError("HW_ARGUMENT", "--tls-cert and --tls-key belong together: name both")
    project.enter()
    served = with_target(project.lake, contracts, named, say)
    with listening(options.host, options.port) as listener:
        port = int(listener.getsockname()[1])
        _check_certificate(options)
        endpoints = endpoints_of(project, served, options, port)
        application = Application(endpoints, keys, options.limits)
        for writer in {id(one.writer): one.writer for one in endpoints}.values():
            writer.on_failure = partial(_journal, project.local)
        config = configured(
            application.asgi(),
            ssl_certfile=options.tls_cert,
            ssl_keyfile=options.tls_key,
            timeout_graceful_shutdown=60,
        )
        config.load()
        for endpoint in endpoints:
            for left in endpoint.reader.unchecked:
                say(f"{endpoint.name}: only ingestion evaluates {left}")
            say(f"{endpoint.name}: POST /streams/{endpoint.name} → {endpoint.target}")
        scheme = "https" if options.tls_cert else "http"
        if keys and not options.tls_cert and options.host not in LOOPBACK:
            say("keys are sent unencrypted: use --tls-cert and --tls-key, or a proxy with TLS")
        shown = f"[{options.host}]" if ":" in options.host else options.host
        listener.listen(2048)
        say(f"serving at {scheme}://{shown}:{port} (page: /docs)")
        # uvicorn raises the signal again at its end
        before = {n: signal.signal(n, lambda *_: None) for n in (signal.SIGTERM, signal.SIGINT)}
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def endpoints_of(
    project: Project, contracts: Sequence[Contract], options: ServeOptions, port: int
) -> list[Endpoint]:
    """Return the endpoints of streams that have a target, with connected writers.

    Raises UserError and WorkError if a target cannot be written.
    """
    topics = _to_topics(project, contracts, options, port)
    return [*topics, *_to_tables(project, contracts, options)]


def with_target(
    lake: Place, contracts: Sequence[Contract], named: Sequence[str], say: Callable[[str], None]
) -> list[Contract]:
    """Return the streams that have a target, and print a reason for each of the others.

    Raises UserError if a stream without a target was selected by name, or if no stream is left.
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
            "no stream has a target: the HTTP endpoint writes to streams `from: kafka` with "
            "`format: json`, and `from: delta` with a path in the lake",
        )
    paths: dict[str, str] = {}
    for contract in found:
        path = str(contract.stream.path)
        if contract.source.http_target == "table" and (other := paths.get(path)):
            raise UserError(
                "HW_SERVE_TARGET",
                f"{contract.file}: {other} and {contract.name} read one table, {path}: select one "
                "of them",
            )
        if contract.source.http_target == "table":
            paths[path] = contract.name
    return found


def no_target(lake: Place, contract: Contract) -> str | None:
    """Return why the HTTP endpoint cannot write to a stream, or None."""
    stream = contract.stream
    try:
        if contract.source.http_target == "topics":
            if stream.format != "json":
                return (
                    f"format {stream.format}: the HTTP endpoint takes JSON, and sends it as it is"
                )
            reader_of(contract)
            return None
        if contract.source.http_target == "table":
            arrow_schema(RequestReader(contract))
            if not isinstance(lake, Path):
                return f"the lake is {lake}: the HTTP endpoint writes to tables in folders"
            path = Path(os.path.normpath(lake / str(stream.path)))
            if "://" in str(stream.path) or lake not in path.parents:
                return f"{stream.path} is not in the lake: the HTTP endpoint writes there alone"
            return None
    except ValueError as error:
        return str(error)
    return f"from {stream.source}: the HTTP endpoint writes to topics and to Delta tables"


def _to_topics(
    project: Project, contracts: Sequence[Contract], options: ServeOptions, port: int
) -> list[Endpoint]:
    """Return the endpoints of topics: those of one broker share a writer."""
    brokers: dict[str, list[Contract]] = {}
    servers: dict[str, str] = {}
    for contract in contracts:
        if contract.source.http_target == "topics":
            named = contract.stream.servers or kafka_client.servers(project.local)
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
        identity = _identity(project.local, port, number)
        writer = KafkaWriter(servers[broker], identity, settings, linger, MOST)
        topics = sorted({topic for contract in streams for topic in contract.stream.topics})
        writer.open(topics, options.create_topics)
        compacted = writer.compacted(topics)
        found += [
            Endpoint(one, reader_of(one), writer, one.stream.topics, _required_key(one, compacted))
            for one in streams
        ]
    return found


def _required_key(contract: Contract, compacted: Sequence[str]) -> str | None:
    """Return the field that must be the key of each message, if the topic is compacted.

    Raises UserError for a stream that needs more than the last message of each key.
    """
    stream = contract.stream
    found = [topic for topic in stream.topics if topic in compacted]
    if not found:
        return None
    if stream.changes is None or len(stream.changes.key) != 1:
        raise UserError(
            "HW_SERVE_TARGET",
            f"{contract.file}: {contract.name}: topic {found[0]} is compacted (cleanup.policy), so "
            "that accepted records may be gone before they are ingested: set the policy to delete, "
            "or declare `changes` with a key of one column",
        )
    return stream.changes.key[0]


def _to_tables(
    project: Project, contracts: Sequence[Contract], options: ServeOptions
) -> list[Endpoint]:
    found = []
    linger = DELTA_LINGER if options.linger is None else options.linger
    for contract in contracts:
        if contract.source.http_target == "table":
            path = project.local / str(contract.stream.path)  # `no_target` refuses stores
            reader = RequestReader(contract, no_others=True)
            writer = DeltaWriter(reader, path, linger, MOST)
            writer.open()
            found.append(Endpoint(contract, reader, writer))
    return found


def _identity(lake: Path, port: int, number: int) -> str:
    """Return a `transactional.id`: the same after a restart, another for each process."""
    place = hashlib.sha256(f"{os.uname().nodename}:{lake}".encode()).hexdigest()[:12]
    return f"headwaters-serve-{place}-{port}-{number}"


def listening(host: str, port: int) -> socket.socket:
    """Return a bound socket; 0 is any port. Raises UserError if the address is taken."""
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


def _check_certificate(options: ServeOptions) -> None:
    """Raise UserError for a certificate that cannot be used."""
    if options.tls_cert and options.tls_key:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                options.tls_cert, options.tls_key
            )
        except OSError as error:  # includes errors of ssl
            raise UserError(
                "HW_SERVE_TLS",
                f"--tls-cert {options.tls_cert}, --tls-key {options.tls_key}: {error}",
            ) from None


def _journal(lake: Path, error: Exception) -> None:
    """Append a line of JSON for a batch that was not written, in `<lake>/logs/serve.jsonl`."""
    line = {"at": datetime.now(UTC).isoformat(), "error": str(error)}
    file = lake / "logs" / "serve.jsonl"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as journal:
            journal.write(json.dumps(line) + "\n")
    except OSError:  # a full disk must not stop the endpoint
        return
