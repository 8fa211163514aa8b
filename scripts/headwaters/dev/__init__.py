"""The development kit: set-up, engine and broker of one's own. No product module imports it."""
