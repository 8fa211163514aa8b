"""The maintenance policy of a table: when its files are compacted, purged and vacuumed.

`+maintenance` of a layer and `maintenance` of a model add up; docs/tables.md explains each key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from headwaters.platform.names import not_allowed
from headwaters.platform.nodes import Config, as_tuple, merged_setting, setting
from headwaters.platform.problems import Problem
from headwaters.platform.units import bytes_of


def _switch(value: Any) -> Any:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _size(value: Any) -> Any:
    if bytes_of(value) is None:
        raise ValueError("a size such as 16 MB")
    return str(value)


def _files(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("a number of files")
    return value


def _share(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise ValueError("a share of rows, 0.2 for 20 %")
    return value


def _condition(value: Any) -> Any:
    return None if value is None else str(value)


Switch = Annotated[bool, BeforeValidator(_switch)]
Size = Annotated[str, BeforeValidator(_size)]


class Policy(BaseModel):
    """The conditions and parameters of a table's maintenance."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: Switch = True
    small_file: Size = "16 MB"
    compact_above: Annotated[int, BeforeValidator(_files)] = 16
    target_file: Size = "256 MB"
    where: Annotated[str | None, BeforeValidator(_condition)] = None
    zorder_by: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    purge_above: Annotated[float, BeforeValidator(_share)] = 0.2
    vacuum: Switch = True

    @property
    def small_bytes(self) -> int:
        """Return the size below which a file is small."""
        return bytes_of(self.small_file) or 0

    @property
    def target_bytes(self) -> int:
        """Return the target size of compacted files."""
        return bytes_of(self.target_file) or 0


def policy_of(config: Config) -> Policy:
    """Return a node's policy. Raises ValidationError for one that `policy_problems` names."""
    return Policy.model_validate(merged_setting(config, "maintenance"))


def policy_problems(config: Config) -> Iterator[Problem]:
    """Yield the problems of a node's policy."""
    try:
        policy = policy_of(config)
    except ValidationError as error:
        for problem in error.errors():
            key = str(problem["loc"][0])
            if problem["type"] == "extra_forbidden":
                yield _problem(not_allowed(key, Policy.model_fields))
            else:
                expected = problem.get("ctx", {}).get("error", problem["msg"])
                yield _problem(f"{key} is '{problem['input']}', it must be {expected}.")
        return
    if policy.zorder_by and setting(config, "cluster_by"):
        yield _problem(
            "zorder_by beside cluster_by: a clustered table has its order already; leave zorder_by "
            "out."
        )


def _problem(text: str) -> Problem:
    return Problem("HW_MAINTENANCE_POLICY", f"maintenance: {text}", "maintenance")
