"""The settings: read from the Celery configuration once, validated, frozen."""
