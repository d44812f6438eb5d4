"""Beat and a failover of its Redis, the same on a cluster and with Sentinels, and a user whom all servers know."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from due import save_due
from outbox import names, take
from support.topologies import FAILOVER_SECONDS, Node, wait_for_replicas
from support.waiting import wait_until

from redisbeater import RedisScheduler

__all__ = ("FailedOver", "failed_over", "ticked", "user_beat", "users_of")


@dataclass(frozen=True)
class FailedOver:
    """What was in the lock, and which entries were sent, before a failover and after it."""

    lock_before: str | None
    lock: str | None
    sent_before: list[str]
    sent: list[str]


def ticked(scheduler: RedisScheduler) -> list[str]:
    """Tick once; return the names of the runs that are sent."""
    scheduler.tick()
    return names(take(scheduler.app))


def failed_over(
    scheduler: RedisScheduler, lock: str, master: Callable[[], Node], fail_over: Callable[[], object]
) -> FailedOver:
    """Run an entry, let the master fail once its replica has all, and run an entry that is saved while beat waits."""
    scheduler.is_served = True
    save_due(scheduler.app, "before")
    sent_before = wait_until(lambda: ticked(scheduler), "a run")
    lock_before = master().ask("GET", lock)
    wait_for_replicas(master())

    fail_over()

    wait_until(lambda: scheduler.tick() == 0, "the outage to end", FAILOVER_SECONDS)
    lock_after = master().ask("GET", lock)
    # To the former replica, which has no script yet.
    saving = threading.Timer(0.1, save_due, (scheduler.app, "after"))
    saving.start()
    sent = wait_until(lambda: ticked(scheduler), "the run of an entry saved after it")
    saving.join()
    return FailedOver(lock_before, lock_after, sent_before, sent)


@contextmanager
def user_beat(nodes: Sequence[Node]) -> Iterator[str]:
    """Make a user ``beat`` on every node, and return the password."""
    for node in nodes:
        node.ask("ACL", "SETUSER", "beat", "on", ">right", "~*", "resetchannels", "&*", "+@all")
    yield "right"
    for node in nodes:
        node.ask("ACL", "DELUSER", "beat")


def users_of(node: Node) -> set[str]:
    """Return the users whose clients are connected to a node."""
    with node.client as client:
        return {each["user"] for each in client.client_list()}
