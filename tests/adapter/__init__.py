"""The tests that dbt publishes for adapters, `dbt-tests-adapter`, on headwaters."""
