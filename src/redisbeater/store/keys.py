"""The keys of a schedule, and the version of what beat writes into them.

=================  ===========  ====================================================================  ======
key                type         members                                                               TTL
=================  ===========  ====================================================================  ======
``P:schedule``     sorted set   entry key -> UNIX seconds, negative: dormant                          none
``P<name>``        hash         ``definition``, ``meta``; beat's own: ``recorded_run``, ``skipped``,  none
                                ``origin`` of a static entry; while it is failing ``last_error``,
                                ``tries``, ``failing_since``; where the score is a later look
                                ``fire_time``, ``look_at``, ``is_due_now``, and while a
                                beat has claimed it ``claim``: ``docs/wire-format.rst``
``P:statics``      set          names of the entries that came from ``beat_schedule``                 none
``P:lock``         string       token of the leader: host, pid and a random part                      yes
``P:id``           string       random identity of the schedule, namespace of its task ids            none
``P:format``       string       version of what beat writes, a whole number                           none
``P:zone``         string       the zone by which entries that inherit the application's were planned  none
``P:zone:before``  string       the zone before it: without TTL while entries are planned again       an hour
``P:zone-rules``   hash         zone -> JSON: the UTC offsets by which its local times were planned;      none
                                zone, blank, id -> JSON: other ones, of marked entries; ``:again``,
                                ``:listed``
``P:calendars``    hash         name of a calendar -> its version; ``:version`` of the newest change,       none
                                ``:planned``: that by which all entries were planned
``P:calendar:<n>`` hash         which days count: ``docs/wire-format-entries.rst``                    none
``P:claim:<id>``   string       when the lease of a claim ends, until then                            yes
``P:answer:<id>``  string       what a change of entries has answered, for a retry whose reply was    yes
                                lost
``P:broken``       hash         entry name, or ``:static:`` and the name of a declaration ->          none
                                JSON: ``reason``, ``since``, ``application``
``P:log``          list         what happened to the schedule: lines, the newest first                none
``P:log:<name>``   list         what happened to an entry: lines, the newest first; after its         yes, once
                                deletion for seven days                                               deleted
``P:failing``      sorted set   entry key -> the fire time that it owes, UNIX seconds, while its run   none
                                cannot be sent
``P:applications`` hash         application -> JSON: the digests of the static entries that its code     none
                                declares now, and declared before
``P:deleted``      sorted set   name of a deleted entry -> when it was deleted; the newest 10,000    none
``P:deleted:<n>``  hash         what is kept of an entry that was deleted, to go on with it          yes
``P:beats``        hash         token -> JSON: what each beat does, and when it was seen last        none
``P:pause``        string       JSON: ``note``, ``by``, ``since``, while the schedule is paused       with ``until``
``P:run:<id>``     hash         a run, the id is that of its task: ``docs/wire-format.rst``           from its end on
``P:payload:<id>`` string       JSON of what is needed to send that run again; a field of the run     from its end on,
                                would keep Redis from storing it compactly                            until SUCCESS
``P:traceback:<id>`` string     where the error of that run was raised: zlib, base 85                 yes
``P:runs:<name>``  sorted set   run key -> when it was sent, of the runs of an entry that are kept    unless one
                                                                                                      is active
``P:active``       sorted set   run key -> when its lease ends, or until when it may wait for a       none
                                start
``P:active:<n>``   set          run keys of an entry that are sent and not final, or to be sent       none
``P:resend``       sorted set   run key -> when beat is to send it                                    none
``P:waiting``      sorted set   run key -> when it was sent, or when a worker may start it, of the    none
                                runs that wait for a worker
``P:failed``       sorted set   entry key -> since when, of the entries of which the last run failed   none
``P:unstable``     sorted set   entry key -> since when, of those of which 3 of the last 30 failed     none
``P:failures``     sorted set   run key -> its end, of the newest 1,000 runs that failed               none
``P:minutes``      hash         five minutes and state -> how many runs ended, for six hours           none
``P:workers``      hash         name of a worker -> JSON: what its main process reports, each 15 s      none
``P:hours``        hash         hour and state -> how many runs ended, for seven days                  none
``P:totals``       hash         state and task -> how many runs; duration and task -> how many        none
``P:incident:<id>`` hash         a period in which the schedule did not do what it promises:            from its end on
                                ``docs/wire-format.rst``
``P:incidents``    sorted set   id of an incident -> when it was opened                               none
``P:current``      hash         kind, blank, entry -> id of the incident that is open, or ended within    none
                                ten minutes; ``identity`` -> the identity that a backup gave back
``P:open``         sorted set   kind, blank, entry -> when that incident was opened, negative once somebody      none
                                has acknowledged it
``P:promises``     sorted set   entry key -> until when a run is to end well, with ``finish_within``   none
``P:notices``      sorted set   receiver, blank, id of an incident, blank, ``opened`` or ``closed`` -> when to   none
                                tell that
``P:told``         hash         receiver -> JSON: when it was told last, and what keeps it from that       none
``P:passed``       string       when a beat that writes incidents claimed last                        none
``P:releases``     sorted set   release of the code of workers -> when it was reported first, 50 of them  none
``P:seen``         hash         person -> since when incidents are new on the web page, and when that began     none
``P:delays``       sorted set   task id -> when beat is to send its message: its eta, the next try, or the   none
                                end of a lease
``P:delays:messages`` hash      task id -> JSON of its message: ``docs/wire-format.rst``              none
``P:delays:failing`` hash       task id -> JSON: ``error``, ``since``, ``tries``, while a message      none
                                cannot be sent
``P:delays:sender`` string      where the beat sends that leads; a beat that sends delays writes it   a minute
``P:trigger:<id>`` hash         what was triggered with a task id that its caller has chosen, and whether it   a day
                                was sent
``P:logout:<id>``  string       empty: a session of the web page that was ended by logging out       until its
                                                                                                      cookie ends
``P:undo:<id>``    string       JSON: what a person has done on the web page, and what undoes it     an hour
``P:events``       channel      JSON: the names of entries of which a run has changed, at most 50
``P:changes``      channel      the name of a changed entry, ``:several`` for a page of them, ``:lock``
                                when the lock is free, ``:pause`` when a pause begins or ends,
                                ``:runs`` when a run is to be sent, or ``:delays`` when a delay is the
                                next one
=================  ===========  ====================================================================  ======

``P`` is the prefix, ``redisbeater:`` by default. On a cluster it is ``{redisbeater}:``: the part in braces decides the
slot, and scripts take keys of one slot only.
"""

from __future__ import annotations

import uuid

from redisbeater.entry_name import check_unreserved, is_name, is_unreserved
from redisbeater.exceptions import ImproperlyConfigured

#: Raise this with each change that an older beat would misread, and write into ``docs/operating.rst`` how to roll the
#: data back. A beat that finds a higher number at ``P:format`` refuses to lead.
FORMAT = 2


def refusal(key: str, found: str) -> str:
    """Return why this beat must not lead, and what to do; ``found`` is what the key of the format holds."""
    needed = f"format {found}" if found.isdigit() else "it"
    return (
        f"{key} holds {found!r} and this beat writes format {FORMAT}; start a redisbeater that writes {needed}, or roll"
        " the data back (documentation: Run beat in production, Upgrading and rolling back)"
    )


def too_old(key: str, found: str) -> str:
    """Return why an entry is not saved that beats cannot read which write what the key of the format holds."""
    return (
        f"cannot be read by beats of format {found}, which {key} holds; upgrade every beat first, and let one lead"
        " (documentation: Run beat in production, Upgrading and rolling back)"
    )


#: The prefix of a broken declaration in the list of broken entries; no entry name begins with a colon.
DECLARATION = ":static:"

#: Behind the prefix, a key that never exists.
ABSENT = ":absent"

#: The message on the changes channel that the lock is free; no entry name begins with a colon.
LOCK_RELEASED = ":lock"

#: The message on the changes channel that the schedule is paused, or not any more.
PAUSE_CHANGED = ":pause"

#: The message on the changes channel that a delay was kept which comes before all others.
DELAYS_CHANGED = ":delays"

#: The message on the changes channel that several entries were changed.
SEVERAL = ":several"


class Keys:
    """The key names of one schedule: below one prefix."""

    def __init__(self, prefix: str, lock: str | None) -> None:
        self.prefix = prefix
        self.schedule = f"{prefix}:schedule"
        self.statics = f"{prefix}:statics"
        self.id = f"{prefix}:id"
        self.format = f"{prefix}:format"
        self.zone = f"{prefix}:zone"
        self.zone_before = f"{prefix}:zone:before"
        self.zone_rules = f"{prefix}:zone-rules"
        self.calendars = f"{prefix}:calendars"
        self.broken = f"{prefix}:broken"
        self.failing = f"{prefix}:failing"
        self.applications = f"{prefix}:applications"
        self.deleted_names = f"{prefix}:deleted"
        #: What the key of a deleted entry begins with; its name follows.
        self.deleted = f"{prefix}:deleted:"
        self.changes = f"{prefix}:changes"
        self.log = f"{prefix}:log"
        self.beats = f"{prefix}:beats"
        self.pause = f"{prefix}:pause"
        self.active = f"{prefix}:active"
        self.resend = f"{prefix}:resend"
        self.waiting = f"{prefix}:waiting"
        self.failed = f"{prefix}:failed"
        self.unstable = f"{prefix}:unstable"
        self.failures = f"{prefix}:failures"
        self.minutes = f"{prefix}:minutes"
        self.hours = f"{prefix}:hours"
        self.workers = f"{prefix}:workers"
        self.totals = f"{prefix}:totals"
        self.incidents = f"{prefix}:incidents"
        self.current = f"{prefix}:current"
        self.open_incidents = f"{prefix}:open"
        self.promises = f"{prefix}:promises"
        self.notices = f"{prefix}:notices"
        self.told = f"{prefix}:told"
        self.passed = f"{prefix}:passed"
        self.releases = f"{prefix}:releases"
        self.seen = f"{prefix}:seen"
        self.delays = f"{prefix}:delays"
        self.delay_messages = f"{prefix}:delays:messages"
        self.failing_delays = f"{prefix}:delays:failing"
        self.delay_sender = f"{prefix}:delays:sender"
        self.events = f"{prefix}:events"
        #: The keys of incidents, delays and calendars, without which beat does all of its other work.
        self.newer = (
            *(self.incidents, self.current, self.open_incidents, self.promises, self.passed, self.releases),
            *(self.notices, self.told, self.seen),
            *(self.delays, self.delay_messages, self.failing_delays),
            self.calendars,
        )
        #: The lists of what something is wrong with, which other programs can make wrong.
        self.corrected = (self.failing, self.failed, self.unstable, self.waiting)
        self._check_lock(lock)
        self.lock = lock if lock is not None else f"{prefix}:lock"

    def _check_lock(self, lock: str | None) -> None:
        if lock in vars(self).values():
            raise ImproperlyConfigured(
                f"redisbeater_lock_key: {lock} is a key of the schedule itself; unset it for '{self.prefix}:lock'"
            )

    def entry(self, name: str) -> str:
        """Return the key of an entry.

        Raises:
            InvalidEntry: no entry can have that name: its key would be one of redisbeater's own.
        """
        return self.prefix + check_unreserved(name)

    def of_member(self, member: str) -> tuple[str, str]:
        """Return the keys that a member of the schedule may stand for: it is a key, or the bare name of an entry.

        Both are the same when it is only one. Keys of the schedule itself are left out, whatever is stored there; the
        sorted set takes their place, which is no hash.
        """
        bare = self.prefix + member if _may_be_stored(member) else self.schedule
        return bare, member if self.name(member) != member and _may_be_stored(self.name(member)) else bare

    def is_entry(self, member: str) -> bool:
        """Return whether a member of a list is the key of an entry."""
        name = self.name(member)
        return name != member and is_name(name)

    def is_run(self, member: str) -> bool:
        """Return whether a member of a list is the key of a run."""
        return member.startswith(self.run(""))

    def bookkeeping(self) -> dict[str, str]:
        """Return the keys that are kept beside the entries, and the type of each."""
        return {
            self.schedule: "zset",
            self.id: "string",
            self.broken: "hash",
            self.statics: "set",
            self.failing: "zset",
            self.zone: "string",
            self.zone_before: "string",
            self.zone_rules: "hash",
            self.calendars: "hash",
            self.log: "list",
            self.beats: "hash",
            self.pause: "string",
            self.active: "zset",
            self.resend: "zset",
            self.waiting: "zset",
            self.failed: "zset",
            self.unstable: "zset",
            self.failures: "zset",
            self.minutes: "hash",
            self.hours: "hash",
            self.workers: "hash",
            self.totals: "hash",
            self.incidents: "zset",
            self.current: "hash",
            self.open_incidents: "zset",
            self.promises: "zset",
            self.notices: "zset",
            self.told: "hash",
            self.passed: "string",
            self.releases: "zset",
            self.seen: "hash",
            self.delays: "zset",
            self.delay_messages: "hash",
            self.failing_delays: "hash",
        }

    def log_of(self, name: str) -> str:
        """Return the key of an entry's log; the empty name gives what every such key begins with."""
        return f"{self.log}:{name}"

    def run(self, run_id: str) -> str:
        """Return the key of a run; the empty id gives what every such key begins with."""
        return f"{self.prefix}:run:{run_id}"

    def payload_of(self, run_id: str) -> str:
        """Return the key of a run's payload, which is needed to send it again."""
        return f"{self.prefix}:payload:{run_id}"

    def traceback_of(self, run_id: str) -> str:
        """Return the key of the traceback of a run that has failed."""
        return f"{self.prefix}:traceback:{run_id}"

    def runs_of(self, name: str) -> str:
        """Return the key of the history of an entry."""
        return f"{self.prefix}:runs:{name}"

    def active_of(self, name: str) -> str:
        """Return the key of the active runs of an entry."""
        return f"{self.active}:{name}"

    def incident(self, incident_id: str) -> str:
        """Return the key of an incident; the empty id gives what every such key begins with."""
        return f"{self.prefix}:incident:{incident_id}"

    def calendar(self, name: str) -> str:
        """Return the key of a calendar; the empty name gives what every such key begins with."""
        return f"{self.prefix}:calendar:{name}"

    def trigger(self, task_id: str) -> str:
        """Return the key of what was triggered with a task id that its caller has chosen."""
        return f"{self.prefix}:trigger:{task_id}"

    def logout(self, session_id: str) -> str:
        """Return the key that says that a session of the web page has ended."""
        return f"{self.prefix}:logout:{session_id}"

    def undo(self, undo_id: str) -> str:
        """Return the key of the undo of a change that was made on the web page."""
        return f"{self.prefix}:undo:{undo_id}"

    def run_id(self, run_key: str) -> str:
        """Return the id of the run with a key."""
        return run_key.removeprefix(self.run(""))

    def receipt(self, claim_id: str) -> str:
        """Return the key that holds the end of a claim's lease."""
        return f"{self.prefix}:claim:{claim_id}"

    def of_claim(self, claim_id: str) -> list[str]:
        """Return the keys that a claim needs besides those of entries."""
        zones = [self.zone, self.zone_before]
        return [self.schedule, self.lock, self.id, self.receipt(claim_id), self.format, *zones, self.beats, self.pause]

    def answer(self, call_id: str) -> str:
        """Return the key that holds what one call has answered."""
        return f"{self.prefix}:answer:{call_id}"

    def new_answer(self) -> str:
        """Return a new key under which a script keeps its answer, for a retry after a lost reply."""
        return self.answer(uuid.uuid4().hex)

    @staticmethod
    def declaration(name: str) -> str:
        """Return the name under which a broken static declaration is listed; the entry of that name may run well."""
        return DECLARATION + name

    def name(self, entry_key: str) -> str:
        """Return the name of the entry with a key."""
        return entry_key.removeprefix(self.prefix)


def _may_be_stored(name: str) -> bool:
    """Tell whether another program may have stored an entry of this name, which may be one that ours refuse."""
    return not name or is_unreserved(name)
