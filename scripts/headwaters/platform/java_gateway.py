"""A Java of pyspark's jars without a Spark, which Python calls through Py4J."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from headwaters.platform.jars import find_java, installed_pyspark

# A Java that lives for seconds: the best machine code would not pay.
OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dlog4j2.level=OFF")


@contextlib.contextmanager
def java_gateway(more_jars: Sequence[Path] = ()) -> Iterator[Any]:
    """Yield a connection to a new Java, which ends with the context.

    Its class path has pyspark's jars and `more_jars`. It listens on loopback, for this process.
    """
    folder = installed_pyspark() / "jars"
    [own] = folder.glob("py4j-*.jar")
    port, token, process = launch_gateway(
        jarpath=str(own),
        classpath=":".join([f"{folder}/*", *map(str, more_jars)]),
        javaopts=list(OPTIONS),
        java_path=str(find_java().path),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    try:
        # Python would tell the Java of each object that it drops, also after the Java's end
        given = GatewayParameters(port=port, auth_token=token, enable_memory_management=False)
        gateway = JavaGateway(gateway_parameters=given)
        yield gateway
        gateway.close()
    finally:
        process.stdin.close()  # it ends with its input
        process.wait()
