"""The front door: HTTP in front of the streams, into Kafka or into a Delta table."""
