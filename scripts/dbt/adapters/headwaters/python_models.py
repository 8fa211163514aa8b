"""Python models: `model(dbt, session)` runs in dbt's own Spark session.

Its rows become a temporary view. Materializations read the view as they read a SQL model's query,
so that a table of a Python model has the same properties, constraints and comments.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headwaters.platform.errors import UserError
from headwaters.platform.spark_errors import one_line

FORMS = "a DataFrame of Spark, pandas or pandas-on-Spark, or a table of Arrow"


def view_of_model(node: Mapping[str, Any], code: str, spark: Any) -> str:
    """Run a Python model, and return the name of the temporary view of its rows.

    `code` is the file of the model with dbt's functions below it. Raise UserError HW_PYTHON_MODEL,
    with the line of the file, if the code fails or returns no rows.
    """
    returned = _returned(node, code, spark)
    rows = _rows(returned, spark)
    if rows is None:
        raise _problem(node, f"model() returns {type(returned).__name__}: return {FORMS}")
    view = f"hw_python_{node['schema']}_{node['alias']}".lower()
    try:
        rows.createOrReplaceTempView(view)
    except PySparkException as error:
        raise _problem(node, one_line(error)) from None
    return view


def _returned(node: Mapping[str, Any], code: str, spark: Any) -> Any:
    """Return the result of `model(dbt, session)`."""
    # pandas-on-Spark looks for the Connect session of its thread
    if hasattr(type(spark), "_set_default_and_active_session"):
        type(spark)._set_default_and_active_session(spark)
    path = node["original_file_path"]
    names: dict[str, Any] = {"__name__": f"dbt_model_{node['name']}", "spark": spark}
    try:
        exec(compile(code, path, "exec"), names)
        return names["model"](names["dbtObj"](spark.table), spark)
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        places = [frame.lineno for frame in frames if frame.filename == path]
        if isinstance(error, SyntaxError) and error.filename == path:
            places.append(error.lineno)
        text = one_line(error)
        if not isinstance(error, PySparkException):
            text = f"{type(error).__name__}: {text}"
        if isinstance(error, ModuleNotFoundError):
            text += ". Install the package into dbt's environment"
        raise _problem(node, text, places[-1] if places else None) from None


def _rows(returned: Any, spark: Any) -> DataFrame | None:
    """Return what a model returned as Spark's rows, or None if it is nothing of the kind."""
    if isinstance(returned, DataFrame):
        return returned
    if _is(returned, "pyspark.pandas", "DataFrame"):
        rows: DataFrame = returned.to_spark()
        return rows
    if _is(returned, "pandas", "DataFrame") or _is(returned, "pyarrow", "Table"):
        frame: DataFrame = spark.createDataFrame(returned)
        return frame
    return None


def _is(value: Any, module: str, name: str) -> bool:
    """Return true if a value has a class of a package that the model has imported."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def _problem(node: Mapping[str, Any], text: str, line: int | None = None) -> UserError:
    place = node["original_file_path"] + (f":{line}" if line else "")
    return UserError("HW_PYTHON_MODEL", f"{node['name']} ({place}): {text}")
