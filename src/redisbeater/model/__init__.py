"""What runs and what its runs did: values and pure functions, without Redis, clock or I/O."""
