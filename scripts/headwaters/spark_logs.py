"""Where an embedded Spark writes its logs: Spark is silent on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

LOGGING = Path(__file__).with_name("log4j2.properties")


def logging_to(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of an embedded Spark that writes its logs, and Derby's, into a folder.

    pip cannot write into pyspark's configuration, so Java is told by options; those that the
    settings name already stand.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = settings.get("spark.driver.extraJavaOptions", "")
    more = {"derby.stream.error.file": str(folder / "derby.log")}
    if "-Dlog4j2.configurationFile=" not in options:
        more["log4j2.configurationFile"] = LOGGING.as_uri()
        more["headwaters.logs"] = str(folder)
    for name, value in more.items():
        if f"-D{name}=" not in options:
            mark = '"' if "'" in value else "'"
            options += f" {mark}-D{name}={value}{mark}"
    return {**settings, "spark.driver.extraJavaOptions": options.strip()}
