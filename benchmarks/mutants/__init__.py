"""The parts of ``benchmarks/mutants.py``: the table of mutants, and what tries one."""
