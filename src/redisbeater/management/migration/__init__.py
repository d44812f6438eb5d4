"""Entries of other schedulers: read, compared with ours by their fire times, and imported."""
