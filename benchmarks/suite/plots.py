"""The plots: rate by size of a burst, lateness, and cost by number of entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from suite.results import Results

__all__ = ("draw",)

SIZE = (7.0, 4.2)


def draw(results: Mapping[str, Results], folder: Path) -> Iterator[Path]:
    """Draw the results as SVG files; yield each path after it is written.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("svg")
    folder.mkdir(parents=True, exist_ok=True)
    if "burst" in results:
        labels = {"x": "entries due at once", "y": "runs per second"}
        yield _lines(results["burst"], "rate", folder / "throughput.svg", "Dispatch rate of a burst", labels)
    if "cost" in results:
        labels = {"x": "entries in the schedule", "y": "milliseconds until ten are sent"}
        yield _lines(results["cost"], "ms", folder / "entries.svg", "Ten due entries among many", labels)
    for case, title in (("lateness", "on the same second"), ("spread", "spread over the second")):
        if case in results:
            yield _lateness(results[case], folder / f"{case}.svg", f"1,000 one-second entries, {title}")


def _lines(results: Results, figure: str, path: Path, title: str, labels: Mapping[str, str]) -> Path:
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(figsize=SIZE)
    for contender in dict.fromkeys(sample.contender for sample in results.samples):
        sizes = [size for size in results.sizes(contender) if results.spread(contender, size, figure)]
        found = [results.spread(contender, size, figure) for size in sizes]
        spreads = [spread for spread in found if spread]
        if spreads:
            medians = [spread.median for spread in spreads]
            below = [spread.median - spread.least for spread in spreads]
            above = [spread.most - spread.median for spread in spreads]
            axes.errorbar(sizes, medians, yerr=[below, above], marker="o", capsize=3, label=contender)
    axes.set(xscale="log", yscale="log", xlabel=labels["x"], ylabel=labels["y"], title=title)
    return _saved(drawing, axes, path)


def _lateness(results: Results, path: Path, title: str) -> Path:
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(figsize=SIZE)
    for contender, size in results.rows():
        values = sorted(results.pooled(contender, size, "lateness_ms"))
        if values:
            shares = [(number + 1) / len(values) * 100 for number in range(len(values))]
            axes.plot([max(value, 0.1) for value in values], shares, label=contender)
    axes.set(xscale="log", xlabel="milliseconds after the fire time", ylabel="percent of runs", title=title)
    return _saved(drawing, axes, path)


def _saved(drawing: Any, axes: Any, path: Path) -> Path:
    from matplotlib import pyplot

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter("")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    drawing.tight_layout()
    drawing.savefig(path, metadata={"Date": None})
    pyplot.close(drawing)
    return path
