"""The arguments of a task as fields of a form: what a text becomes, and which text a value is shown as."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from redisbeater.context import Context
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.registered import Signature, signature_of


@pytest.fixture
def signature() -> Signature:
    app = Celery("proj", broker="redis://", set_as_current=False)

    @app.task(name="proj.send", bind=True, autoretry_for=(ValueError,))
    def send(
        self: Any, to: str, any_: Any = "Hi", pages: int = 3, ids: list[int] | None = None, *args: Any,
        cc: str | None = None, free="x", **more: Any,
    ) -> None:  # fmt: skip
        """Do nothing."""

    found = signature_of(Context.of(app), "proj.send")
    assert found is not None
    return found


def test_a_signature_has_each_argument_with_its_type_and_default_and_no_self(signature: Signature) -> None:
    assert [(each.name, each.annotation, each.default) for each in signature.arguments] == [
        ("to", "str", ""), ("any_", "Any", "'Hi'"), ("pages", "int", "3"), ("ids", "list[int] | None", "None"),
        ("cc", "str | None", "None"), ("free", "", "'x'"),
    ]  # fmt: skip
    assert signature.words.startswith(
        "send(to: str, any_: Any = 'Hi', pages: int = 3, ids: list[int] | None = None, *args"
    )


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("to", "anna", "anna"),
        ("to", "5", "5"),
        ("to", "[1", "[1"),
        ("to", '"5"', "5"),
        ("to", '""', ""),
        ("free", "anna", "anna"),
        ("free", "5", 5),
        ("free", "null", None),
        ("free", '{"a": 1}', {"a": 1}),
        ("any_", "one, two", "one, two"),
        ("pages", "5", 5),
        ("ids", "null", None),
        ("ids", "[1, 2]", [1, 2]),
        ("any_", "5", 5),
    ],
)
def test_a_text_is_json_or_where_it_is_none_a_text(signature: Signature, name: str, text: str, value: Any) -> None:
    assert signature.passed({name: text}, [], {}) == ([], {name: value})


def test_a_text_that_is_no_json_is_refused_where_no_text_can_be_meant(signature: Signature) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$.kwargs.pages: expected int as JSON, got 'many'") as raised:
        signature.passed({"pages": "many", "ids": "[1", "to": "anna"}, [], {})
    assert [each.path for each in raised.value.others] == ["$.kwargs.ids"]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ([], {}),
        (["anna"], {"pages": 5}),
        (["anna", "5", 7], {"free": "null", "cc": " blanks "}),
        ([], {"to": "", "free": ["a", 1.0, None], "ids": None}),
        (["***"], {"free": "***"}),
        ([], {"free": "one\ntwo", "to": "anna"}),
    ],
)
def test_what_is_shown_in_fields_is_read_as_it_was(
    signature: Signature, args: list[Any], kwargs: dict[str, Any]
) -> None:
    texts = signature.texts(args, kwargs)
    assert texts is not None
    passed = signature.passed(texts, args, kwargs)
    assert passed == (args, kwargs)
    assert list(passed[1]) == list(kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (["anna"], {"to": "bert"}),
        ([1, 2, 3, 4, 5], {}),
        ([], {"unknown": 1}),
        ([], {"to": 5}),
        (None, {}),
        ([], []),
    ],
    ids=["twice", "more by position", "of **more", "no text where one is taken", "no list", "no object"],
)
def test_what_fields_cannot_hold_stays_json(signature: Signature, args: Any, kwargs: Any) -> None:
    assert signature.texts(args, kwargs) is None


def test_an_argument_by_position_that_is_cleared_leaves_the_later_ones_by_name(signature: Signature) -> None:
    assert signature.passed({"to": "anna", "pages": "5"}, ["anna", "x", 3], {}) == (["anna"], {"pages": 5})


def test_a_task_that_takes_arguments_only_by_position_or_is_unknown_has_no_fields() -> None:
    app = Celery("proj", broker="redis://", set_as_current=False)

    @app.task(name="proj.old")
    def old(first: int, /) -> None: ...

    assert signature_of(Context.of(app), "proj.old") is None
    assert signature_of(Context.of(app), "proj.unknown") is None


def test_a_default_that_is_a_secret_is_blanked() -> None:
    app = Celery("proj", broker="redis://", set_as_current=False)

    @app.task(name="proj.send")
    def send(api_key: str = "hunter2", url: str = "redis://:hunter2@host", pages: int = 3) -> None: ...

    found = signature_of(Context.of(app), "proj.send")
    assert found is not None
    assert "hunter2" not in str(found)
    assert "pages: int = 3" in found.words
