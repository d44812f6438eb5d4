"""The fields of a form, from a body of bounded size."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

__all__ = ("Form", "read_form")

#: The largest body, and the most fields in it.
MOST_BYTES, MOST_FIELDS = 256 * 1024, 1_200

#: How long a body may take to come.
BODY_SECONDS = 30.0


class Form:
    """The fields of a form; one that is not there is an empty text."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def __getitem__(self, name: str) -> str:
        return next((value for field, value in self._fields if field == name), "")

    def __contains__(self, name: str) -> bool:
        return any(field == name for field, _ in self._fields)

    @property
    def flat(self) -> dict[str, str]:
        """The first value of each field."""
        return dict(reversed(self._fields))

    def all(self, name: str) -> list[str]:
        """Return all values of a field, in their order."""
        return [value for field, value in self._fields if field == name]


async def read_form(request: Request) -> Form:
    """Read the form of a request.

    Raises:
        HTTPException: 408 for a body that does not come within 30 seconds, 413 for one of more than 256 KB or too many
            fields, 415 for one of another kind.
    """
    kind = request.headers.get("content-type", "application/x-www-form-urlencoded").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "expected a form: application/x-www-form-urlencoded")
    try:
        body = await asyncio.wait_for(_body(request), BODY_SECONDS)
    except ClientDisconnect as exc:
        raise HTTPException(400, "the form is not whole") from exc
    except asyncio.TimeoutError as exc:
        raise HTTPException(408, f"the form did not come within {BODY_SECONDS:g} s") from exc
    try:
        text = body.decode()
        return Form(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except UnicodeDecodeError as exc:
        raise HTTPException(400, "the form is not UTF-8") from exc
    except ValueError as exc:
        raise HTTPException(413, f"the form has more than {MOST_FIELDS} fields") from exc


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"the form has more than {MOST_BYTES // 1024} KB")
    return bytes(body)
