"""The connection to Redis: a client for each topology, one layer of retries, redis-py's errors wrapped once."""
