"""The HTTP endpoint: receive records and write them to Kafka topics or Delta tables."""
