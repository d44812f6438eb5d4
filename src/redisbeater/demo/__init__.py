"""The demo, ``python -m redisbeater.demo``: a real beat and a real worker, and a schedule that changes meanwhile."""
