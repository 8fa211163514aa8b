"""Run an incremental model: plan, stage, inspect, write, advance."""
