"""What decides in incremental runs, without Spark: macros run the statements and hand rows in."""
