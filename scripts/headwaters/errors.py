"""The two ways in which a command ends badly, and how they are shown."""

import logging


class UserError(Exception):
    """Something a person wrote or set up wrongly. Shown as one line; exit code 2."""


class WorkError(Exception):
    """Work that was started rightly and failed. Shown as one line; exit code 1."""


def quiet() -> None:
    """Keep PySpark and Py4J from printing errors that are said in one line; the log has all."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j.clientserver"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
