"""Sending: a run built from an entry and given to Celery; shared by dispatch and trigger."""
