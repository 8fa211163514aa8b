"""Sample data, simulated streams, and the summary of `make run`."""
