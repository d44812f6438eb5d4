"""The commands that say how the schedule fares: status and health; pause and resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Literal

import click
from celery import Celery

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.group import (
    DURATION,
    MOMENT,
    WATCH,
    Moment,
    Times,
    as_json,
    authored,
    command,
    print_lines,
    times,
)
from redisbeater.cli.table import View
from redisbeater.cli.terminal import watched
from redisbeater.display import json_form, printable_json, shown
from redisbeater.health.status import Status
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.model.beat_line import BeatLine, Pause
from redisbeater.model.incident import NO_REPORTS
from redisbeater.store.notices import Receiver
from redisbeater.times import clock_words, duration_words, relative_words


@redisbeater.command()
@as_json
@WATCH
@times
@command
def status(app: Celery, as_json: bool, watch: timedelta | None, times: Times) -> None:
    """Show who leads, what is late, and if the schedule is paused.

    It also shows which beats stand by, what is broken, and which incidents are open.

    \b
    Examples:
      celery -A proj redisbeater status --watch 2s
      celery -A proj redisbeater status --json | jq .leader
    """
    store = ScheduleStore(app)

    def draw() -> None:
        found = store.status(details=as_json)
        if as_json:
            click.echo(printable_json(found.as_dict(), indent=2))
        else:
            print_lines(status_lines(found, times.view()))

    watched(watch, draw)


def status_lines(found: Status, view: View) -> list[str]:
    """Return a status as lines for people."""
    return [f"{name:<10} {shown(text, None)}" for name, text in _status_facts(found, view)]


def _status_facts(found: Status, view: View) -> Iterator[tuple[str, str]]:
    entries = "1 entry" if found.entries == 1 else f"{found.entries:,} entries"
    identity = f", id {found.id}" if found.id else ""
    schedule = f"{found.prefix} at {found.address}, {entries}{identity}"
    yield "schedule", "     ".join(filter(None, (schedule, _server(found.leaders))))
    for text in found.told_incidents:
        yield "incident", text
    if found.refusal:
        yield "redis", f"refuses changes, so nothing is sent: {found.refusal}"
    if not found.is_led:
        yield "leader", "none: no entry runs"
    elif found.lock_warning:
        yield "leader", f"{found.leader_name}: {found.lock_warning}"
    elif not found.leaders:
        left = f"; the lock ends in {found.lock_left.total_seconds():.0f} s" if found.lock_left else ""
        yield "leader", f"{found.leader_name}, which has not written what it does yet{left}"
    for beat in found.leaders:
        yield "leader", _leader(beat, found, view)
    for beat in found.standbys:
        yield "standby", f"{beat.name}{_application(beat, found)} (seen {_seconds(view, beat)} ago)"
        if text := beat.rules_words(found.leader_name):
            yield "zones", f"zone-rules-differ: {text}"
    for beat in found.unseen:
        yield "not seen", f"{beat.name}{_application(beat, found)} for {_seconds(view, beat)}"
    yield "due now", "     ".join(filter(None, (_due(found), _counts(found.leaders))))
    states = f"broken {found.broken:,}, not sent {found.failing:,}"
    if found.leaders:
        yield "broker", f"{found.leaders[0].broker_words(view.now)}     {states}"
        yield "runs", found.leaders[0].delivery_words or "at least once"
        if messages := next(filter(None, (beat.messages for beat in found.leaders)), ""):
            yield "messages", messages
    else:
        yield "entries", states
    waiting = "run waiting" if found.unstarted == 1 else "runs waiting"
    results = ((found.failed, "failed"), (found.unstable, "unstable"), (found.unstarted, waiting))
    if any(number for number, _ in results):
        yield "results", ", ".join(f"{number:,} {words}" for number, words in results if number)
    if found.delays and found.delays.waiting:
        yield "delays", _delays(found, view)
    for text in found.calendars:
        yield "calendar", text.removeprefix("calendar ")
    for receiver in found.receivers:
        yield "told", f"{receiver.name}: {receiver_words(receiver, view)}"
    if found.notices:
        yield "told", f"{found.notices:,} to be told now"
    if not found.workers_report:
        yield "workers", NO_REPORTS
    yield "paused", pause_words(found.pause, view).removeprefix("paused ") if found.pause else "no"


def _delays(found: Status, view: View) -> str:
    waiting, late, failing, first = found.delays or (0, 0, 0, None)
    late_text = f", {late:,} late, oldest {duration_words(found.oldest_delay)}" if late else ""
    next_text = f", next {relative_words(first, view.now)}" if first and not late else ""
    return f"{waiting:,} waiting{late_text}{f', {failing:,} not sent' if failing else ''}{next_text}"


def receiver_words(receiver: Receiver, view: View) -> str:
    """Return in words when a receiver was told of incidents, and what keeps it from that."""
    if receiver.since is not None:
        problem = f"{receiver.problem}; tried {receiver.tries:,} {'time' if receiver.tries == 1 else 'times'}"
        return f"not since {_clock(receiver.since, view)}, {problem}"
    return "nothing yet" if receiver.told is None else _clock(receiver.told, view)


def _clock(moment: datetime, view: View) -> str:
    return clock_words(view.local(moment, view.zone), view.now_in(view.zone))


def _application(beat: BeatLine, found: Status) -> str:
    """Return the application of a beat, if several applications share the schedule."""
    is_shared = len({each.application for each in found.beats if each.application}) > 1
    return f" of application {beat.application}" if is_shared and beat.application else ""


def _lock(found: Status) -> str:
    return "" if found.lock_timeout is None else f", lock {found.lock_timeout.total_seconds():g} s"


def _leader(beat: BeatLine, found: Status, view: View) -> str:
    since = duration_words(max(view.now - beat.since, timedelta(0)), units=2)
    versions = f"celery {beat.celery}, redisbeater {beat.redisbeater}"
    name = f"{beat.name}{_application(beat, found)}"
    return f"{name} for {since}{_lock(found)}, last pass {_seconds(view, beat)} ago, {versions}"


def _seconds(view: View, beat: BeatLine) -> str:
    age = max(view.now - beat.last_pass, timedelta(0))
    return duration_words(age) if age >= timedelta(seconds=10) else f"{age.total_seconds():.1f} s"


def _due(found: Status) -> str:
    late = f", oldest late {duration_words(found.oldest)} ({shown(found.oldest_name, 60)})" if found.due else ""
    return f"{found.due:,}{late}"


def _counts(leaders: Sequence[BeatLine]) -> str:
    if not leaders:
        return ""
    sent, refused, skipped = (sum(getattr(beat, name) for beat in leaders) for name in ("sent", "refused", "skipped"))
    skipped_text = f"{skipped:,} skipped{_reasons(leaders)}"
    return f"since it leads: {sent:,} sent, {refused:,} refused, {skipped_text}{_lateness(leaders)}"


def _reasons(leaders: Sequence[BeatLine]) -> str:
    """Return why fire times were skipped, most of them first, in brackets; empty if none was."""
    reasons = sum((Counter(beat.skipped_by) for beat in leaders), Counter[str]())
    return f" ({', '.join(f'{why} {count:,}' for why, count in reasons.most_common())})" if reasons else ""


def _lateness(leaders: Sequence[BeatLine]) -> str:
    """Return how late runs were sent; of several beats the latest."""
    known = [(beat.late_p50_ms, beat.late_p99_ms) for beat in leaders if beat.sent]
    halves, most = ([value for value in values if value is not None] for values in zip(*known)) if known else ([], [])
    return f", lateness p50 {_milliseconds(max(halves))} p99 {_milliseconds(max(most))}" if halves and most else ""


def _milliseconds(number: float) -> str:
    return f"{number:.0f} ms" if number < 1000 else duration_words(timedelta(milliseconds=number))


def _server(leaders: Sequence[BeatLine]) -> str:
    """Return the server and the clock offset that the leader reports."""
    if not leaders:
        return ""
    offset = leaders[0].clock_offset_ms
    return ", ".join(filter(None, (leaders[0].server, "" if offset is None else f"clock {offset:+.1f} ms")))


@redisbeater.command()
@click.option("--max-late", type=DURATION, default="60s", show_default=True, help="How late the oldest entry may be.")
@click.option(
    "--require",
    type=click.Choice(["leader", "any"]),
    default="leader",
    show_default=True,
    help="What must be: that a beat leads, or that any beat runs.",
)
@click.option("--self", "self_token", default="", help="Ask for one beat alone, by its token or host:pid.")
@click.option("--timeout", type=DURATION, default="3s", show_default=True, help="How long Redis may take.")
@click.option(
    "--strict",
    is_flag=True,
    help="Count as unhealthy, too: entries that are broken, not sent or failed, and workers that do not report runs.",
)
@click.option(
    "--max-failed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="With --strict: how many entries may have failed.",
)
@as_json
@command
def health(
    app: Celery,
    max_late: timedelta,
    require: Literal["leader", "any"],
    self_token: str,
    timeout: timedelta,
    strict: bool,
    max_failed: int,
    as_json: bool,
) -> None:
    """Say in one line whether the schedule is healthy. Exit code 0: it is; 1: it is not.

    \b
    Examples:
      celery -A proj redisbeater health --max-late 5m
      celery -A proj redisbeater health --strict --max-failed 3
      celery -A proj redisbeater health --require any --strict --json
    """
    if not timeout:
        raise BadInput("--timeout: expected a duration above 0, got 0")
    found = ScheduleStore(app).health(
        max_late,
        require,
        self_token=self_token,
        strict=strict,
        max_failed=max_failed,
        timeout=timeout.total_seconds(),
    )
    click.echo(printable_json(found.as_dict(), indent=2) if as_json else found.sentence)
    if not found.is_healthy:
        raise click.exceptions.Exit(1)


#: What happens to fire times that come during a pause.
POLICIES = "by the misfire_grace_time and coalesce of each entry"


@redisbeater.command()
@click.option(
    "--until",
    type=MOMENT,
    help="When the pause ends by itself: 2h, or 'mon 09:00'. Default: it lasts until resume.",
)
@authored
@as_json
@times
@command
def pause(app: Celery, until: Moment | None, note: str, by: str, as_json: bool, times: Times) -> None:
    """Pause the whole schedule: no beat sends anything.

    It lasts until resume, or --until. The command waits until what is being sent has been sent. Entries keep their
    states.

    \b
    Examples:
      celery -A proj redisbeater pause --note "database is moved"
      celery -A proj redisbeater pause --until 2h
    """
    view = times.view()
    end = None
    if until is not None:
        local = times._replace(is_utc=False).view()
        end = until.read(local.now, local.zone)
    before, begun = ScheduleStore(app).paused(), ScheduleStore(app).pause(until=end, note=note, by=by)
    if as_json:
        click.echo(printable_json({**begun.as_dict(), "still_claimed": begun.still_claimed}, indent=2))
        return
    if before is not None:
        click.echo(f"this replaces the pause before it: {pause_words(before, view)}")
    click.echo(f"{pause_words(begun, view)}; runs that come due meanwhile are sent after resume, {POLICIES}")
    if begun.still_claimed:
        entries = "1 entry is" if begun.still_claimed == 1 else f"{begun.still_claimed:,} entries are"
        click.echo(f"{entries} still being sent: status shows the beats", err=True)


@redisbeater.command()
@authored
@as_json
@command
def resume(app: Celery, note: str, by: str, as_json: bool) -> None:
    """End the pause of the whole schedule.

    \b
    Example:
      celery -A proj redisbeater resume --note "database is back"
    """
    ended = ScheduleStore(app).resume(note=note, by=by)
    if as_json:
        click.echo(printable_json(json_form(ended), indent=2))
    elif ended.pause is None:
        click.echo("the schedule is not paused")
    elif ended.held:
        entries = "1 entry" if ended.held == 1 else f"{ended.held:,} entries"
        waited = duration_words(ended.oldest)
        click.echo(f"resumed; {entries} came due meanwhile, the oldest {waited} ago; beat sends them now, {POLICIES}")
    else:
        click.echo("resumed; no entry came due meanwhile")


def pause_words(begun: Pause, view: View) -> str:
    """Return a pause in words: who, since when, until when and why."""
    words = "paused"
    if begun.since is not None and view.now > begun.since:
        words += f" since {clock_words(view.local(begun.since, view.zone), view.now_in(view.zone))}"
    words += f" by {shown(begun.by)}" if begun.by else ""
    if begun.until is not None:
        local = view.local(begun.until, view.zone)
        words += f" until {clock_words(local, view.now_in(view.zone))} {local:%Z}, {relative_words(local, view.now)}"
    return words + (f': "{shown(begun.note)}"' if begun.note else "")
