"""The connection to Redis: one client for each topology, one retry layer, errors wrapped once."""
