"""The build of the log store's jar, by the compiler in pyspark's jars: no JDK is needed.

`python tests/python/log_store.py` builds it after a change of its source.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
import zipfile
from pathlib import Path

from headwaters.platform.atomic_write import draft
from headwaters.platform.java_gateway import java_gateway
from headwaters.platform.object_store import LOG_STORE_JAR

SOURCES = sorted(LOG_STORE_JAR.parent.glob("Conditional*.java"))
MANIFEST = "META-INF/MANIFEST.MF"
CLASS_VERSION = 8  # Janino knows no newer one that all of Spark's Javas read


def build() -> bytes:
    """Return the jar of the sources: the same bytes for the same sources."""
    with tempfile.TemporaryDirectory() as folder, java_gateway() as gateway:
        files = gateway.new_array(gateway.jvm.java.io.File, len(SOURCES))
        for number, source in enumerate(SOURCES):
            files[number] = gateway.jvm.java.io.File(str(source))
        compiler = gateway.jvm.org.codehaus.janino.Compiler()
        compiler.setDestinationDirectory(gateway.jvm.java.io.File(folder), False)
        compiler.setTargetVersion(CLASS_VERSION)
        for has_debug in (compiler.setDebugLines, compiler.setDebugSource, compiler.setDebugVars):
            has_debug(True)
        compiler.compile(files)
        classes = {
            str(file.relative_to(folder)): file.read_bytes()
            for file in sorted(Path(folder).rglob("*.class"))
        }
    return _jar({MANIFEST: manifest().encode(), **classes})


def manifest() -> str:
    """Return the manifest of the jar, with the digest of its sources."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()
    return f"Manifest-Version: 1.0\r\nSource: {digest}\r\n\r\n"


def _jar(members: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, member in members.items():
            archive.writestr(zipfile.ZipInfo(name), member)  # with the time of 1980
    return content.getvalue()


if __name__ == "__main__":
    with draft(LOG_STORE_JAR) as path:
        path.write_bytes(build())
