"""Run the published tests of `hooks`."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.hooks import test_model_hooks as models
from dbt.tests.adapter.hooks import test_run_hooks as runs
from dbt.tests.util import run_dbt
from dbt_common.exceptions import DbtRuntimeError

from .spark import classes


class Context:
    """The context of a hook: target and run, as the profile of these tests has them."""

    def check_hooks(self, state: str, project: Any, host: Any, count: int = 1) -> None:
        found = self.get_ctx_vars(state, **self.of(count), project=project)  # type: ignore[attr-defined]
        for context in found if isinstance(found, list) else [found]:
            assert context["test_state"] == state
            assert context["target_name"] == "default"
            assert context["target_schema"] == project.test_schema
            assert context["target_threads"] == 4
            assert context["target_type"] == "spark"  # docs/decisions/0057
            assert context["run_started_at"] and context["invocation_id"]
            assert context["thread_id"].startswith(("Thread-", "MainThread"))

    def of(self, count: int) -> dict[str, int]:
        return {"count": count}


class TestPrePostModelHooks(Context, models.BasePrePostModelHooks):
    pass


class TestHookRefs(Context, models.BaseHookRefs):
    pass


class TestPrePostModelHooksInConfig(Context, models.BasePrePostModelHooksInConfig):
    pass


class TestPrePostModelHooksInConfigWithCount(
    Context, models.BasePrePostModelHooksInConfigWithCount
):
    pass


class TestPrePostModelHooksInConfigKwargs(Context, models.BasePrePostModelHooksInConfigKwargs):
    pass


class TestPrePostRunHooks(Context, runs.BasePrePostRunHooks):
    def of(self, count: int) -> dict[str, int]:
        return {}

    def assert_used_schemas(self, project: Any) -> None:
        [schemas] = project.run_sql(f"select * from {project.test_schema}.schemas", fetch="all")
        assert tuple(schemas) == (project.test_schema,)
        [pairs] = project.run_sql(f"select * from {project.test_schema}.db_schemas", fetch="all")
        assert tuple(pairs) == ("None", project.test_schema)


class TestAfterRunHooks(runs.BaseAfterRunHooks):
    """The error of a hook's query is dbt-spark's kind of error, and names the table."""

    def test_missing_column_pre_hook(self, project: Any) -> None:
        with pytest.raises(DbtRuntimeError, match="test_column"):
            run_dbt(["run"], expect_pass=False)


classes(__name__, "hooks")
