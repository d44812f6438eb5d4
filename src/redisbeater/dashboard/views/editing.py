"""The form of an entry: new, a copy, or a change; checked, previewed and saved on the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from redisbeater.dashboard.access import Form, read_form
from redisbeater.dashboard.auth import Right
from redisbeater.dashboard.pages import Action, Page, PageRequest, Undo, flash
from redisbeater.dashboard.site import JSONAnswer
from redisbeater.dashboard.template_environment import quote_name
from redisbeater.dashboard.views.entries import asked_name
from redisbeater.display import quoted, shown
from redisbeater.exceptions import EditConflict, EntryExists, EntryNotFound, InvalidEntry
from redisbeater.management.edit_report import EditReport
from redisbeater.management.entry_words import JSON_WORDS, FormWords, default_of, fields_of_entry
from redisbeater.management.lint import Preview
from redisbeater.model import json_text
from redisbeater.model.fields import WORDS, Flag, Labels
from redisbeater.model.options import linked_signatures
from redisbeater.redaction import BLANK
from redisbeater.schedules.kinds import SCHEDULE_WORDS

#: The field of the form beside which an error is shown, if the field of the entry has another name.
_PLACES = {"schedule": "kind", **{field.name: word for word, field in WORDS.items()}}

#: The message of a form whose entry is gone.
GONE = "it was deleted meanwhile: restore it, and save again"

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
        errors: what is wrong, by field; an empty name is the form itself.
    """

    name: str = ""
    was: str = ""
    like: str = ""
    version: str = ""
    kind: str = "every"
    note: str = ""
    words: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_form(cls, form: Form) -> Draft:
        """Return a draft of the fields in the form; programs may send only those that they change."""
        names = [name for name in ("task", *SCHEDULE_WORDS, *WORDS) if name in form]
        words = {name: form[name].replace("\r\n", "\n") for name in names}
        kind = form["kind"] or next((word for word in SCHEDULE_WORDS if words.get(word, "").strip()), "")
        kind = kind if kind in SCHEDULE_WORDS else ""
        return cls(
            name=form["was"] or form["name"], was=form["was"], like=form["like"], version=form["if_version"], kind=kind,
            note=form["note"], words=words,
        )  # fmt: skip

    @classmethod
    def of_entry(cls, name: str, found: FormWords, *, is_copy: bool = False) -> Draft:
        """Return the form of a stored entry."""
        if is_copy:
            return cls(name=f"{name} (copy)", like=name, kind=found.kind, words=dict(found.words))
        return cls(name=name, was=name, version=found.version, kind=found.kind, words=dict(found.words))

    @property
    def given(self) -> dict[str, Any]:
        """The texts for ``store.words()``: those that are not empty, with the one schedule that is chosen."""
        texts = {name: self.words[name].strip() for name in WORDS if self.words.get(name, "").strip()}
        if self.kind and self.words.get(self.kind, "").strip():
            texts[self.kind] = self.words[self.kind].strip()
        return typed(texts)

    def refuse(self, error: InvalidEntry) -> None:
        """Record an error beside its field."""
        place = error.path.removeprefix("$").lstrip(".")
        parts = place.replace("[", ".").split(".")
        name = parts[0]
        if name == "schedule" and len(parts) > 1:
            name = parts[1] if parts[1] in SCHEDULE_WORDS else self.kind
        known = (*SCHEDULE_WORDS, *WORDS, "name", "task", "kind")
        name = _PLACES.get(name, name)
        self.errors[name if name in known else ""] = str(error).replace("--", "")


def typed(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return texts as ``store.words()`` takes them: labels as an object, flags as true or false.

    Raises:
        InvalidEntry: a label is no ``key=value``.
    """
    words: dict[str, Any] = dict(texts)
    for word, text in texts.items():
        kind = WORDS[word].kind if word in WORDS else None
        if isinstance(kind, Flag):
            words[word] = text in ("yes", "on", "true", "1")
        elif isinstance(kind, Labels):
            words[word] = labels_of(text)
    return words


def labels_of(text: str) -> dict[str, str]:
    """Return the labels of lines ``key=value``.

    Raises:
        InvalidEntry: a line is none.
    """
    labels = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, equals, value = line.partition("=")
        if not (equals and key.strip()):
            raise InvalidEntry("$.labels", f"expected lines such as customer=weiss, got {quoted(line, 80)}")
        labels[key.strip()] = value.strip()
    return labels


async def new(req: PageRequest) -> Page:
    """Show an empty form, or with ``copy`` one like another entry."""
    like = req.query("copy")
    draft = Draft.of_entry(like, await req.store.form_words(like), is_copy=True) if like else Draft()
    return await _form(req, draft)


async def edit(req: PageRequest) -> Page:
    """Show the form of an entry."""
    name = asked_name(req)
    return await _form(req, Draft.of_entry(name, await req.store.form_words(name)))


async def save(req: PageRequest) -> Page | Response:
    """Create or change an entry; with ``step=check`` show what that would do, and write nothing."""
    return await save_form(req, await read_form(req.request))


async def save_form(req: PageRequest, form: Form) -> Page | Response:
    """Do what a form says, or show it again with what is wrong."""
    draft = Draft.of_form(form)
    is_check = form["step"] == "check"
    try:
        await _check_tasks(req, draft)
        if not draft.was:
            return await _create(req, draft, is_check=is_check)
        return await _change(req, draft, is_check=is_check)
    except InvalidEntry as exc:
        draft.refuse(exc)
        return await _form(req, draft, status=422)
    except EntryExists:
        draft.errors["name"] = "there is an entry of that name"
        return await _form(req, draft, status=409)
    except EditConflict as exc:
        draft.errors[""] = str(exc)
        return await _conflict(req, draft)
    except EntryNotFound:
        if req.wants_json:
            raise
        draft.errors[""] = GONE
        return await _form(req, draft, status=404)


async def _create(req: PageRequest, draft: Draft, *, is_check: bool) -> Page | Response:
    texts = draft.given
    if draft.like:
        texts = await req.store.restored_words(draft.like, texts)
    words = await req.store.words(texts)
    entry = await req.store.draft(draft.name, draft.words.get("task", "").strip(), words)
    if is_check:
        return await _form(req, draft, preview=await req.store.preview(entry, RUNS))
    fields: Any = fields_of_entry(entry)
    created = await req.store.create(
        entry.name, entry.task, entry.schedule, note=draft.note, by=req.user.name, **fields
    )
    return await _saved(req, draft, f"{shown(created.name, 80)}: created.", {"name": created.name, "created": True})


async def _change(req: PageRequest, draft: Draft, *, is_check: bool) -> Page | Response:
    before = await req.store.form_words(draft.was)
    changed = _changed_texts(draft, before)
    report = await _edited(req, draft, changed, dry_run=is_check)
    if is_check:
        preview = None
        if report.entry.enabled:
            preview = await req.store.preview(report.entry, RUNS)
        return await _form(req, draft, report=report, preview=preview)
    if not report.changed:
        return await _saved(req, draft, f"{shown(draft.was, 80)}: nothing was changed.", report.as_dict())
    text, undo = f"{shown(draft.was, 80)}: changed {', '.join(report.changed)}.", _undo(draft, before, changed, report)
    return await _saved(req, draft, text, report.as_dict(), undo)


def _changed_texts(draft: Draft, before: FormWords) -> dict[str, str]:
    """Return the texts that differ from those of the stored entry; a schedule only if it is another."""
    names = ["task", *WORDS, *([draft.kind] if draft.kind else [])]
    texts = {name: draft.words[name].strip() for name in names if name in draft.words}
    return {name: text for name, text in texts.items() if text != before.words.get(name, "").strip()}


async def _edited(req: PageRequest, draft: Draft, changed: Mapping[str, str], *, dry_run: bool) -> EditReport:
    set_, unset = {name: text for name, text in changed.items() if text}, [n for n, t in changed.items() if not t]
    words = await req.store.words(await req.store.restored_words(draft.was, typed(set_)), draft.was)
    fields = await run_in_threadpool(words.fields)
    for name in unset:
        if name in ("task", *SCHEDULE_WORDS):
            raise InvalidEntry(f"$.{name}", "is missing; every entry has it")
        field_name, default = default_of(name)
        fields[field_name] = default
    version = draft.version or None
    author: Any = {"note": draft.note, "by": req.user.name}
    return await req.store.edit(draft.was, if_version=version, dry_run=dry_run, **author, **fields)


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
    req: PageRequest, draft: Draft, text: str, data: Mapping[str, Any], undo: Undo | None = None
) -> Response:
    if req.wants_json:
        return JSONAnswer(data)
    answer = RedirectResponse(f"{req.root}/entry?name={quote_name(draft.name)}", 303)
    await flash(req, answer, text, undo, "good" if data.get("created") or data.get("changed") else "warn")
    return answer


async def _check_tasks(req: PageRequest, draft: Draft) -> None:
    """Refuse tasks that the app does not have, also as links of the options, unless the entry has them already.

    A canvas, such as a chain, is no task of the app: it may run any.
    """
    if req.site.allow_any_task:
        return
    before = (await req.store.form_words(draft.was)).words if draft.was else {}
    task, known = draft.words.get("task", "").strip(), await req.store.tasks()
    if not draft.was and not task:
        raise InvalidEntry("$.task", "is missing; choose the task to run")
    if task and task != before.get("task") and task not in known:
        raise _unknown_task("$.task", task)
    linked = [signature for _, signature in _links(before)]
    for path, signature in _links(draft.words):
        canvas = signature.get("subtask_type")
        name = f"celery.{canvas}" if canvas else signature.get("task")
        if signature not in linked and name not in known:
            raise _unknown_task(path, name)


def _links(words: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return linked_signatures(json_text.from_person(words.get("options", "").strip() or "{}", "$.options"))


def _unknown_task(path: str, task: object) -> InvalidEntry:
    return InvalidEntry(path, f"this app has no task {shown(task, 200)!r}; workers refuse what they do not have")


async def preview(req: PageRequest) -> Page:
    """Show what a form would do that is not saved: its schedule in words, its next runs, and what is wrong."""
    draft = Draft.of_form(await read_form(req.request))
    found: Preview | None = None
    try:
        texts, task = draft.given, draft.words.get("task", "").strip()
        if draft.was:  # an unchanged secret is blank, which does not matter here
            texts = {name: text for name, text in texts.items() if name not in (*JSON_WORDS, "labels")}
            task = ""
        entry = await req.store.draft(draft.name or "new", task or "preview", await req.store.words(texts))
        found = await req.store.preview(entry, RUNS)
    except InvalidEntry as exc:
        draft.refuse(exc)
    data = {**(found.as_dict() if found else {}), "errors": draft.errors}
    values = {"draft": draft, "preview": found}
    return Page(template="preview.html", values=values, data=data, fragment="preview")


async def _form(
    req: PageRequest,
    draft: Draft,
    *,
    preview: Preview | None = None,
    report: EditReport | None = None,
    theirs: FormWords | None = None,
    status: int = 200,
) -> Page:
    values = {
        "draft": draft, "preview": preview, "report": report, "theirs": theirs, "kinds": SCHEDULE_WORDS.values(),
        "tasks": await req.store.tasks(), "allow_any_task": req.site.allow_any_task,
    }  # fmt: skip
    data = {"errors": draft.errors, "name": draft.name, "kind": draft.kind, "version": draft.version, **draft.words}
    data |= {"changes": report.as_dict()} if report else {}
    data |= {"preview": preview.as_dict()} if preview else {}
    return Page(template="form.html", values=values, data=data, fragment="content", status=status)


async def _conflict(req: PageRequest, draft: Draft) -> Page:
    """Show the form with the version of the other person beside it; saving it again overwrites that knowingly."""
    try:
        theirs = await req.store.form_words(draft.was)
    except EntryNotFound:
        draft.errors[""] = GONE
        return await _form(req, draft, status=409)
    draft.version = theirs.version
    return await _form(req, draft, theirs=theirs, status=409)


ACTIONS = (
    Action(path="/new", answer=new, right=Right.EDIT),
    Action(path="/entry/edit", answer=edit, right=Right.EDIT),
    Action(path="/entry", answer=save, right=Right.EDIT, method="POST"),
    Action(path="/preview", answer=preview, method="POST"),
)
