"""The HTTP endpoint: records for streams, into topics of Kafka or into Delta tables."""
