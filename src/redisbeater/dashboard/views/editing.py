"""The form of an entry: new, a copy, or a change; checked, previewed and saved on the server. And that of one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from redisbeater.dashboard.access import Form, read_form
from redisbeater.dashboard.auth import Right
from redisbeater.dashboard.pages import Action, Page, PageRequest, Undo, flash
from redisbeater.dashboard.pictures import Quarters
from redisbeater.dashboard.site import JSONAnswer
from redisbeater.dashboard.template_environment import quote_name
from redisbeater.dashboard.views.entries import asked_name, zone_of
from redisbeater.dashboard.views.queries import EntryQuery, past_time
from redisbeater.display import printable_json, shown
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import (
    Collected,
    EditConflict,
    EntryExists,
    EntryNotFound,
    InvalidEntry,
    RunActive,
    SendFailed,
)
from redisbeater.management.edit_report import EditReport, edit_fields
from redisbeater.management.entry_words import (
    JSON_WORDS,
    EntryWords,
    FormWords,
    default_of,
    drafted,
    fields_of_entry,
    form_words,
    restored_words,
)
from redisbeater.management.lint import Preview, preview_entry
from redisbeater.management.moved import Moved, moved_by
from redisbeater.management.registered import Signature, entry_problem, signature_of, task_names
from redisbeater.model import json_text
from redisbeater.model.fields import WORDS
from redisbeater.model.options import linked_signatures
from redisbeater.redaction import BLANK
from redisbeater.schedules.kinds import SCHEDULE_WORDS

#: Lines of a log among which the newest change is looked for.
MOST_LINES = 10

#: The field of the form beside which an error is shown, if the field of the entry has another name.
_PLACES = {field.name: word for word, field in WORDS.items()}

#: The fields of a form in their order; "arg" stands for the arguments of the task.
_ORDER = ("", "name", "task", "kind", *SCHEDULE_WORDS, "timezone", "arg", *WORDS, "scheduled_for")

#: What the name of the field of an argument of the task begins with.
_ARGUMENT = "arg."

#: The messages of a form whose entry is gone, and of one whose entry another person has changed.
GONE = "Someone deleted this entry."
CHANGED = "Someone else has changed this entry since you opened it. Saving shows you both versions."

#: The message about JSON that is to be shown in fields, and cannot be.
NO_FIELDS = "The fields of the task cannot hold this JSON: correct it, or save it as it is."

#: Runs in the preview.
RUNS = 5


@dataclass(kw_only=True)
class Draft:
    """A form as it was filled in.

    Attributes:
        name: the name of the entry.
        was: the entry that is changed; empty: a new one is made.
        like: the entry that a new one is copied from; its secrets are blank in the form.
        version: that of the entry when the form was opened.
        kind: the word of the schedule; empty: it stays as it is.
        words: all texts, by their names.
        texts: those of the arguments of the task, by their names.
        has_json: whether the arguments are JSON, not fields.
        is_anyway: whether an entry is to be created whose runs will fail.
        may_create_anyway: whether the form offers that.
        errors: what is wrong, by field; an empty name is the form itself.
    """

    name: str = ""
    was: str = ""
    like: str = ""
    version: str = ""
    kind: str = "every"
    note: str = ""
    words: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    has_json: bool = False
    is_anyway: bool = False
    may_create_anyway: bool = False
    errors: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_form(cls, form: Form) -> Draft:
        """Return a draft of the fields in the form; programs may send only those that they change."""
        names = [name for name in ("task", *SCHEDULE_WORDS, *WORDS) if name in form]
        words = {name: form[name].replace("\r\n", "\n") for name in names}
        kind = form["kind"] or next((word for word in SCHEDULE_WORDS if words.get(word, "").strip()), "")
        kind = kind if kind in SCHEDULE_WORDS else ""
        texts = {
            name.removeprefix(_ARGUMENT): text.replace("\r\n", "\n")
            for name, text in form.flat.items()
            if name.startswith(_ARGUMENT)
        }
        return cls(
            name=form["was"] or form["name"], was=form["was"], like=form["like"], version=form["if_version"], kind=kind,
            note=form["note"], words=words, texts=texts, has_json=form["arguments"] != "fields",
        )  # fmt: skip

    @classmethod
    def of_entry(cls, name: str, found: FormWords, *, is_copy: bool = False) -> Draft:
        """Return the form of a stored entry."""
        if is_copy:
            return cls(name=f"{name} (copy)", like=name, kind=found.kind, words=dict(found.words))
        return cls(name=name, was=name, version=found.version, kind=found.kind, words=dict(found.words))

    @property
    def given(self) -> dict[str, str]:
        """The texts for ``EntryWords``: those that are not empty, with the one schedule that is chosen."""
        texts = {name: self.words[name].strip() for name in WORDS if self.words.get(name, "").strip()}
        if self.kind and self.words.get(self.kind, "").strip():
            texts[self.kind] = self.words[self.kind].strip()
        return texts

    def pass_arguments(self, signature: Signature) -> None:
        """Set args and kwargs to what the fields of the arguments say.

        Raises:
            InvalidEntry: a text cannot be read; it has the errors of the others.
        """
        passed = signature.passed(self.texts, *self._arguments())
        for word, value in zip(("args", "kwargs"), passed):
            if value or word in self.words:
                self.words[word] = printable_json(value) if value else ""

    def show_arguments(self, signature: Signature | None) -> None:
        """Set the fields of the arguments to what args and kwargs say; JSON stays where no fields can.

        What was typed stays if it cannot be read, and so does that for another task.
        """
        texts = None if signature is None else signature.texts(*self._arguments())
        self.has_json = self.has_json or texts is None
        if signature and texts is not None and not any(name.startswith(_ARGUMENT) for name in self.errors):
            known = [each.name for each in signature.arguments]
            self.texts = {name: text for name, text in self.texts.items() if name not in known} | texts

    def _arguments(self) -> list[Any]:
        """Return args and kwargs, or None in the place of one that is no JSON."""
        found: list[Any] = []
        for word, empty in (("args", "[]"), ("kwargs", "{}")):
            try:
                found.append(json_text.from_person(self.words.get(word, "").strip() or empty, "$"))
            except InvalidEntry:
                found.append(None)
        return found

    def refuse(self, errors: InvalidEntry) -> None:
        """Record an error, and those that came with it, each beside its field in words."""
        for error in (errors, *errors.others):
            name, *rest = error.path.removeprefix("$").lstrip(".").replace("[", ".[").split(".")
            problem = error.problem
            if name == "schedule":
                name, rest = self.kind or "kind", []
                problem = problem if self.words.get(name, "").strip() else "write when it runs"
            elif name == "name" and not self.name:
                problem = "give the entry a name"
            elif name == "kwargs" and not self.has_json and rest and rest[0] in self.texts:
                name, rest = _ARGUMENT + rest[0], rest[1:]
            elif name in ("args", "kwargs"):
                self.has_json = True
            name = _PLACES.get(name, name)
            if name not in _ORDER and not name.startswith(_ARGUMENT):
                name, rest = "", [error.path]
            place = ".".join(rest).replace(".[", "[")
            words = f"{place}: {problem}" if place else problem[:1].upper() + problem[1:]
            self.errors.setdefault(name, words if words.endswith((".", "?")) else f"{words}.")
        self.errors = dict(sorted(self.errors.items(), key=lambda each: _ORDER.index(each[0].partition(".")[0])))

    def drop(self, errors: Iterable[InvalidEntry]) -> None:
        """Record errors, and forget the texts that they are about."""
        for error in errors:
            self.refuse(error)
        self.name = "" if "name" in self.errors else self.name
        self.words = {name: text for name, text in self.words.items() if name not in self.errors}
        self.texts = {name: text for name, text in self.texts.items() if _ARGUMENT + name not in self.errors}


async def new(req: PageRequest) -> Page:
    """Show an empty form, or with ``copy`` one like another entry."""
    like = req.query("copy")
    draft = Draft.of_entry(like, await req.store.ask(form_words, like), is_copy=True) if like else Draft()
    return await _form(req, draft)


async def edit(req: PageRequest) -> Page:
    """Show the form of an entry."""
    name = asked_name(req)
    return await _form(req, Draft.of_entry(name, await req.store.ask(form_words, name)))


async def save(req: PageRequest) -> Page | Response:
    """Create or change an entry; with ``step=check`` show what that would do, and write nothing."""
    return await save_form(req, await read_form(req.request))


async def save_form(req: PageRequest, form: Form) -> Page | Response:
    """Do what a form says, or show it again with all that is wrong."""
    draft, step = Draft.of_form(form), form["step"]
    draft.is_anyway = step == "anyway"
    if step in ("arguments", "switch"):
        return await _with_arguments(req, draft, form)
    try:
        if step == "restore":
            with suppress(EntryExists):
                await req.store.restore(draft.was, note=draft.note, by=req.user.name)
        errors = Collected()
        with errors:
            await _pass_arguments(req, draft)
        with errors:
            await _check_tasks(req, draft)
        with errors:
            write = _change if draft.was else _create
            answer = await write(req, draft, is_check=step == "check" or bool(errors))
        errors.raise_first()
        return answer
    except InvalidEntry as exc:
        draft.refuse(exc)
        return await _form(req, draft, status=422)
    except EntryExists:
        draft.errors["name"] = "There is an entry of that name."
        return await _form(req, draft, status=409)
    except EditConflict:
        return await _conflict(req, draft)
    except EntryNotFound:
        if req.wants_json:
            raise
        draft.errors[""] = GONE
        return await _form(req, draft, status=404)


async def _with_arguments(req: PageRequest, draft: Draft, form: Form, template: str = "form.html") -> Page:
    """Show the form with the arguments of the task that is chosen, as fields or, if it says so, as JSON."""
    shows_json, is_switched = form["arguments"] == "json", form["step"] == "switch"
    draft.has_json ^= is_switched  # they came the other way
    try:
        await _pass_arguments(req, draft)
        draft.has_json = shows_json
    except InvalidEntry as exc:
        draft.refuse(exc)
    page = await _form(req, draft, template=template)
    if is_switched and draft.has_json and not shows_json:
        draft.errors["kwargs"] = NO_FIELDS
    return page


async def _pass_arguments(req: PageRequest, draft: Draft) -> None:
    """Set args and kwargs to what the fields of the arguments say, if they count and the task is known."""
    signature = None if draft.has_json else await req.store.ask(signature_of, draft.words.get("task", "").strip())
    if signature is not None:
        draft.pass_arguments(signature)


async def _create(req: PageRequest, draft: Draft, *, is_check: bool) -> Page | Response:
    texts: Mapping[str, Any] = draft.given
    if draft.like:
        texts = await req.store.ask(restored_words, draft.like, texts)
    words = await req.store.ask(EntryWords, texts)
    entry = await req.store.ask(drafted, draft.name, draft.words.get("task", "").strip(), words)
    if is_check:
        return await _form(req, draft, preview=await req.store.ask(preview_entry, entry, RUNS))
    if not (req.wants_json or draft.is_anyway):
        await _check_required(req, draft)
    fields: Any = fields_of_entry(entry)
    created = await req.store.create(
        entry.name, entry.task, entry.schedule, note=draft.note, by=req.user.name, **fields
    )
    text, data = f"{shown(created.name, 80)}: created.", {"name": created.name, "created": True}
    return await _saved(req, draft, text, data, warning=await _warning(req, created))


async def _check_required(req: PageRequest, draft: Draft) -> None:
    """Refuse a new entry without an argument that its task needs: each of its runs would fail.

    Raises:
        InvalidEntry: one is missing.
    """
    signature = None if draft.has_json else await req.store.ask(signature_of, draft.words.get("task", "").strip())
    errors = Collected()
    for each in signature.arguments if signature else ():
        with errors:
            if not each.default and not draft.texts.get(each.name, "").strip():
                draft.may_create_anyway = True
                raise InvalidEntry(f"$.kwargs.{each.name}", "is required by the task: each run would fail without it")
    errors.raise_first()


async def _change(req: PageRequest, draft: Draft, *, is_check: bool) -> Page | Response:
    before, changed, report = await _edited(req, draft, dry_run=is_check)
    if is_check:
        return await _form(req, draft, report=report, preview=await req.store.ask(preview_entry, report.entry, RUNS))
    if not report.changed:
        return await _saved(req, draft, f"{shown(draft.was, 80)}: nothing was changed.", report.as_dict())
    text, undo = f"{shown(draft.was, 80)}: changed {', '.join(report.changed)}.", _undo(draft, before, changed, report)
    calls_otherwise = any(field.partition(".")[0] in ("task", "args", "kwargs") for field in report.changed)
    warning = await _warning(req, report.entry) if calls_otherwise else ""
    return await _saved(req, draft, text, report.as_dict(), undo, warning=warning)


async def _warning(req: PageRequest, entry: RedisScheduleEntry) -> str:
    """Return a warning for the message about a saved entry if each of its runs will fail, else an empty text."""
    problem = await req.store.ask(entry_problem, entry)
    return f" Warning: {problem}." if problem else ""


def _changed_texts(draft: Draft, before: FormWords) -> dict[str, str]:
    """Return the texts that differ from those of the stored entry; a schedule only if it is another."""
    names = ["task", *WORDS, *([draft.kind] if draft.kind else [])]
    texts = {name: draft.words[name].strip() for name in names if name in draft.words}
    return {name: text for name, text in texts.items() if text != before.words.get(name, "").strip()}


async def _edited(req: PageRequest, draft: Draft, *, dry_run: bool) -> tuple[FormWords, dict[str, str], EditReport]:
    """Change an entry, unless it is a dry run; return its texts before, those that are changed, and the report."""
    before = await req.store.ask(form_words, draft.was)
    changed = _changed_texts(draft, before)
    set_, unset = {name: text for name, text in changed.items() if text}, [n for n, t in changed.items() if not t]
    words = await req.store.ask(EntryWords, await req.store.ask(restored_words, draft.was, set_), draft.was)
    errors, fields = Collected(), {}
    with errors:
        fields = await run_in_threadpool(words.fields)
    for name in unset:
        with errors:
            if name in ("task", *SCHEDULE_WORDS):
                raise InvalidEntry(f"$.{name if name == 'task' else 'schedule'}", "is missing; every entry has it")
            field_name, default = default_of(name)
            fields[field_name] = default
    errors.raise_first()
    version = draft.version or None
    author: Any = {"note": draft.note, "by": req.user.name}
    report = await req.store.ask(edit_fields, draft.was, if_version=version, dry_run=dry_run, **author, **fields)
    return before, changed, report


def _undo(draft: Draft, before: FormWords, changed: Mapping[str, str], report: EditReport) -> Undo | None:
    """Return the form that brings the former texts back; None where a secret was blanked in them."""
    texts = {name: before.words.get(name, "") for name in changed}
    if any(BLANK in text for text in texts.values()) or (draft.kind in changed and not before.kind):
        return None
    if draft.kind in changed:
        texts.pop(draft.kind)
        texts |= {"kind": before.kind, before.kind: before.words[before.kind]}
    fields = {"was": draft.was, "if_version": str(report.entry.version), **texts}
    return Undo(verb="edit", former=fields)


async def _saved(
    req: PageRequest, draft: Draft, text: str, data: Mapping[str, Any], undo: Undo | None = None, *, warning: str = ""
) -> Response:
    if req.wants_json:
        return JSONAnswer(data)
    answer = RedirectResponse(f"{req.root}/entry?name={quote_name(draft.name)}", 303)
    is_good = (data.get("created") or data.get("changed")) and not warning
    await flash(req, answer, text + warning, undo, "good" if is_good else "warn")
    return answer


async def _check_tasks(req: PageRequest, draft: Draft) -> None:
    """Refuse tasks that the app does not have, also as links of the options, unless the entry has them already.

    A canvas, such as a chain, is no task of the app: it may run any.
    """
    if req.site.allow_any_task:
        return
    errors = Collected()
    before = (await req.store.ask(form_words, draft.was)).words if draft.was else {}
    task, known = draft.words.get("task", "").strip(), await req.store.ask(task_names)
    with errors:
        if not draft.was and not task:
            raise InvalidEntry("$.task", "choose the task to run")
        if task and task != before.get("task") and task not in known:
            raise _unknown_task("$.task", task)
    linked = [signature for _, signature in _links(before)]
    links: list[tuple[str, Mapping[str, Any]]] = []
    with suppress(InvalidEntry):  # whoever reads the options says what is wrong with them
        links += _links(draft.words)
    with errors:
        for path, signature in links:
            canvas = signature.get("subtask_type")
            name = f"celery.{canvas}" if canvas else signature.get("task")
            if signature not in linked and name not in known:
                raise _unknown_task(path, name)
    errors.raise_first()


def _links(words: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return linked_signatures(json_text.from_person(words.get("options", "").strip() or "{}", "$.options"))


def _unknown_task(path: str, task: object) -> InvalidEntry:
    return InvalidEntry(path, f"this app has no task {shown(task, 200)!r}; workers refuse what they do not have")


async def preview(req: PageRequest) -> Page:
    """Show what a form would do that is not saved: its schedule in words, its next runs, and what is wrong."""
    draft = Draft.of_form(await read_form(req.request))
    report: EditReport | None = None
    found: Preview | None = None
    for _ in range(2):  # again without what cannot be read
        errors = Collected()
        with errors:
            await _pass_arguments(req, draft)
        with errors, suppress(EntryNotFound):
            if draft.was and req.may(Right.EDIT):  # of secrets, too, the changes tell whether a guess was right
                report = await _difference(req, draft)
            found = await (req.store.ask(preview_entry, report.entry, RUNS) if report else _preview_of_new(req, draft))
        if not errors:
            break
        draft.drop(errors)
    if draft.was and found is None and not draft.errors:
        draft.errors[""] = GONE
    data = {**(found.as_dict() if found else {}), "errors": draft.errors}
    data |= {"changes": report.as_dict()} if report else {}
    if any(draft.errors):  # a field is refused, so that saving changes nothing
        report = None
    if not draft.errors.keys().isdisjoint(SCHEDULE_WORDS):  # what it is stored with would be shown
        found = None
    moved = await what_moves(req, report)
    data |= {"moves": moved.as_dict()} if moved else {}
    values = {"draft": draft, "preview": found, "report": report, "moved": moved, "labels": _labels(req)}
    return Page(template="preview.html", values=values, data=data, fragment="preview")


#: The fields that decide when an entry runs.
WHEN = {"schedule", "timezone", "enabled", "disabled_until", "start_at", "end_at", "max_runs", "jitter", "skip"}

#: In a schedule with more entries, nobody who types waits until all of them are simulated.
MOST_SIMULATED = 1_000


async def what_moves(req: PageRequest, report: EditReport | None) -> Moved | None:
    """Return the runs that an edit moves, or None if it moves none, or those of the others are not known."""
    if report is None or WHEN.isdisjoint(report.changed):
        return None
    known = await known_minutes(req)
    if known is None:
        return None
    return await req.store.ask(moved_by, [report.pair], known.per_minute, known.now, known.end)


async def known_minutes(req: PageRequest) -> Quarters | None:
    """Return how many runs come in each minute; of a large schedule only if that is known already, else None."""
    everything = EntryQuery().selection
    if req.status.entries <= MOST_SIMULATED:
        return await req.site.forecasts.get(everything, timedelta(days=1))
    return await req.site.forecasts.known(everything)


def _labels(req: PageRequest) -> dict[str, str]:
    """Return the labels of the fields, by which errors name them."""
    fields = {field.word: field.label for group in req.site.form.values() for field in group}
    titles = {word: kind.title for word, kind in SCHEDULE_WORDS.items()}
    return {"name": "Name", "task": "Task", "kind": "Schedule", **titles, **fields}


async def _difference(req: PageRequest, draft: Draft) -> EditReport:
    """Return the report on the change that a form makes to its entry as that is now."""
    try:
        return (await _edited(req, draft, dry_run=True))[2]
    except EditConflict:
        draft.errors[""], draft.version = CHANGED, ""
        return (await _edited(req, draft, dry_run=True))[2]


async def _preview_of_new(req: PageRequest, draft: Draft) -> Preview:
    texts, task = draft.given, draft.words.get("task", "").strip()
    if draft.was:  # an unchanged secret is blank, which does not matter here
        texts = {name: text for name, text in texts.items() if name not in (*JSON_WORDS, "labels")}
        task = ""
    elif draft.like and req.may(Right.EDIT):
        texts = await req.store.ask(restored_words, draft.like, texts)
    entry = await req.store.ask(drafted, draft.name or "new", task or "preview", await req.store.ask(EntryWords, texts))
    found = await req.store.ask(preview_entry, entry, RUNS)
    findings = [each for each in found.findings if task or each.rule != "unknown-task"]
    return replace(found, call=found.call if task else "", findings=findings)


async def _form(
    req: PageRequest,
    draft: Draft,
    *,
    preview: Preview | None = None,
    report: EditReport | None = None,
    theirs: FormWords | None = None,
    status: int = 200,
    template: str = "form.html",
) -> Page:
    signature = await req.store.ask(signature_of, draft.words.get("task", "").strip())
    draft.show_arguments(signature)
    values = {
        "draft": draft, "preview": preview, "report": report, "moved": await what_moves(req, report),
        "theirs": theirs, "kinds": SCHEDULE_WORDS.values(),
        "tasks": await req.store.ask(task_names), "allow_any_task": req.site.allow_any_task, "signature": signature,
        "gone": GONE, "labels": _labels(req),
    }  # fmt: skip
    data = {"errors": draft.errors, "name": draft.name, "kind": draft.kind, "version": draft.version, **draft.words}
    data |= {"changes": report.as_dict()} if report else {}
    data |= {"preview": preview.as_dict()} if preview else {}
    return Page(template=template, values=values, data=data, fragment="content", status=status)


async def _conflict(req: PageRequest, draft: Draft) -> Page:
    """Show the form with the version of the other person beside it; saving it again overwrites that knowingly."""
    try:
        theirs = await req.store.ask(form_words, draft.was)
    except EntryNotFound:
        draft.errors[""] = GONE
        return await _form(req, draft, status=409)
    draft.version = theirs.version
    changed = next((line for line in await req.store.log(draft.was, limit=MOST_LINES) if line.is_change), None)
    page = await _form(req, draft, theirs=theirs, status=409)
    return replace(page, values={**page.values, "changed": changed})


async def ask_to_run(req: PageRequest) -> Page:
    """Show the form of a run with other arguments than the entry's."""
    name = asked_name(req)
    return await _form(req, Draft.of_entry(name, await req.store.ask(form_words, name)), template="trigger.html")


async def start_run(req: PageRequest) -> Page | Response:
    """Start a run of an entry with the arguments of a form, or show the form again with all that is wrong."""
    form = await read_form(req.request)
    draft, stored = Draft.of_form(form), await req.store.ask(form_words, form["was"])
    draft.words |= {
        "task": stored.words["task"],
        "scheduled_for": form["scheduled_for"].strip(),
    }  # it is the entry's task, whatever is sent
    if form["step"] in ("arguments", "switch"):
        return await _with_arguments(req, draft, form, "trigger.html")
    status = 422
    try:
        run_id = await _started(req, draft)
    except InvalidEntry as exc:
        if req.wants_json:
            raise
        draft.refuse(exc)
    except (RunActive, SendFailed) as exc:
        if req.wants_json:
            raise
        draft.errors[""], status = str(exc), 409
    else:
        if req.wants_json:
            return JSONAnswer({"name": draft.was, "id": run_id})
        answer = RedirectResponse(f"{req.root}/entry?name={quote_name(draft.was)}", 303)
        await flash(req, answer, f"Started {shown(draft.was, 80)}: run {run_id}.")
        return answer
    return await _form(req, draft, status=status, template="trigger.html")


async def _started(req: PageRequest, draft: Draft) -> str:
    """Start a run; return its id.

    Raises:
        InvalidEntry: its arguments or its time cannot be read, or its task takes no such arguments.
    """
    errors, at, passed = Collected(), None, dict[str, Any]()
    with errors:
        await _pass_arguments(req, draft)
    with errors:
        if text := draft.words["scheduled_for"]:
            at = await _scheduled_for(req, draft.was, text)
    with errors:
        given = {word: draft.words.get(word, "").strip() for word in ("args", "kwargs")}
        texts = await req.store.ask(restored_words, draft.was, {word: text for word, text in given.items() if text})
        words = await req.store.ask(EntryWords, texts, draft.was)
        passed = {"args": [], "kwargs": {}} | await run_in_threadpool(words.fields)
    errors.raise_first()
    if problem := await req.store.ask(entry_problem, await req.store.get(draft.was), **passed):
        raise InvalidEntry("$", problem)
    return await req.store.trigger(draft.was, **passed, scheduled_for=at, note=draft.note, by=req.user.name)


async def _scheduled_for(req: PageRequest, name: str, text: str) -> datetime:
    try:
        return past_time(req, text, await zone_of(req, name))
    except ValueError as exc:
        raise InvalidEntry("$.scheduled_for", str(exc)) from exc


ACTIONS = (
    Action(path="/entry/run", answer=ask_to_run, right=Right.EDIT, has_json=False),
    Action(path="/entry/run", answer=start_run, right=Right.EDIT, method="POST"),
    Action(path="/new", answer=new, right=Right.EDIT),
    Action(path="/entry/edit", answer=edit, right=Right.EDIT),
    Action(path="/entry", answer=save, right=Right.EDIT, method="POST"),
    Action(path="/preview", answer=preview, method="POST"),
)
