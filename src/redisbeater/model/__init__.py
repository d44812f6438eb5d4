"""WHAT runs, and what became of it: values and pure functions. No Redis, no clock, no I/O."""
