"""Options that several commands share: who changes what and why, and the labels that select entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from redisbeater.cli.group import BadInput

__all__ = ("authored", "labelled", "read_label_changes", "read_labels")


def authored(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options ``--note`` and ``--by``, which every change has."""
    by = click.option("--by", default="", help="Who makes the change; default: your user and host.")
    return click.option("--note", default="", help="Why, for the entry's log.")(by(function))


def labelled(function: Callable[..., None]) -> Callable[..., None]:
    """Add the option ``--label``, which may be repeated; the command gets ``labels``, texts by name."""
    option = click.option(
        "--label", "labels", multiple=True, metavar="K=V", callback=read_labels, help="Only entries with this label."
    )
    return option(function)


def read_label_changes(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Return labels like :func:`read_labels`; ``update`` and ``copy`` take ``team=`` as well, which removes the label.

    Raises:
        BadInput: one is no name and text.
    """
    has_labels = context.command.name != "create"
    removed = {text[:-1]: "" for text in given if has_labels and text.find("=") == len(text) - 1 > 0}
    return {**read_labels(context, parameter, [text for text in given if text[:-1] not in removed]), **removed}


def read_labels(_context: click.Context, _parameter: click.Parameter, given: Sequence[str]) -> dict[str, Any]:
    """Return the labels of an option that can be repeated, texts by name.

    Raises:
        BadInput: one is no name and text.
    """
    pairs = [text.partition("=") for text in given]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise BadInput(f"--label {name}{sign}{value}: expected a name and a text, such as team=billing")
    return {name: value for name, _, value in pairs}
