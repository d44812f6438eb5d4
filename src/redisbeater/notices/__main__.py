"""The process that sends a message: ``python -m redisbeater.notices``.

It reads a URL and a message from its standard input, as JSON, and writes as JSON why the message did not arrive. It is
told URLs with passwords, so they are in no argument, and it logs nothing.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

#: Seconds in which a service must have taken a message, and after which this process ends: whoever has started it kills
#: it before that, or has died.
SERVICE_SECONDS, MOST_SECONDS = 40.0, 70

#: Bytes that this process may take: a service that answers without end must not take the host's memory.
MOST_MEMORY = 512 * 1024**2

#: Bytes of the stack of a thread: those count as memory as well.
STACK = 1024**2

#: How much less of the processor this process gets than beat.
NICENESS = 10


def main() -> None:
    """Send what is read, and write what became of it. The process ends here, whatever its threads do."""
    _limit()
    url, message = json.load(sys.stdin)
    try:
        problem = _problem(url, message)
    except MemoryError:
        problem = "its answer takes too much memory"
    except Exception as exc:  # whatever a plugin of Apprise raises
        problem = f"{type(exc).__name__}: {exc}"
    print(json.dumps({"problem": problem}), flush=True)
    os._exit(0)  # threads of Apprise may still wait for a service, and Python would wait for them


def _limit() -> None:
    """Take little of the host, and end in time, also where nobody is left who would see to that."""
    with suppress(OSError, AttributeError):
        os.nice(NICENESS)
    with suppress(ValueError, AttributeError):
        signal.alarm(MOST_SECONDS)
    threading.stack_size(STACK)
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold the URLs
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))


def _problem(url: str, message: Mapping[str, Any] | None) -> str:
    """Send a message, if there is one, and return why it did not arrive, or an empty text if it did."""
    import apprise

    # No redirects: they would take what is in the URL to wherever the service says.
    asset = apprise.AppriseAsset(
        app_id="redisbeater", app_desc="redisbeater", http_redirects=False, service_timeout=SERVICE_SECONDS
    )
    service = apprise.Apprise.instantiate(url, asset=asset)
    if service is None:
        return "Apprise does not know this URL, or it lacks something"
    if message is None:
        return ""
    if not re.search(r"[?&]overflow=", url, re.IGNORECASE):
        service.overflow_mode = apprise.OverflowMode.SPLIT
    sender = apprise.Apprise(asset=asset)
    sender.add(service)
    result = sender.notify(
        title=message["title"],
        body=message["text"],
        notify_type=apprise.NotifyType.SUCCESS if message["is_good"] else apprise.NotifyType.FAILURE,
        body_format=apprise.NotifyFormat.TEXT,
    )
    if result:
        return ""
    told = [entry.message for entry in result.logs() if entry.level in ("WARNING", "ERROR", "CRITICAL")]
    return told[-1] if told else "the service did not take it"


if __name__ == "__main__":
    main()
