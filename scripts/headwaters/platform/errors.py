"""The two kinds of errors of a command, and their output."""

import errno
import logging
import subprocess
import sys
import warnings

# Errors of the disk; the operating system's other errors are the user's.
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


class CodedError(Exception):
    """An error with the stable code of its cause, which docs/errors.md explains."""

    def __init__(self, code: str, text: str) -> None:
        """Set the cause's code and a text: the problem, and the remedy."""
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        """Return one line in the form of the macros' errors."""
        return f"[{self.code}] {self.text}"


class UserError(CodedError):
    """A mistake of the user. Shown as one line; exit code 2."""


class WorkError(CodedError):
    """A failure of correctly started work. Shown as one line; exit code 1."""


def exit_code(error: CodedError) -> int:
    """Return the exit code of a command that ends with this error."""
    return 2 if isinstance(error, UserError) else 1


def refused_file(error: OSError, what: str, remedy: str = "") -> CodedError:
    """Return the error of a file that the operating system refuses: WorkError for the disk."""
    kind = WorkError if error.errno in DISK else UserError
    return kind("HW_FILE", f"{what}: {error.strerror}{remedy and f'. {remedy}'}")


def first_line(error: Exception) -> str:
    """Return an error's first line, without the further lines of Spark and dbt."""
    return str(getattr(error, "msg", error)).splitlines()[0]


def quiet() -> None:
    """Keep PySpark and Py4J from printing errors that appear as one line; the log has all."""
    # set-up imports this module before pyspark is installed
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j.clientserver"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    # a lost server also gives one line
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
    # Py4j logs to the root logger after Java has ended
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)


def java_ended() -> WorkError | None:
    """Return how the Java of this process's embedded Spark ended, or None if it runs.

    Call it after a failure, because Java may be about to end.
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
