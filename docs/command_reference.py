"""Write the reference of the commands from the commands themselves."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from redisbeater.cli import redisbeater

__all__ = ("commands", "page")

#: How the commands are called; the option stands in front of the name.
PROGRAM = "celery -A proj redisbeater"


def page() -> str:
    """Return a section for each command, in the order of their names."""
    return "\n".join(_section(name, command) for name, command in commands())


def commands(group: click.Group = redisbeater, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield each command with its name; those of a group behind its name."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"{PROGRAM} {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    text, _, examples = textwrap.dedent(_first_line_indented(command.help or "")).partition("\b\n")
    parts = [
        f".. _command-{name.replace(' ', '-')}:",
        f"{name}\n{'-' * len(name)}",
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
