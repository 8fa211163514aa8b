"""The development kit: set-up, a local engine and a local broker. No product module imports it."""
