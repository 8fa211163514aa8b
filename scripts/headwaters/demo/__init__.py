"""The demonstration: sample data, simulated finance, the summary. No product module imports it."""
