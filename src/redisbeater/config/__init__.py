"""The settings: read once from the Celery configuration, checked, frozen."""
