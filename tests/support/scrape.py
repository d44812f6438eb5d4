"""What a probe and a monitor see of a beat: its answers over HTTP, and the samples of a scrape."""

from __future__ import annotations

import http.client
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from redisbeater.observe.metrics import CATALOGUE, PREFIX, MetricKind

#: Seconds that an answer may take on a busy machine.
ANSWER_SECONDS = 30


class Reply(NamedTuple):
    """An answer over HTTP."""

    status: int
    text: str


def get(port: int, path: str, host: str | None = None) -> Reply:
    """Ask the server of a beat on this machine, by a name that it may have; empty: by none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        connection.putrequest("GET", path, skip_host=host is not None)
        if host:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        return Reply(answer.status, answer.read().decode())
    finally:
        connection.close()


class Samples(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """The samples of one scrape: name and labels -> value."""

    @classmethod
    def read(cls, text: str) -> Samples:
        families = text_string_to_metric_families(text)
        return cls({(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples})

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value of the one series with these labels, whatever others it has; None: there is none."""
        wanted = set(labels.items())
        found = [value for (other, have), value in self.items() if other == f"redisbeater_{name}" and wanted <= have]
        assert len(found) < 2, f"{name} {labels}: {len(found)} series"
        return found[0] if found else None

    def names(self) -> set[str]:
        return {name for name, _ in self}


def scrape(port: int) -> Samples:
    """Return the samples that a beat on this machine has now."""
    reply = get(port, "/metrics")
    assert reply.status == 200, reply.text
    return Samples.read(reply.text)


def series_names(name: str) -> tuple[str, ...]:
    """Return the full names of the series of a metric, as a monitor stores them."""
    full = f"{PREFIX}{name}"
    endings = {
        MetricKind.COUNTER: ("_total",),
        MetricKind.GAUGE: ("",),
        MetricKind.HISTOGRAM: ("_bucket", "_sum", "_count"),
    }
    return tuple(full + ending for ending in endings[CATALOGUE[name].kind])
