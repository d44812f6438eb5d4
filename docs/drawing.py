"""The drawing of the rooms: which part of redisbeater imports which, read from the sources.

The floors come from ``tests/unit/test_architecture.py``, which holds the rules; the arrows are the code's own imports.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "redisbeater"
RULES = ROOT / "tests" / "unit" / "test_architecture.py"

#: The package itself: it holds the public names.
PUBLIC_NAMES = ""

#: Pixels of the drawing.
ROW_HEIGHT, BOX_WIDTH, BOX_HEIGHT, GAP, MARGIN = 62, 138, 34, 22, 16

#: Pixels that an arrow is led aside, the smallest first; and at how many points of it a crossing is looked for.
BENDS = (0, *(sign * bend for bend in range(40, 480, 20) for sign in (1, -1)))
SAMPLES = 60

Floors = tuple[tuple[str, ...], ...]
Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Box:
    """Where a room is drawn."""

    room: str
    left: float
    top: float

    @property
    def middle(self) -> float:
        return self.left + BOX_WIDTH / 2

    @property
    def bottom(self) -> float:
        return self.top + BOX_HEIGHT


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A cubic Bezier curve, by its four points."""

    points: tuple[Point, Point, Point, Point]

    @classmethod
    def between(cls, upper: Box, lower: Box, bend: int) -> Curve:
        """Return the curve from the bottom of a box to the top of another, led aside by ``bend`` pixels."""
        shift = BOX_WIDTH / 4 * ((bend > 0) - (bend < 0))
        start, end = (upper.middle + shift, upper.bottom), (lower.middle + shift, lower.top - 1)
        lead = (end[1] - start[1]) / 3
        first, last = (start[0], end[0]) if not bend else ((start[0] + end[0]) / 2 + bend,) * 2
        return cls(points=(start, (first, start[1] + lead), (last, end[1] - lead), end))

    def crosses(self, box: Box) -> bool:
        """Return whether the curve touches a box."""
        return any(
            box.left - 4 < x < box.left + BOX_WIDTH + 4 and box.top < y < box.bottom
            for x, y in (self._at(step / SAMPLES) for step in range(SAMPLES + 1))
        )

    def path(self) -> str:
        """Return the curve as the data of an SVG path."""
        start, *others = (f"{x:g},{y:g}" for x, y in self.points)
        return f"M{start} C{' '.join(others)}"

    def _at(self, t: float) -> Point:
        weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
        return (
            sum(weight * x for weight, (x, _) in zip(weights, self.points)),
            sum(weight * y for weight, (_, y) in zip(weights, self.points)),
        )


@functools.cache
def read_floors() -> Floors:
    """Return the floors from the ground up, as the test of the architecture declares them."""
    for node in ast.parse(RULES.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FLOORS":
            return ast.literal_eval(node.value)
    raise LookupError(f"{RULES} declares no FLOORS")


@functools.cache
def read_imports() -> dict[str, set[str]]:
    """Return for each room the other rooms that its modules import."""
    imports: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        room = _room(path)
        found = {other for name in _imported(path) if (other := _imported_room(name)) not in (None, room)}
        imports.setdefault(room, set()).update(found)
    return imports


def read_summary(room: str) -> str:
    """Return the first line of a room's docstring."""
    path = PACKAGE / room / "__init__.py" if (PACKAGE / room).is_dir() else PACKAGE / f"{room}.py"
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def direct(imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the imports without those that a chain of other imports implies: these are the arrows that are drawn."""
    return {
        room: {other for other in others if not any(other in _reached(imports, via) for via in others - {other})}
        for room, others in imports.items()
    }


@functools.cache
def draw() -> str:
    """Return the drawing as an SVG: a row for each floor, the public names near the top, the ground at the bottom."""
    floors, ground = read_floors(), set(read_floors()[0])
    boxes = _boxes(floors)
    arrows = {room: others - ground for room, others in direct(read_imports()).items()}
    width = max(box.left + BOX_WIDTH for box in boxes.values()) + MARGIN
    height = max(box.bottom for box in boxes.values()) + MARGIN
    return "\n".join(
        [
            f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" xmlns="http://www.w3.org/2000/svg"'
            ' style="max-width: 100%; height: auto" fill="none" stroke="currentColor">',
            "<title>The rooms of redisbeater: each imports the ones that its arrows point to</title>",
            '<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="currentColor" stroke="none"/></marker>',
            *(
                _arrow(boxes[room], boxes[other], boxes.values())
                for room in sorted(arrows)
                for other in sorted(arrows[room], key=lambda other: boxes[other].top)
            ),
            *(_draw_box(box, is_ground=box.room in ground) for box in boxes.values()),
            "</svg>\n",
        ]
    )


def table() -> str:
    """Return the same as a table in reStructuredText, from the top floor down, with every import."""
    imports = read_imports()
    rows = [
        f"   * - ``{label(room)}``\n     - {read_summary(room)}\n     - {_listed(imports[room])}"
        for floor in reversed(read_floors())
        for room in floor
    ]
    return "\n".join([".. list-table::\n   :header-rows: 1\n\n   * - room\n     - holds\n     - imports", *rows]) + "\n"


def main() -> None:
    """Write the drawing where a browser shows it, and print the table."""
    path = Path(__file__).parent / "_generated" / "rooms.html"
    path.parent.mkdir(exist_ok=True)
    path.write_text(draw(), encoding="utf-8")
    print(table(), path, sep="\n")


def label(room: str) -> str:
    """Return the name of a room as the reader knows it: a folder ends with a slash."""
    if room == PUBLIC_NAMES:
        return "redisbeater"
    return f"{room}/" if (PACKAGE / room).is_dir() else f"{room}.py"


def _room(path: Path) -> str:
    first = path.relative_to(PACKAGE).with_suffix("").parts[0]
    return PUBLIC_NAMES if first == "__init__" else first


def _imported(path: Path) -> Iterator[str]:
    """Yield the dotted names that a module imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _imported_room(name: str) -> str | None:
    """Return the room that a dotted name is in; None when it belongs to another package."""
    first, _, rest = name.partition(".")
    if first != PACKAGE.name:
        return None
    room = rest.partition(".")[0]
    return room if room and ((PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file()) else PUBLIC_NAMES


def _reached(imports: Mapping[str, set[str]], room: str) -> set[str]:
    """Return every room that one imports, itself or through others."""
    reached: set[str] = set()
    waiting = set(imports[room])
    while waiting:
        other = waiting.pop()
        reached.add(other)
        waiting |= imports[other] - reached
    return reached


def _boxes(floors: Floors) -> dict[str, Box]:
    """Return a box for each room, each floor centred."""
    widest = max(len(floor) for floor in floors)
    full = _row_width(widest)
    return {
        room: Box(
            room=room,
            left=MARGIN + (full - _row_width(len(floor))) / 2 + column * (BOX_WIDTH + GAP),
            top=MARGIN + row * ROW_HEIGHT,
        )
        for row, floor in enumerate(reversed(floors))
        for column, room in enumerate(floor)
    }


def _row_width(boxes: int) -> float:
    return boxes * BOX_WIDTH + (boxes - 1) * GAP


def _arrow(upper: Box, lower: Box, boxes: Iterable[Box]) -> str:
    """Draw an import from a room to one below it, with the smallest bend that leads around the other rooms."""
    if lower.top <= upper.top:
        raise ValueError(f"{label(upper.room)} imports {label(lower.room)}, which is not below it")
    others = [box for box in boxes if box not in (upper, lower)]
    curves = [Curve.between(upper, lower, bend) for bend in BENDS]
    curve = next((curve for curve in curves if not any(curve.crosses(box) for box in others)), curves[0])
    return (
        f'<path class="import" data-from="{label(upper.room)}" data-to="{label(lower.room)}" d="{curve.path()}"'
        ' marker-end="url(#tip)"/>'
    )


def _draw_box(box: Box, *, is_ground: bool) -> str:
    dashes = ' stroke-dasharray="4 3"' if is_ground else ""
    text = escape(label(box.room))
    return (
        f'<g class="room"><rect x="{box.left:g}" y="{box.top:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"'
        f' fill="var(--color-background-primary, #fff)"{dashes}/>'
        f'<text x="{box.middle:g}" y="{box.top + BOX_HEIGHT / 2 + 5:g}" text-anchor="middle" fill="currentColor"'
        f' stroke="none" font-size="14">{text}</text></g>'
    )


def _listed(rooms: set[str]) -> str:
    return ", ".join(f"``{label(room)}``" for room in sorted(rooms)) or "nothing"


if __name__ == "__main__":
    main()
