"""The schedule in Redis: the only package that talks to Redis. Definition and meta of an entry are plain text here.

Whoever needs all of it imports ``RedisSchedule`` from its module: a worker, which reports runs, does without.
"""

from redisbeater.store.claim import Claim, ClaimedEntry
from redisbeater.store.contents import KEEP_DELETED, SAVE_PAGE, Unscheduled, pages
from redisbeater.store.lock import Lock, is_of_redbeat, lock_warning, new_token, this_program
from redisbeater.store.notifier import Notifier
from redisbeater.store.runs import Execution, FoundRuns, Renewal, Reservation, RunStore, holder_prefix, new_holder
from redisbeater.store.snapshot import Change, Snapshot

__all__ = (
    "KEEP_DELETED",
    "SAVE_PAGE",
    "Change",
    "Execution",
    "Claim",
    "ClaimedEntry",
    "FoundRuns",
    "Lock",
    "Notifier",
    "Renewal",
    "Reservation",
    "RunStore",
    "Snapshot",
    "Unscheduled",
    "holder_prefix",
    "is_of_redbeat",
    "lock_warning",
    "new_holder",
    "new_token",
    "pages",
    "this_program",
)
