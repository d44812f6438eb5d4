"""One entry, one run for each tenant."""

import uuid
from typing import Any

from celery import shared_task
from django.db import connection
from django_tenants.utils import get_public_schema_name, get_tenant_model, schema_context

from redisbeater.runs import OnceTask


@shared_task(bind=True, base=OnceTask)
def for_each_tenant(self: Any, task: str, *args: Any, **kwargs: Any) -> None:
    """Send a task once for each tenant. Done again, it sends the same ids, and OnceTask leaves out what has run."""
    headers = {name: self.request.get(name) for name in ("periodic_task_name", "scheduled_for")}
    tenants = get_tenant_model().objects.exclude(schema_name=get_public_schema_name())
    for schema in tenants.values_list("schema_name", flat=True):
        self.app.send_task(
            task,
            [schema, *args],
            kwargs,
            task_id=str(uuid.uuid5(uuid.UUID(self.request.id), schema)),
            headers={**headers, "redisbeater_attempt": 1},
        )


@shared_task(base=OnceTask)
def report(schema: str) -> None:
    """Do the work of one tenant, in its schema."""
    with schema_context(schema):
        print(f"report of {connection.schema_name}", flush=True)
