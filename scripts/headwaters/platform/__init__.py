"""The lake, the metastore, the jars, Spark's engine, the profile, the project and processes."""
