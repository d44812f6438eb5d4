"""The results of the API: the classes whose objects methods of the store return, for annotations and ``isinstance``."""

from __future__ import annotations

from redisbeater.editing.changes import PlannedUpsert
from redisbeater.editing.edit import Edit
from redisbeater.editing.upcoming import UpcomingRun
from redisbeater.health.details import LastHour, Server
from redisbeater.health.status import Status
from redisbeater.health.verdict import Health
from redisbeater.management.async_store import AsyncBulk, AsyncDelays, AsyncFiles, AsyncIncidents, AsyncRuns
from redisbeater.management.bulk import Bulk, Outcome
from redisbeater.management.delays.changing import DelayOutcome
from redisbeater.management.delays.room import Delays
from redisbeater.management.files.export import FileEntry
from redisbeater.management.files.plan import Applied, Changes, FieldDifference, Override, PlannedChange
from redisbeater.management.files.room import Files
from redisbeater.management.incidents.room import IncidentReport, Incidents
from redisbeater.management.lint_rules import Finding
from redisbeater.management.pausing import Resumption
from redisbeater.management.runs.backfill import Backfill
from redisbeater.management.runs.history import HistoryPage, RunDetails
from redisbeater.management.runs.results import Ends, EntryResult, FailureGroup, Failures, Result
from redisbeater.management.runs.room import Runs
from redisbeater.management.runs.stop import Stopped
from redisbeater.management.search import EntryPage
from redisbeater.management.simulation import Band, Simulation
from redisbeater.management.why.facts import Answer, Evidence
from redisbeater.model.beat_line import BeatLine, Pause
from redisbeater.model.delay import Delay
from redisbeater.model.incident import Incident, IncidentGroup
from redisbeater.model.log_line import LogLine
from redisbeater.model.meta import Failing, Score
from redisbeater.model.run import Kind, Run, RunBrief, RunCounts, State
from redisbeater.store.delays import DelayCounts
from redisbeater.store.notices import Receiver
from redisbeater.store.server import ServerFacts

__all__ = (
    "Answer",
    "Applied",
    "AsyncBulk",
    "AsyncDelays",
    "AsyncFiles",
    "AsyncIncidents",
    "AsyncRuns",
    "Backfill",
    "Band",
    "BeatLine",
    "Bulk",
    "Changes",
    "Delay",
    "DelayCounts",
    "DelayOutcome",
    "Delays",
    "Edit",
    "Ends",
    "EntryPage",
    "EntryResult",
    "Evidence",
    "Failing",
    "FailureGroup",
    "Failures",
    "FieldDifference",
    "FileEntry",
    "Files",
    "Finding",
    "Health",
    "HistoryPage",
    "Incident",
    "IncidentGroup",
    "IncidentReport",
    "Incidents",
    "Kind",
    "LastHour",
    "LogLine",
    "Outcome",
    "Override",
    "Pause",
    "PlannedChange",
    "PlannedUpsert",
    "Receiver",
    "Result",
    "Resumption",
    "Run",
    "RunBrief",
    "RunCounts",
    "RunDetails",
    "Runs",
    "Score",
    "Server",
    "ServerFacts",
    "Simulation",
    "State",
    "Status",
    "Stopped",
    "UpcomingRun",
)
