"""Sentry and OpenTelemetry follow a task through a delay: the worker goes on with the trace of its program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from delayed import SETTINGS, Delayed
from support.project import Project
from support.servers import Server
from support.waiting import wait_until

pytestmark = pytest.mark.processes

SENTRY = """
import sentry_sdk
from sentry_sdk.integrations.celery import CeleryIntegration
from sentry_sdk.transport import Transport

class Nowhere(Transport):
    def capture_envelope(self, envelope): ...

sentry_sdk.init(
    "http://key@localhost:1/1", integrations=[CeleryIntegration()], traces_sample_rate=1.0, transport=Nowhere
)

def trace_id():
    return sentry_sdk.get_traceparent().split("-")[0]

def traced(call):
    with sentry_sdk.start_transaction(name="program"):
        call()
        print(trace_id())
"""

OPENTELEMETRY = """
from opentelemetry import trace
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())
CeleryInstrumentor().instrument()

def trace_id():
    return format(trace.get_current_span().get_span_context().trace_id, "032x")

def traced(call):
    with trace.get_tracer("program").start_as_current_span("program"):
        call()
        print(trace_id())
"""

TASK = """
@app.task(bind=True, name="proj.traced")
def note_trace(self):
    notes.rpush("runs", json.dumps({"id": self.request.id, "trace": trace_id()}))
"""

PROGRAM = """
import proj
proj.traced(lambda: proj.note_trace.apply_async(countdown=3600, task_id="a"))
"""


@pytest.mark.parametrize("instrument", [SENTRY, OPENTELEMETRY], ids=["Sentry", "OpenTelemetry"])
def test_a_task_that_was_a_delay_belongs_to_the_trace_of_its_program(
    make_project: Callable[..., Project], server: Server, instrument: str
) -> None:
    delayed = Delayed(make_project(**SETTINGS), server.client())
    delayed.beat()
    delayed.project.add_source(instrument + TASK)
    delayed.worker()

    sent = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=delayed.project.folder, capture_output=True, text=True, check=True
    )
    delayed.are_kept(["a"])
    delayed.make_due(["a"])
    wait_until(delayed.executed, "the execution")

    assert [run["trace"] for run in delayed.project.runs()] == sent.stdout.split()
