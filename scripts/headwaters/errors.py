"""The two ways in which a command ends badly, and how they are shown."""

import errno
import logging
import subprocess
import sys
import warnings

# Of what the operating system refuses: the disk, and not what somebody wrote or set up.
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


class CodedError(Exception):
    """An error with the stable code of its cause, which docs/errors.md explains."""

    def __init__(self, code: str, text: str) -> None:
        """The error of a cause: what is wrong, and what to write or run."""
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        """As it is shown: in one line, as the errors of macros are."""
        return f"[{self.code}] {self.text}"


class UserError(CodedError):
    """Something a person wrote or set up wrongly. Shown as one line; exit code 2."""


class WorkError(CodedError):
    """Work that was started rightly and failed. Shown as one line; exit code 1."""


def refused_file(error: OSError, what: str, remedy: str = "") -> CodedError:
    """What the operating system refuses of a file: work that failed where it is the disk."""
    kind = WorkError if error.errno in DISK else UserError
    return kind("HW_FILE", f"{what}: {error.strerror}{remedy and f'. {remedy}'}")


def first_line(error: Exception) -> str:
    """What an error says, without what Spark and dbt add in further lines."""
    return str(getattr(error, "msg", error)).splitlines()[0]


def quiet() -> None:
    """Keep PySpark and Py4J from printing errors that are said in one line; the log has all."""
    # set-up imports this module before pyspark is installed
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j.clientserver"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    # a call to a server that is gone is said in one line as well
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
    # Py4j logs to the root logger where Java has gone
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)


def server_ended() -> WorkError:
    """That a Spark in a process of its own no longer answers."""
    return WorkError(
        "HW_SPARK_ENDED",
        "the Spark server no longer answers: see its log, and whether the system ran out of memory."
        " `headwaters engine start` starts the engine of a lake again. The next run resumes",
    )


def java_ended() -> WorkError | None:
    """How the Java of this process's embedded Spark ended; None where it runs.

    To be asked when something failed: Java may be about to end.
    """
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is None:
        return None
    try:
        code = process.wait(2)
    except subprocess.TimeoutExpired:
        return None
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return WorkError(
        "HW_SPARK_ENDED",
        f"Spark's Java ended ({how}): see whether the system was out of memory "
        "(HEADWATERS_DRIVER_MEMORY says how much Spark takes). The next run resumes",
    )
