"""Sending: a run built from an entry, with its id, its headers and its options, as Celery gets it."""
