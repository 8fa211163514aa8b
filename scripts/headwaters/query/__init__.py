"""The command `headwaters sql`: statements on the Spark of a lake, and their printed rows."""
