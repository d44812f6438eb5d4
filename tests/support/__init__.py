"""What tests and benchmarks share: servers, processes, faults, hostile data. Fixtures live in conftest.py."""
