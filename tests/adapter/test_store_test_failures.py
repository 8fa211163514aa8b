"""Run the published tests of `store_test_failures_tests`."""

from __future__ import annotations

from .spark import classes

classes(__name__, "store_test_failures_tests")
