"""What a beat serves over HTTP: ``/live``, ``/health`` and ``/metrics``."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from redisbeater.model.run import read_count
from redisbeater.observe.server import HTTPAnswer, Route, Verdicts, answer_of
from redisbeater.parts import BeatParts
from redisbeater.sending.counts import Meter

_NO_METRICS = HTTPAnswer(
    status=HTTPStatus.NOT_IMPLEMENTED,
    body=b"no metrics: pip install 'redisbeater[metrics]' where beat runs, and start beat again\n",
)


def routes_of(beat: BeatParts, verdicts: Verdicts) -> dict[str, Route]:
    """Return the paths that a beat serves, each with what answers it."""

    def live(query: Mapping[str, str]) -> HTTPAnswer:
        return answer_of(verdicts.live(), query)

    def health(query: Mapping[str, str]) -> HTTPAnswer:
        most = read_count(query.get("max_failed"))
        return answer_of(verdicts.health(strict=query.get("strict") == "1", max_failed=most), query)

    return {"/live": live, "/health": health, "/metrics": _metrics(beat)}


def _metrics(beat: BeatParts) -> Route:
    """Return the handler of ``/metrics``, or one that says which package to install."""
    if not isinstance(beat.counts, Meter):
        return lambda query: _NO_METRICS
    from redisbeater.observe.beat_metrics import create_registry
    from redisbeater.observe.metrics import CONTENT_TYPE, exposition_of

    registry = create_registry(beat)
    return lambda query: HTTPAnswer(status=HTTPStatus.OK, body=exposition_of(registry), content_type=CONTENT_TYPE)
