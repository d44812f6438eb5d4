"""The table of a case: a row for each contender and size, then the targets and the notes."""

from __future__ import annotations

from suite.case import Case, Column, Target
from suite.results import Results, Spread

__all__ = ("to_json", "to_text")


def to_text(case: Case, results: Results) -> str:
    """Return the table, its targets and its notes."""
    rows = [_row(case, results, contender, size) for contender, size in results.rows()]
    header = ["contender", case.size_title, *(column.title for column in case.columns)]
    lines = [f"{case.name}: {case.title}", *_aligned([header, *rows])]
    lines += [f"  target: {_target(target, results)}" for target in case.targets]
    lines += [f"  note: {note}" for note in _notes(results)]
    return "\n".join(lines)


def to_json(case: Case, results: Results) -> dict[str, object]:
    """Return the results for programs, with every sample."""
    return {
        "case": case.name,
        "title": case.title,
        "samples": [
            {
                "round": item.round,
                "contender": item.contender,
                "size": item.size,
                "figures": dict(item.outcome.figures),
                "samples": {name: list(values) for name, values in item.outcome.samples.items()},
                "notes": list(item.outcome.notes),
                "unavailable": item.outcome.unavailable,
            }
            for item in results.samples
        ],
        "targets": [_target_json(target, results) for target in case.targets],
    }


def _row(case: Case, results: Results, contender: str, size: int) -> list[str]:
    cells = [_cell(results.spread(contender, size, column.figure), column) for column in case.columns]
    return [contender, f"{size:,}", *cells]


def _cell(spread: Spread | None, column: Column) -> str:
    if spread is None:
        return "-"
    median, least, most = (f"{value:,.{column.digits}f}" for value in (spread.median, spread.least, spread.most))
    return f"{median} ({least}-{most})" if spread.count > 1 else median


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) if index == 0 else cell.rjust(width) for index, (cell, width) in pairs)
        for row in rows
        for pairs in [list(enumerate(zip(row, widths)))]
    ]


def _target(target: Target, results: Results) -> str:
    value = target.measure(results)
    if value is None:
        return f"{target.text}: not measured"
    verdict = "met" if target.is_met(value) else "MISSED"
    aim = "" if target.aim is None else f", aim {target.aim:g}"
    bound = f"{'at least' if target.at_least else 'at most'} {target.bound:g}{aim}"
    return f"{target.text}: {value:,.4g} {target.unit} ({bound}) {verdict}"


def _target_json(target: Target, results: Results) -> dict[str, object]:
    value = target.measure(results)
    return {
        "text": target.text,
        "bound": target.bound,
        "at_least": target.at_least,
        "value": value,
        "is_met": None if value is None else target.is_met(value),
    }


def _notes(results: Results) -> list[str]:
    notes = [
        f"{sample.contender}, {sample.size:,}: {note}"
        for sample in results.samples
        for note in (*sample.outcome.notes, sample.outcome.unavailable)
        if note
    ]
    return list(dict.fromkeys(notes))
