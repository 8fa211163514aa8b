"""The HTTP endpoint: records of a request by HTTP, and the same producer called without HTTP

32 clients at once send requests of 1, 100 and 1,000 records of about 200 bytes into a topic of 3
partitions. `producer` writes the texts of the records unchecked, in the same transactions.
`checked` first checks each record against the contract, as the endpoint does. `http` is the
endpoint in one process, with its clients in another. `http alone` is the same server with an
application that only reads the body, splits it into records and writes them. It has no check, no
limit and no metric. Each variant gets the same requests; CPU is that of the writing process alone.

Then the time of each answer is measured while requests of 100 records arrive at half of the rate
that `http` reached.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import socket
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from itertools import islice
from typing import Any

import msgspec
import uvicorn
from starlette.types import Receive, Scope, Send

from benchmarks.bench_ingest import COLUMNS, _records
from benchmarks.runner import ROOT, Bench, Clock, clock, cpu_of
from headwaters.devkit import broker as brokers
from headwaters.devkit.samples.send import make_topic
from headwaters.http.app import Application, Endpoint
from headwaters.http.kafka import KafkaWriter
from headwaters.http.keys import Keys
from headwaters.http.limits import Limits, configured
from headwaters.http.run import KAFKA_LINGER, MOST
from headwaters.http.schema import RequestReader
from headwaters.http.targets import Request
from headwaters.platform.project import Project
from headwaters.streams.contract import Contract, parse_contract

NOTES = """
Goal: at least 0.3 of the producer's records per second at 100 records a request, which is a wall
time of at most 3.33, and 99 % of the answers within 250 ms at half of the rate of `http`. They came
within 31 ms.
""".strip()
TIMES = int(os.environ.get("HEADWATERS_BENCH_TIMES", "3"))
SECONDS = int(os.environ.get("HEADWATERS_BENCH_SECONDS", "30"))  # of the latency's measurement
CLIENTS = 32
Serve = Callable[[Contract, socket.socket], None]
REQUESTS = {1: 4_000, 100: 1_000, 1_000: 150}


def run(bench: Bench) -> None:
    """Start one broker, and an endpoint for each measurement."""
    os.chdir(ROOT)
    os.environ["HEADWATERS_LAKE"] = str(bench.work)
    project = Project(ROOT)
    broker = brokers.start(project)
    try:
        rate = 0.0
        for size, number in REQUESTS.items():
            topic = f"edges_{size}"
            make_topic(broker.servers, topic, 3)
            contract = _contract(topic, broker.servers)
            bodies = _bodies(size, min(number, 200))
            case = f"{size:,} records a request"
            given = contract, bodies, number
            works = {
                "producer": partial(_called, *given, checked=False),
                "checked": partial(_called, *given, checked=True),
                "http": partial(_by_http, *given, serve=_serve),
                "http alone": partial(_by_http, *given, serve=_serve_alone),
            }
            # in turn, so that the machine's other work affects all equally
            rounds = [{name: work() for name, work in works.items()} for _ in range(TIMES)]
            for variant in works:
                found = [one[variant] for one in rounds]
                wall = statistics.median(one.wall for one in found)
                cpu = statistics.median(one.cpu for one in found)
                bench.record(case, variant, wall, cpu, rows=size * number)
                print(f"  {number / wall:,.0f} requests/s, {size * number / wall:,.0f} records/s")
                if (size, variant) == (100, "http"):
                    rate = number / wall
        _latency(bench, _contract("edges_100", broker.servers), _bodies(100, 200), rate / 2)
    finally:
        brokers.stop(project.local)


def _writer(contract: Contract, name: str) -> KafkaWriter:
    servers = str(contract.stream.servers)
    writer = KafkaWriter(servers, f"bench-{name}", dict, KAFKA_LINGER, MOST)
    writer.open(contract.stream.topics, False)
    return writer


def _called(contract: Contract, bodies: Sequence[bytes], number: int, checked: bool) -> Clock:
    """Call the producer in this process: a client waits for each answer before its next request."""
    writer, reader = _writer(contract, "called"), RequestReader(contract)
    writer.start()
    topic = contract.stream.topics[0]
    ready = [reader.read(body, "array").texts for body in bodies]

    def send(index: int) -> Future[dict[str, Any]]:
        texts = ready[index % len(ready)]
        if checked:
            reading = reader.read(bodies[index % len(bodies)], "array")
            assert not reading.refused
            texts = reading.texts
        answer: Future[dict[str, Any]] = Future()
        writer.send(Request(topic, texts, answer=answer))
        return answer

    def work() -> None:
        with ThreadPoolExecutor(CLIENTS) as pool:
            for _ in pool.map(lambda index: send(index).result(), range(number)):
                pass

    took = clock(work)
    writer.close()
    return took


def _serve(contract: Contract, listener: socket.socket) -> None:
    writer = _writer(contract, "http")
    endpoint = Endpoint(contract, RequestReader(contract), writer, contract.stream.topics)
    app = Application([endpoint], Keys(()), Limits()).asgi()
    uvicorn.Server(configured(app)).run(sockets=[listener])


def _serve_alone(contract: Contract, listener: socket.socket) -> None:
    """Serve with as little as a Python server can do: no check, no limit, no count."""
    writer = _writer(contract, "alone")
    writer.start()
    records = msgspec.json.Decoder(list[msgspec.Raw]).decode

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        code, content = 200, b"{}"
        if scope["method"] == "POST":
            body, more = b"", True
            while more:
                message = await receive()
                body, more = body + message["body"], message["more_body"]
            answer = asyncio.get_running_loop().create_future()
            writer.send(Request(contract.stream.topics[0], records(body), answer=answer))
            code, content = 201, json.dumps(await answer).encode()
        length = str(len(content)).encode()
        await send(
            {
                "type": "http.response.start",
                "status": code,
                "headers": [(b"content-length", length)],
            }
        )
        await send({"type": "http.response.body", "body": content})

    uvicorn.Server(configured(application)).run(sockets=[listener])


def _send(
    port: int, name: str, bodies: Sequence[bytes], number: int, rate: float, out: Any
) -> None:
    """Send requests by all clients: `rate` of them a second, or as fast as answers arrive.

    Connections stay open and the requests' bytes are prepared, so that a client costs next to
    nothing. Puts into `out` the seconds from the first request to the last answer, and the time of
    each answer.
    """
    head = f"POST /streams/{name} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
    requests = [f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies]
    begun = time.monotonic()

    def client(who: int) -> list[float]:
        times = []
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for index in range(who, number, CLIENTS):
                due = begun + index / rate if rate else time.monotonic()
                time.sleep(max(0.0, due - time.monotonic()))
                connection.sendall(requests[index % len(requests)])
                answer = _answer(connection)
                assert answer.startswith(b"HTTP/1.1 201 "), answer
                times.append(time.monotonic() - due)
        return times

    with ThreadPoolExecutor(CLIENTS) as pool:
        found = [taken for times in pool.map(client, range(CLIENTS)) for taken in times]
    out.put((time.monotonic() - begun, found))


def _answer(connection: socket.socket) -> bytes:
    """Return one whole answer."""
    found = b""
    while True:
        found += connection.recv(1 << 16) or b"\r\n\r\n"
        head, end, body = found.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: ([0-9]+)", head)
        if end and (length is None or len(body) >= int(length[1])):
            return found


def _with_endpoint(
    contract: Contract, work: Callable[[int, int], Any], serve: Serve | None = None
) -> Any:
    """Return the result of work with an endpoint in another process: its port, its process."""
    context = multiprocessing.get_context("spawn")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = context.Process(target=serve or _serve, args=(contract, listener))
        process.start()
        port = listener.getsockname()[1]
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
        try:
            return work(port, int(process.pid or 0))
        finally:
            process.terminate()
            process.join()


def _requests(
    port: int, name: str, bodies: Sequence[bytes], number: int, rate: float = 0
) -> tuple[float, list[float]]:
    """Send requests from another process; return the result of `_send`."""
    context = multiprocessing.get_context("spawn")
    out: Any = context.Queue()
    sender = context.Process(target=_send, args=(port, name, bodies, number, rate, out))
    sender.start()
    found: tuple[float, list[float]] = out.get(timeout=600)
    sender.join()
    return found


def _by_http(contract: Contract, bodies: Sequence[bytes], number: int, serve: Serve) -> Clock:
    def work(port: int, pid: int) -> Clock:
        before = cpu_of(pid)
        # without the start of the clients' process
        wall, _ = _requests(port, contract.name, bodies, number)
        return Clock(wall, cpu_of(pid) - before)

    found: Clock = _with_endpoint(contract, work, serve)
    return found


def _latency(bench: Bench, contract: Contract, bodies: Sequence[bytes], rate: float) -> None:
    number = int(rate * SECONDS)
    times = sorted(
        _with_endpoint(
            contract, lambda port, _: _requests(port, contract.name, bodies, number, rate)[1]
        )
    )
    case = "an answer at half of the rate, 100 records a request"
    bench.record(case, "median", times[len(times) // 2], rows=number * 100)
    bench.record(case, "99 %", times[len(times) * 99 // 100], rows=number * 100)
    shown = [round(times[len(times) * part // 100] * 1000) for part in (50, 99)]
    print(f"  median {shown[0]} ms, 99 % {shown[1]} ms")


def _bodies(size: int, number: int) -> list[bytes]:
    records = (json.loads(text) for _, text in _records(0))
    return [json.dumps(list(islice(records, size))).encode() for _ in range(number)]


def _contract(topic: str, servers: str) -> Contract:
    rules = {
        "amount": [{"type": "not_null"}],
        "currency": [{"type": "check", "expression": "length(currency) = 3"}],
        "transaction_type": [
            {"type": "check", "expression": "transaction_type in ('debit', 'credit')"}
        ],
    }
    stream = {"from": "kafka", "topics": [topic], "servers": servers, "format": "json"}
    return parse_contract(
        {
            "original_file_path": __file__,
            "source_name": "bronze",
            "schema": "bronze",
            "name": topic,
            "identifier": topic,
            "config": {"meta": {"stream": stream}},
            "columns": {
                name: {"name": name, "data_type": kind, "constraints": rules.get(name, [])}
                for name, kind in COLUMNS.items()
            },
        }
    )
