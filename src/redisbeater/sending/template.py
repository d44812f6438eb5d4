"""Templates: the message of a run, made by Celery once for each task and its options, and filled in for others.

The message of a run differs from that of another one of the same task and options in its id, its fire times, its
delivery tag, the name of its entry, and its arguments: their texts and the body. A template is learned from a message
that Celery and kombu have made, cut where it differs; what is filled in comes from their own functions, too. So nothing
here knows how a message is written.

The first two messages of each template go Celery's way, and each thousandth one, and are compared. If one differs for
no known reason, that is logged, and the template is off.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

from redisbeater.broker.own_code import as_json, encoded_body, escaped
from redisbeater.broker.publisher_confirms import CapturedPublishBatch, Command, PublishBatch
from redisbeater.entry import RedisScheduleEntry
from redisbeater.log_lines import get_logger
from redisbeater.model.definition import Definition
from redisbeater.model.reader import MAX_ENTRIES
from redisbeater.model.run import PREVIOUS_HEADER
from redisbeater.sending.run import sendable
from redisbeater.sending.who_may import OF_BATCH, OF_TASK, Way, facts, facts_of_task, unmet

logger = get_logger(__name__)

#: After this many messages of a template, one goes Celery's way and is compared.
CHECKED_EACH = 1000

#: After so many differences no template is used any more.
MOST_DIFFERENCES = 100

#: So many of them are told.
MOST_TOLD = 3

#: Options whose value in the message depends on the time.
_OF_TIME = frozenset(("eta", "countdown", "expires"))

#: What is remembered of a definition.
Kept = dict[Any, Any]


class Shape(NamedTuple):
    """What the messages of a template have in common.

    Attributes:
        task: the task's name.
        options: the options of the definition, as JSON.
        has_previous: whether they tell the fire time before theirs.
        is_tracked: whether they tell which attempt they are, which is the first.
    """

    task: str
    options: str
    has_previous: bool
    is_tracked: bool


class PlainRun:
    """A run that a template may send: with one fire time of its own, and nothing that the time decides.

    Arguments:
        definition: by what it is sent.
        kept: what is remembered of that definition as long as it is in memory.
        run_id: its id.
        fire_time: its fire time.
        text: the same in ISO 8601.
        previous: the fire time before, or None.
        due_at: when it is due.
        is_tracked: whether it is recorded.
        make: makes its entry, as Celery gets it.
    """

    __slots__ = ("definition", "due_at", "is_tracked", "kept", "last_run_at", "make", "previous", "run_id", "text")

    def __init__(
        self,
        definition: Definition,
        kept: Kept,
        run_id: str,
        fire_time: datetime,
        text: str,
        previous: datetime | None,
        due_at: datetime,
        is_tracked: bool,
        make: Callable[[], RedisScheduleEntry],
    ) -> None:
        self.definition, self.kept, self.run_id, self.last_run_at = definition, kept, run_id, fire_time
        self.text, self.previous, self.due_at, self.is_tracked, self.make = text, previous, due_at, is_tracked, make

    @property
    def name(self) -> str:
        """The name of its entry."""
        return self.definition.name

    @property
    def task(self) -> str:
        """The task's name."""
        return self.definition.task

    @property
    def options(self) -> dict[str, Any]:
        """What the log tells of its options."""
        return {"task_id": self.run_id}

    @property
    def shape(self) -> Shape | None:
        """What its message has in common with others, or None where the time decides what its options are."""
        if "options" not in self.kept:
            self.kept["options"] = _options_text(self.definition)
        options: str | None = self.kept["options"]
        if options is None:
            return None
        return Shape(self.task, options, self.previous is not None, self.is_tracked)


def _options_text(definition: Definition) -> str | None:
    if definition.deadline is not None or not _OF_TIME.isdisjoint(definition.options):
        return None
    try:
        return json.dumps(definition.options)  # in their order, which is that of the headers
    except (TypeError, ValueError):  # a datetime
        return None


class Varying(NamedTuple):
    """What differs between two messages of a template."""

    run_id: str
    fire_time: str
    previous: str
    tag: str
    name: str
    body: str
    argsrepr: str
    kwargsrepr: str


class Template:
    """One message, cut where it differs from others.

    Arguments:
        command: the command that puts it into the broker.
        varying: what it holds there.

    Raises:
        ValueError: it does not hold that, or is no message that a template can make.
    """

    __slots__ = ("key", "parts", "picked", "token", "used")

    def __init__(self, command: Command, varying: Varying, token: Token) -> None:
        name, self.key, text = command
        message = json.loads(text)
        if name != "LPUSH" or message["properties"]["delivery_info"]["exchange"]:
            raise ValueError("it is not put into one queue by its name")
        mark = uuid.uuid4().hex
        marks = Varying(*(f"{mark}{place}" for place in range(len(Varying._fields))))
        headers, properties = message["headers"], message["properties"]
        headers["periodic_task_name"], headers["scheduled_for"] = marks.name, marks.fire_time
        headers["argsrepr"], headers["kwargsrepr"] = marks.argsrepr, marks.kwargsrepr
        if PREVIOUS_HEADER in headers:
            headers[PREVIOUS_HEADER] = marks.previous
        message["body"], properties["delivery_tag"] = marks.body, marks.tag
        found = re.split(rf"{mark}(\d)", as_json(_replaced(message, varying.run_id, marks.run_id)))
        self.parts, places = found, tuple(map(int, found[1::2]))
        self.picked: Callable[[Varying], Sequence[str]] = itemgetter(*places)
        #: What held when it was learned, or compared last.
        self.token = token
        #: How many messages it was asked for.
        self.used = 0
        if self.text(varying) != text:
            raise ValueError("it cannot be put together again")

    def text(self, varying: Varying) -> str:
        """Return the text of a message."""
        parts = self.parts[:]
        parts[1::2] = self.picked(varying)
        return "".join(parts)


def _replaced(value: Any, old: str, new: str) -> Any:
    """Return a JSON value in which each text that is ``old`` is ``new``."""
    if type(value) is dict:
        return {name: _replaced(item, old, new) for name, item in value.items()}
    if type(value) is list:
        return [_replaced(item, old, new) for item in value]
    return new if value == old and type(value) is str else value


def tag_of(command: Command) -> str:
    """Return the delivery tag of a message as it stands in its text."""
    return escaped(json.loads(command[2])["properties"]["delivery_tag"])


class Ready(NamedTuple):
    """A template for one entry, with the texts that all runs of the entry share."""

    template: Template
    name: str
    body: str
    argsrepr: str
    kwargsrepr: str


class Templates:
    """The templates of one beat.

    Arguments:
        scheduler: the scheduler, whose hooks send what no template does.
        log: logs a run that is sent, as Celery does.
    """

    def __init__(self, scheduler: Any, log: Callable[[PlainRun], None]) -> None:
        self._scheduler, self._log = scheduler, log
        #: By shape; where there is no template, what held when it was found that there can be none.
        self._learned: OrderedDict[Shape, Template | Token] = OrderedDict()
        self._facts: Any = None
        #: The last channel, and how many there were: the queue of a message is declared once on each.
        self._channel: Any = None
        self._channels = 0
        self._tokens: dict[str, Token] = {}
        #: Whether they were used in the last publish batch.
        self.are_used = False
        #: Which condition keeps them from being used, in words; empty: none does.
        self.why_not = ""
        #: Where a message of Celery's has differed for no known reason, by shape: that template is off.
        self.differences: dict[Shape, str] = {}

    @property
    def words(self) -> str:
        """Which messages have differed, or why Celery makes all of them; an empty text where neither is so."""
        if self.differences:
            found = [f"of {shape.task} {where}" for shape, where in self.differences.items()]
            return f"made by Celery, as what was learned differed: {'; '.join(found[:MOST_TOLD])}"
        return f"made by Celery: {self.why_not}" if self.why_not else ""

    def has(self, run: PlainRun) -> bool:
        """Return whether the message of a run is likely to be made by a template: then it needs no entry."""
        known = run.kept.get((run.previous is None, run.is_tracked))
        if known is not None:
            return known.template.token is self._tokens.get(run.definition.task)
        shape = run.shape
        return shape is not None and isinstance(self._learned.get(shape), Template)

    def begin(self, batch: PublishBatch, producer: Any) -> Filling | None:
        """Ask whether templates may be used in a publish batch, and return their filling, or None if they may not."""
        self.are_used, self.why_not = False, ""
        if not isinstance(batch, CapturedPublishBatch):  # another broker, or an older kombu
            return None
        way = Way(self._scheduler, producer, batch.channel)
        if (missing := unmet(OF_BATCH, way)) is not None:
            self.why_not = missing.words
            return None
        if len(self.differences) >= MOST_DIFFERENCES:
            return None
        if batch.channel is not self._channel:
            self._channel, self._channels = batch.channel, self._channels + 1
        try:
            found = self._channels, facts(way)
        except Exception:  # of the application's code; Celery meets it again
            return None
        if found != self._facts:
            self._facts, self._tokens = found, {}
        self.are_used = True
        return Filling(self, way, batch, self._log)

    def token(self, way: Way, name: str) -> Token | None:
        """Return the token of all that holds for a task now, or None if its runs go Celery's way."""
        try:
            task = way.app.tasks.get(name)
            if unmet(OF_TASK, task) is not None:
                return None
            found, known = facts_of_task(task), self._tokens.get(name)
        except Exception:  # as above
            return None
        if known is None or known.of_task != found:
            known = self._tokens[name] = Token(self._facts, found)
        return known

    def find(self, shape: Shape) -> Template | None:
        """Return the template of a shape, or None."""
        found = self._learned.get(shape)
        return found if isinstance(found, Template) else None

    def is_hopeless(self, shape: Shape, token: Token) -> bool:
        """Return whether there is no template of a shape as long as nothing changes."""
        return shape in self.differences or self._learned.get(shape) is token

    def learn(self, shape: Shape, command: Command, varying: Varying, token: Token) -> None:
        """Learn a template from a message of Celery's, or that there can be none."""
        try:
            self._learned[shape] = Template(command, varying, token)
        except (ValueError, TypeError, KeyError, IndexError):  # kombu or Celery write it otherwise
            self._learned[shape] = token
        self._learned.move_to_end(shape)
        if len(self._learned) > MAX_ENTRIES:
            self._learned.popitem(last=False)

    def differs(self, shape: Shape, where: str) -> None:
        """Switch a template off, and log it: its next runs go Celery's way."""
        self.differences[shape] = where
        if isinstance(template := self._learned.get(shape), Template):
            template.token = Token(None, ())  # nothing that holds for any task
        logger.error(
            "task %r: the message of a run differs from what was learned, %s; such runs go Celery's way from now on",
            shape.task,
            where,
        )


class Token:
    """What held for a task when a template was learned, or compared last: another object whenever a fact changes."""

    __slots__ = ("of_all", "of_task")

    def __init__(self, of_all: Any, of_task: tuple[Any, ...]) -> None:
        self.of_all, self.of_task = of_all, of_task

    def is_of_other_connection(self, other: Token) -> bool:
        """Return whether another one differs in nothing but the connection."""
        return bool(self.of_all[1] == other.of_all[1] and self.of_task == other.of_task)


class Filling:
    """Fills templates in one publish batch.

    Arguments:
        templates: the templates.
        way: the way of what no template sends.
        batch: the publish batch.
        log: logs a run that is sent.
    """

    def __init__(
        self, templates: Templates, way: Way, batch: CapturedPublishBatch, log: Callable[[PlainRun], None]
    ) -> None:
        self._templates, self._way, self._batch, self._log = templates, way, batch, log
        self._tokens: dict[str, Token | None] = {}
        #: Tags are unique by what they begin with; kombu makes each at random.
        self._tag = str(uuid.uuid4())[:24]

    def send(self, run: PlainRun) -> bool:
        """Put the message of a run into the publish batch; return whether a template has made it."""
        ready = self._ready(run)
        if ready is None:
            return False
        template = ready.template
        template.used += 1
        if template.used == 1 or template.used % CHECKED_EACH == 0:
            return False  # it is compared
        self._log(run)
        tag = f"{self._tag}{self._batch.published:012x}"
        self._batch.keep(("LPUSH", template.key, template.text(_varying(run, ready, tag))))
        return True

    def compare(self, run: PlainRun, numbers: range) -> None:
        """Compare the message that Celery has made for a run with what a template would have made, or learn it.

        Arguments:
            run: the run.
            numbers: the numbers of its messages in the publish batch.
        """
        token, shape = self._token(run.task), run.shape
        if token is None or shape is None or self._templates.is_hopeless(shape, token):
            return
        commands = self._batch.commands(numbers)
        texts = self._texts(run) if len(commands) == 1 else None
        if texts is None:
            return
        command, template = commands[0], self._templates.find(shape)
        try:
            varying = _varying(run, texts, tag_of(command))
        except (ValueError, TypeError, KeyError, IndexError):
            return
        is_same = template is not None and (template.key, template.text(varying)) == command[1:]
        if template is not None and template.token is token:
            if not is_same:
                self._templates.differs(shape, _where(template.text(varying), command[2]))
        elif template is not None and is_same and template.token.is_of_other_connection(token):
            template.token = token  # with the texts of entries
        else:
            self._templates.learn(shape, command, varying, token)

    def _ready(self, run: PlainRun) -> Ready | None:
        """Return the template of a run with the texts of its entry, or None if it goes Celery's way."""
        place = run.previous is None, run.is_tracked
        ready: Ready | None = run.kept.get(place)
        token = self._token(run.definition.task)
        if token is None:
            return None
        if ready is None or ready.template.token is not token:
            shape = run.shape
            template = None if shape is None else self._templates.find(shape)
            if template is None or template.token is not token:
                return None
            texts = self._kept_texts(run, token)
            if texts is None:
                return None
            ready = run.kept[place] = texts._replace(template=template)
        return ready

    def _kept_texts(self, run: PlainRun, token: Token) -> Ready | None:
        """Return the texts of an entry, made once as long as the same holds for its task."""
        kept: tuple[Token, Ready | None] | None = run.kept.get("texts")
        if kept is None or kept[0] is not token:
            kept = run.kept["texts"] = token, self._texts(run)
        return kept[1]

    def _token(self, task: str) -> Token | None:
        if task not in self._tokens:
            self._tokens[task] = self._templates.token(self._way, task)
        return self._tokens[task]

    def _texts(self, run: PlainRun) -> Ready | None:
        """Return the texts of an entry as Celery and kombu write them, or None if they refuse its arguments."""
        definition = run.definition
        args = [sendable(value) for value in definition.args]
        kwargs = {name: sendable(value) for name, value in definition.kwargs.items()}
        if not (_is_json(args) and _is_json(kwargs)):
            return None
        task = self._way.app.tasks.get(definition.task)
        try:
            if task is not None and task.typing:
                task.__header__(*args, **kwargs)
            message = self._way.app.amqp.create_task_message(run.run_id, definition.task, args, kwargs)
            body = encoded_body(self._way.channel, message.body)
            texts = message.headers["argsrepr"], message.headers["kwargsrepr"]
        except Exception:  # Celery raises it again when it sends the run
            return None
        return Ready(_NONE, escaped(definition.name), escaped(body), *map(escaped, texts))


def _varying(run: PlainRun, ready: Ready, tag: str) -> Varying:
    previous = "" if run.previous is None else run.previous.isoformat()
    return Varying(run.run_id, run.text, previous, tag, *ready[1:])


#: No template, or no value.
_NONE: Any = object()

#: The types of values that kombu writes as JSON knows them.
_PLAIN = frozenset((str, int, float, bool, type(None)))


def _is_json(value: Any) -> bool:
    kind = type(value)
    if kind is list:
        return all(map(_is_json, value))
    if kind is dict:
        return all(type(name) is str for name in value) and all(map(_is_json, value.values()))
    return kind in _PLAIN


def _where(ours: str, theirs: str) -> str:
    """Return where two messages differ: the names of the fields, and no values, which may be secret."""
    try:
        mine, other = json.loads(ours), json.loads(theirs)
    except ValueError:
        return "in its text"
    found = sorted(_differing(mine, other, ""))
    return f"in {', '.join(found[:MOST_TOLD])}" if found else "in the order of its fields, or in its queue"


def _differing(mine: Any, other: Any, path: str) -> Iterator[str]:
    if type(mine) is dict and type(other) is dict:
        for name in mine.keys() | other.keys():
            yield from _differing(mine.get(name, _NONE), other.get(name, _NONE), f"{path}.{name}" if path else name)
    elif mine != other or type(mine) is not type(other):
        yield path
