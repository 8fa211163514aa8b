"""Benchmarks: each `bench_<name>.py` has a title and a `run(bench)`; see __main__.py."""
