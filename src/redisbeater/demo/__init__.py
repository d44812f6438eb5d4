"""``python -m redisbeater.demo``: a real beat and a real worker over a schedule that changes while they run."""
