"""Create, update and delete entries by HTTP.

    celery -A proj beat -S redisbeater &
    celery -A proj worker &
    uvicorn api:api

    curl -X POST   'localhost:8000/reminders/tea?text=tea&seconds=1'
    curl -X PATCH  'localhost:8000/reminders/tea?text=coffee'
    curl -X DELETE 'localhost:8000/reminders/tea'

The store is awaited: a Redis that is slow does not keep the server from answering other requests.
"""

from datetime import datetime

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from proj import app as celery_app

from redisbeater import AsyncScheduleStore, EntryExists, EntryNotFound, InvalidEntry

api = FastAPI()
store = AsyncScheduleStore(celery_app)


@api.post("/reminders/{name}", status_code=201)
async def create(name: str, text: str, seconds: float) -> dict[str, datetime | None]:
    """Create an entry."""
    entry = await store.create(name, "proj.remind", seconds, args=[text])
    return {"next": entry.due_at}


@api.patch("/reminders/{name}")
async def update(name: str, text: str) -> dict[str, datetime | None]:
    """Change the text; the next run stays where it is. A disabled entry has none."""
    entry = await store.update(name, args=[text])
    return {"next": entry.due_at}


@api.delete("/reminders/{name}", status_code=204)
async def delete(name: str) -> None:
    """Delete an entry."""
    await store.delete(name)


@api.exception_handler(InvalidEntry)
@api.exception_handler(EntryExists)
@api.exception_handler(EntryNotFound)
def refuse(_: Request, error: Exception) -> JSONResponse:
    """Answer with the reason: the message begins with the field."""
    status = 409 if isinstance(error, EntryExists) else 404 if isinstance(error, EntryNotFound) else 422
    return JSONResponse({"detail": str(error)}, status)
