"""``rrule``: a schedule by a recurrence rule of RFC 5545, from parts as in RedBeat or from text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import MAXYEAR, datetime, timedelta, timezone, tzinfo
from typing import Any, NoReturn

from redisbeater.display import did_you_mean, quoted, shown
from redisbeater.exceptions import InvalidEntry, WrongType
from redisbeater.schedules.budget import Steps
from redisbeater.schedules.kind import OwnSchedule
from redisbeater.schedules.rrule.recurrence import Recurrence, check_possible, first_fire_time, following
from redisbeater.schedules.rrule.rule import FREQUENCIES, PARTS, RuleClock, make_rule
from redisbeater.schedules.rrule.text import is_text, read_text, rfc_name, write_text
from redisbeater.schedules.zones import in_iana_zone, offset_at, read_zone, zone_name

_MICROSECOND = timedelta(microseconds=1)


class rrule(OwnSchedule):
    """Fire at the occurrences of a recurrence rule, including ``dtstart`` if the rule matches it.

    Local times are those of one zone, read by RFC 5545 section 3.3.5. Finding the next occurrence takes the same time
    however old ``dtstart`` is.

    Arguments:
        freq: ``"DAILY"`` or dateutil's number, with the parts below; or RFC 5545 text: one rule
            (``"FREQ=MONTHLY;BYDAY=1MO"``), or lines of DTSTART, RRULE, RDATE and EXDATE.
        dtstart: when the rule begins, in whole seconds; default: now.
        interval, wkst, count, until, bysetpos, ...: as in :class:`dateutil.rrule.rrule`; a text contains them.
        nowfun, app: as for Celery's schedules; not stored.
        timezone: zone of the local times, by its IANA name or as a ``ZoneInfo``; default: that of ``dtstart``, else the
            app's.

    Raises:
        InvalidEntry: the value of a part is not valid; the message starts with its name. It is also a TypeError if the
            value has a wrong type.

    Example::

        rrule("FREQ=MONTHLY;BYDAY=1MO", dtstart=datetime(2026, 1, 1, 9), timezone="Europe/Vienna")
        rrule("MONTHLY", dtstart=datetime(2026, 1, 1, 9), timezone="Europe/Vienna", byweekday=MO(+1))
    """

    def __init__(
        self,
        freq: str | int,
        dtstart: datetime | None = None,
        interval: int = 1,
        wkst: Any = None,
        count: int | None = None,
        until: datetime | None = None,
        bysetpos: Any = None,
        bymonth: Any = None,
        bymonthday: Any = None,
        byyearday: Any = None,
        byeaster: Any = None,
        byweekno: Any = None,
        byweekday: Any = None,
        byhour: Any = None,
        byminute: Any = None,
        bysecond: Any = None,
        timezone: str | tzinfo | None = None,
        nowfun: Callable[[], datetime] | None = None,
        app: Any = None,
        **unknown: NoReturn,
    ) -> None:
        if unknown:
            raise _unknown_argument(next(iter(unknown)))
        super().__init__(nowfun=nowfun, app=app)
        self.interval, self.wkst, self.count = interval, wkst, count
        self.bysetpos, self.byeaster, self.byweekno = bysetpos, byeaster, byweekno
        self.bymonth, self.bymonthday, self.byyearday = bymonth, bymonthday, byyearday
        self.byweekday, self.byhour, self.byminute, self.bysecond = byweekday, byhour, byminute, bysecond
        zone = None if timezone is None else read_zone(timezone, "timezone")
        #: The normal form of the RFC 5545 text; None when it was created from parts.
        self.text: str | None = None
        #: dateutil's number; None when the text has more than one rule.
        self.freq: Any = None
        self.until: datetime | None = None
        try:
            self._set_rule(freq, dtstart, until, zone)
        except (ValueError, TypeError) as exc:
            raise InvalidEntry.of(exc, "rrule") from exc

    def _set_rule(self, freq: Any, dtstart: datetime | None, until: datetime | None, zone: tzinfo | None) -> None:
        if is_text(freq):
            self._refuse_parts(until)
            self._set_from_text(str(freq), dtstart, zone)
        else:
            self._set_from_parts(freq, dtstart, until, zone)

    def _refuse_parts(self, until: datetime | None) -> None:
        for name, value in {**self._parts(), "until": until}.items():
            if value is not None and not (name == "interval" and value == 1):
                raise TypeError(
                    f"{name}: expected {rfc_name(name)} in the text, got the argument {name}={quoted(value)}"
                )

    def _set_from_text(self, text: str, dtstart: datetime | None, zone: tzinfo | None) -> None:
        parsed = read_text(text)
        if parsed.start is not None and dtstart is not None:
            raise ValueError(f"dtstart: expected one start, got DTSTART in the text and dtstart={quoted(dtstart)}")
        self._set_start(dtstart if parsed.start is None else parsed.start, zone)
        if zone_name(self.zone) is None:
            raise ValueError(f"dtstart: a text cannot name the zone {self.zone}; pass timezone='Europe/Vienna'")
        self.recurrence = parsed.recurrence(RuleClock(self.dtstart))
        check_possible(self.recurrence.rules, rfc_name)
        self.text = write_text(self.recurrence)
        if len(parsed.rules) == 1 and not (parsed.rdates or parsed.exdates):
            self._expose_parts(parsed.rules[0])

    def _expose_parts(self, parts: dict[str, Any]) -> None:
        """Set the attributes to the parts of the only rule of a text, as if it had been created from them."""
        for name in parts.keys() - {"until"}:
            setattr(self, name, parts[name])
        until = self.recurrence.rules[0].until
        self.until = until and until.astimezone(self.zone)

    def _set_from_parts(
        self, freq: str | int, dtstart: datetime | None, until: datetime | None, zone: tzinfo | None
    ) -> None:
        self.freq = _frequency(freq)
        self._set_start(dtstart, zone)
        self.until = None if until is None else self._aware("until", until, zone)
        clock = RuleClock(self.dtstart)
        is_endless = self.until is None or self.until.year == MAXYEAR
        end = None if self.until is None or is_endless else self.until.astimezone(timezone.utc)
        self.recurrence = Recurrence(clock=clock, rules=(make_rule(clock, end, self._parts()),))
        check_possible(self.recurrence.rules)

    def _set_start(self, dtstart: datetime | None, zone: tzinfo | None) -> None:
        #: Whether the caller passed the start; otherwise the rule starts when it is created.
        self.has_explicit_start = dtstart is not None
        self.dtstart = self._aware("dtstart", self.now() if dtstart is None else dtstart, zone)
        if not 1 < self.dtstart.year < MAXYEAR:
            raise ValueError(f"dtstart: expected a year from 2 to {MAXYEAR - 1}, got {self.dtstart.year}")

    def _aware(self, name: str, moment: Any, zone: tzinfo | None) -> datetime:
        if not isinstance(moment, datetime):
            raise TypeError(f"{name}: expected a datetime, got {quoted(moment)}")
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone or read_zone(self.tz, "timezone"))
        moment = in_iana_zone(moment, name)
        return _without_needless_fold((moment if zone is None else moment.astimezone(zone)).replace(microsecond=0))

    @property
    def zone(self) -> tzinfo:
        """The zone of the rule's local times: that of ``dtstart``."""
        return self.dtstart.tzinfo or timezone.utc

    def first_occurrence(self, steps: Steps | None = None) -> datetime | None:
        """Return the first fire time as an instant; None when the rule has none."""
        return first_fire_time(self.recurrence, steps or Steps())

    def next_fire_time(self, after: datetime, steps: Steps | None = None) -> datetime | None:
        """Return the first occurrence after an instant; None when the rule has ended, or has none within 41 years.

        Raises:
            StepsExhausted: finding it takes more steps than there are left; an InvalidEntry.
        """
        found = following(self.recurrence, after, steps or Steps())
        return None if found is None else found.instant

    def nominal_time(self, fire_time: datetime) -> datetime | None:
        """Return the naive local time of the occurrence that fires at an instant; None when none does.

        It differs from what the clock shows only when that local time does not exist, because the clock skips it.
        """
        occurrence = following(self.recurrence, fire_time - _MICROSECOND, Steps())
        return occurrence.local if occurrence is not None and occurrence.instant == fire_time else None

    def _following(self, after: datetime) -> datetime | None:
        return self.next_fire_time(after)

    def __repr__(self) -> str:
        text = shown(write_text(self.recurrence).replace("\n", " "))
        return f"<rrule: {text} in {self.zone}>"

    def _parts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in PARTS}

    @property
    def text_needs_zone(self) -> bool:
        """Whether the text does not name the zone, because its start is in a second pass and stands in UTC."""
        return self.text is not None and bool(self.dtstart.fold)

    def _constructor_arguments(self) -> dict[str, Any]:
        """Return keyword arguments that create an equal rule."""
        if self.text is not None:
            return {"freq": self.text, "timezone": zone_name(self.zone) if self.text_needs_zone else None}
        return {"dtstart": self.dtstart, "until": self.until, **self._parts()}

    def _identity(self) -> dict[str, Any]:
        """Return the values that equal rules share: datetimes of one zone would be equal whatever their fold is."""
        until = self.until and self.until.astimezone(timezone.utc)
        dtstart = (self.recurrence.clock.starts_at, self.recurrence.clock.local_start)
        zone = zone_name(self.zone) or self.dtstart.utcoffset()
        return {**self._constructor_arguments(), "dtstart": dtstart, "until": until, "zone": zone}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, rrule) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self.text or (self.freq, self.recurrence.clock.starts_at, self.interval))

    def __reduce__(self) -> Any:
        return _rebuild, (self._constructor_arguments(),)


def _unknown_argument(name: str) -> InvalidEntry:
    """Return the error for an argument that no rule has; its name may be that of RFC 5545, or nearly that of a part."""
    of_rfc = {rfc_name(part).lower(): part for part in PARTS}
    meant = did_you_mean(of_rfc.get(name.lower(), name), ("dtstart", "until", "timezone", *PARTS))
    return WrongType(name, f"is not an argument of rrule(){meant}")


def _rebuild(arguments: dict[str, Any]) -> rrule:
    return rrule(**arguments)


def _without_needless_fold(moment: datetime) -> datetime:
    """Return a datetime with fold=1 only in the second pass of a repeated time; a gap has the offset before it."""
    if not moment.fold or moment.tzinfo is None:
        return moment
    local = moment.replace(tzinfo=None, fold=0)
    is_repeated = offset_at(local, moment.tzinfo) > offset_at(local.replace(fold=1), moment.tzinfo)
    return moment if is_repeated else moment.replace(fold=0)


def _frequency(freq: str | int) -> int:
    if isinstance(freq, int) and not isinstance(freq, bool) and freq in FREQUENCIES.values():
        return freq
    if isinstance(freq, str) and freq.upper() in FREQUENCIES:
        return FREQUENCIES[freq.upper()]
    expected = f"expected one of {', '.join(FREQUENCIES)}, or RFC 5545 text such as 'FREQ=MONTHLY;BYDAY=1MO'"
    raise ValueError(f"freq: {expected}; got {quoted(freq)}")
