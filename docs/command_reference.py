"""Write the reference of the commands from the commands themselves."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

import click

from redisbeater.cli import redisbeater
from redisbeater.cli.sections import SECTIONS

__all__ = ("commands", "page")

#: How the commands are called; the option stands in front of the name.
PROGRAM = "celery -A proj redisbeater"


def page() -> str:
    """Return a section for each command, in the sections and the order of the help."""
    return "\n".join(
        part
        for heading, names in SECTIONS.items()
        for part in (f"{heading}\n{'~' * len(heading)}\n", *(_section(*each) for each in _commands(names)))
    )


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield each command with its name, in the order of the page; those of a group behind its name."""
    for names in SECTIONS.values():
        yield from _commands(names)


def _commands(
    names: Iterable[str], group: click.Group = redisbeater, before: str = ""
) -> Iterator[tuple[str, click.Command]]:
    for name in names:
        command = group.commands[name]
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield f"{before}{name}", command
        if isinstance(command, click.Group):
            yield from _commands(command.commands, command, f"{before}{name} ")


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"{PROGRAM} {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    text, _, examples = textwrap.dedent(_first_line_indented(command.help or "")).partition("\b\n")
    parts = [
        f".. _command-{name.replace(' ', '-')}:",
        f"{name}\n{'^' * len(name)}",
        _escaped(text.strip()),
        f"::\n\n   {PROGRAM} {name} {usage}",
    ]
    if lines := [line.strip() for line in examples.splitlines() if line.strip() not in ("", "Example:", "Examples:")]:
        parts.append("Examples::\n\n" + "\n".join(f"   {line}" for line in lines))
    records = [each.get_help_record(context) for each in command.params if isinstance(each, click.Option)]
    if options := [record for record in records if record]:
        rows = [f"   * - ``{option}``\n     - {_escaped(' '.join(about.split()))}" for option, about in options]
        parts.append("\n".join([".. list-table::\n   :widths: 35 65\n", *rows]))
    return "\n\n".join(parts) + "\n"


def _first_line_indented(text: str) -> str:
    """Return a help text whose first line is indented like the others, which click does not clean."""
    following = [line for line in text.splitlines()[1:] if line.strip()]
    indent = min((len(line) - len(line.lstrip()) for line in following if line != "\b"), default=0)
    return " " * indent + text


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("*", "\\*").replace("|", "\\|").replace("_", "\\_").replace("`", "\\`")
