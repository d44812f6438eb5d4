"""The tasks of the project."""

from celery import shared_task


@shared_task
def remind(text: str) -> None:
    """Print a reminder."""
    print(f"remember {text}", flush=True)
