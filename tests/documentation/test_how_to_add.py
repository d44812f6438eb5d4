"""Each recipe of CONTRIBUTING, "How to add", has its effect in a copy of the source."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.pages import DOCS
from support.project import SCHEDULE_DB
from support.servers import Server

ROOT = DOCS.parent
SOURCE = ROOT / "src"

#: A recipe that touches more files is one for which something is described twice.
MOST_FILES = 3

_SECTION = re.compile(r"^(\S.*)\n~{3,}\n", re.MULTILINE)
_BLOCK = re.compile(
    r"^\.\. code-block:: \w+\n   :caption: ``(\S+)``, (above|below) ``(.+)``\n\n((?:   .*\n|\n)+)", re.MULTILINE
)
_NEW_FILE = re.compile(r"^\.\. literalinclude:: (\S+)\n   :caption: ``(\S+)``, a new file\n", re.MULTILINE)


@dataclass(frozen=True)
class Insertion:
    """A block of the page: lines for one place of one file."""

    path: str
    side: str
    anchor: str
    lines: list[str]

    def put_into(self, package: Path) -> None:
        """Insert the lines beside the one line that has the anchor, as far to the right as that line."""
        path = package / self.path
        if self.side == "a new file":
            path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
            return
        lines = path.read_text(encoding="utf-8").splitlines()
        places = [place for place, line in enumerate(lines) if self.anchor in line]
        assert len(places) == 1, f"{self.path}: {len(places)} lines have {self.anchor!r}"
        indent = re.match(" *", lines[places[0]])[0]  # type: ignore[index]
        place = places[0] + (self.side == "below")
        lines[place:place] = [indent + line if line else "" for line in self.lines]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def recipes() -> dict[str, list[Insertion]]:
    """Return the insertions of each section of the page."""
    page = (ROOT / "CONTRIBUTING.rst").read_text(encoding="utf-8")
    _, *parts = _SECTION.split(page.partition("\nHow to add\n---")[2] + "\n")
    return {
        title: [
            Insertion(path, side, anchor, textwrap.dedent(text).strip("\n").splitlines())
            for path, side, anchor, text in _BLOCK.findall(body)
        ]
        + [
            Insertion(path, "a new file", "", (ROOT / source).read_text(encoding="utf-8").splitlines())
            for source, path in _NEW_FILE.findall(body)
        ]
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


#: For each section a program, and what it prints once the recipe is followed. It can import ``_APP`` as ``proj``.
EFFECTS = {
    "A field of an entry": (
        """
        from proj import run, store

        run("create", "report", "proj.report", "--every", "1h", "--weight", "3")
        print(store.get("report").weight, "weight" in store.files.export().to_text())
        print(*[line.strip() for line in run("show", "report").splitlines() if "weight" in line])
        run("update", "report", "--unset", "weight")
        print(store.get("report").weight)
        print(run("create", "other", "proj.report", "--every", "1h", "--weight", "0").splitlines()[0])
        """,
        """
        3 True
        weight       3
        None
        Error: --weight: expected a whole number, at least 1, got 0
        """,
    ),
    "A state of a run": (
        """
        from proj import context, store
        from redisbeater.beat.monitor import judge
        from redisbeater.model.run import State
        from redisbeater.store import Execution, new_holder

        def start(run_id):
            holder = new_holder("w1", 7)
            execution = Execution(run_id=run_id, name="report", holder=holder, worker="celery@w1", pid=7)
            return context.redis.runs.start(execution)[0], execution

        store.create("report", "proj.report", 3600.0)
        _, first = start(store.trigger("report"))
        context.redis.runs.finish(first, State.FAILURE)
        again = store.runs.restart(first.run_id)
        start(again)
        [run] = context.redis.runs.overdue(seconds=-1e6)
        verdict = judge(run, None, store.now(), 0)
        context.redis.runs.lose(run, verdict.state, note=verdict.note)
        found = store.runs.get(again)
        print(found.state, found.is_final, "and then", start(again)[0])
        print(store.why("report", found.fire_time).sentence)
        counts = store.runs.counts("report")
        print(counts.abandoned, store.status(details=True).last_hour.abandoned, counts.failures)
        print([run.note for run in store.history("report", states=["ABANDONED"])])
        """,
        """
        ABANDONED True and then DUPLICATE
        Sent out of turn, ABANDONED: celery@w1 died in a restart.
        1 1 2
        ['its worker celery@w1 does not renew it']
        """,
    ),
    "A kind of schedule": (
        """
        from proj import run, store

        print(run("create", "howl", "proj.report", "--moon", "full").splitlines()[1].split(None, 1)[1])
        print(store.files.export().to_text().count("moon"), "--moon PHASE" in run("create", "--help"))
        print(run("create", "other", "proj.report", "--moon", "half").splitlines()[0])
        """,
        """
        at each full moon
        1 True
        Error: --moon phase: expected new or full, got 'half'
        """,
    ),
    "A verb that changes entries or runs by name": (
        """
        from proj import browse, run, store

        for name in ("report", "other"):
            store.create(name, "proj.report", 3600.0)
        print(run("touch", "report", "other", "--note", "seen").count("touched, next run"))
        print([line.details["note"] for line in store.log("report") if line.what == "touched"])
        print(run("touch", "report", "--grade", "9").strip())
        run("touch", "report", "--grade", "4")
        page = browse()
        asked = page.post("/entries/touch", data={"name": "other", "grade": "six"})
        print(asked.status_code, 'name="grade" value="six"' in asked.text, "expected a whole number" in asked.text)
        print(page.post("/entries/touch", data={"name": "other", "grade": "5"}).status_code)
        grades = lambda name: [line.details.get("grade") for line in store.log(name) if line.what == "touched"]
        print(grades("report"), grades("other"))
        print(*[page.get(path).text.count('name="grade"') for path in ("/", "/entry?name=report")])
        print("--grade 3 report" in page.get("/find", params={"q": "touch report grade 3"}).text)
        """,
        """
        2
        ['seen']
        Error: --grade: expected a whole number of points from 1 to 5, got 9
        422 True True
        200
        [4, None] [5, None]
        1 1
        True
        """,
    ),
    "A metric": (
        """
        from proj import app
        from prometheus_client import generate_latest
        from redisbeater import RedisScheduler
        from redisbeater.observe.beat_metrics import create_registry
        from redisbeater.sending.counts import Meter

        parts = RedisScheduler(app)._beat
        parts.counts = Meter()
        parts.counts.count_resent("proj.report")
        text = generate_latest(create_registry(parts)).decode()
        print([line.split()[1] for line in text.splitlines() if line.startswith("redisbeater_resent_total")])
        """,
        """
        ['1.0']
        """,
    ),
    "A column of the list": (
        """
        import json, re
        from proj import browse, run, store

        store.create("report", "proj.report", 3600.0)
        _, head, row, *_ = run("list").splitlines()
        print(head.split()[-1], row.split()[-1])
        print(json.loads(run("list", "--json"))["origin"])
        page = browse().get("/").text
        print(re.findall('columnheader" class="further">(.*?)<', page), "<bdi>dynamic</bdi>" in page)
        """,
        """
        ORIGIN dynamic
        dynamic
        ['Origin'] True
        """,
    ),
}

_APP = """
from types import SimpleNamespace

from celery import Celery
from click.testing import CliRunner
from redisbeater import ScheduleStore
from redisbeater.cli import redisbeater
from redisbeater.context import Context

app = Celery("proj", broker="memory://")
app.conf.update(redisbeater_redis_url={url!r}, redisbeater_key_prefix={prefix!r}, redisbeater_track_runs=True)
context, store = Context.of(app), ScheduleStore(app)


def run(*arguments):
    return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app)).output


def browse():
    import warnings

    warnings.simplefilter("ignore")  # it prefers another HTTP client
    from redisbeater.dashboard import create_app, token
    from starlette.testclient import TestClient

    page = create_app(app, auth=token("0123456789abcdef-token"), allowed_hosts=["jobs.example.com"])
    client = TestClient(page, base_url="http://jobs.example.com")
    client.headers["Authorization"] = "Bearer 0123456789abcdef-token"
    return client


@app.task
def report():
    pass
"""


def test_each_section_has_its_effect() -> None:
    assert list(recipes()) == list(EFFECTS)
    assert all(recipes().values())


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("title", EFFECTS)
def test_a_recipe_has_its_effect_and_touches_few_files(title: str, server: Server, prefix: str, tmp_path: Path) -> None:
    copy = shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    insertions, (program, printed) = recipes()[title], EFFECTS[title]
    for insertion in insertions:
        insertion.put_into(copy / "redisbeater")
    (tmp_path / "proj.py").write_text(_APP.format(url=server.url(SCHEDULE_DB), prefix=prefix))

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(copy)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stdout == textwrap.dedent(printed).lstrip("\n"), done.stderr
    assert len({insertion.path for insertion in insertions}) <= MOST_FILES
