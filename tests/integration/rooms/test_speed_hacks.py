"""Each speed hack switched off: beat is slower, and sends and counts the same."""

from __future__ import annotations

import gc
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from broker_site import Site, counts
from celery import Celery
from celery.beat import Service
from celery.signals import beat_init
from due import save_due
from outbox import names, run_due
from support.proxy import Proxy
from support.rabbitmq import RabbitMQ
from support.servers import Server
from support.waiting import wait_until

from redisbeater import RedisScheduler
from redisbeater.beat.process import tune_process
from redisbeater.broker.broker import Broker

#: Database of the test server that the messages are in.
BROKER_DB = 1

#: The class attributes that switch the hacks off.
SWITCHES: list[tuple[type, str]] = [
    (Broker, "collects_confirms"),
    (Broker, "caches_declarations"),
]

MakeScheduler = Callable[..., RedisScheduler]


@pytest.fixture(
    params=[*([switch] for switch in SWITCHES), SWITCHES], ids=lambda off: "+".join(name for _, name in off)
)
def _switched_off(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in request.param:
        assert getattr(owner, name) is True
        monkeypatch.setattr(owner, name, False)


@pytest.fixture(params=["redis", pytest.param("rabbitmq", marks=pytest.mark.topology)])
def site(request: pytest.FixtureRequest, make_app: Callable[..., Celery], server: Server) -> Iterator[Site]:
    """An app that sends to a real broker, through a proxy."""
    node: RabbitMQ | None = request.getfixturevalue("rabbitmq") if request.param == "rabbitmq" else None
    with Proxy(node.port if node else server.port) as proxy:

        def url(port: int) -> str:
            return node.url(port) if node else f"redis://127.0.0.1:{port}/{BROKER_DB}"

        queue = f"queue-{uuid.uuid4().hex}"
        settings: dict[str, Any] = {"task_default_queue": queue, "result_expires": None}
        settings["redisbeater_one_commit"] = False  # the broker fails alone
        settings |= {"broker_read_url": url(proxy.target_port), "broker_write_url": url(proxy.port)}
        yield Site(proxy, make_app(**settings), queue)


@pytest.mark.usefixtures("_switched_off")
def test_all_that_is_due_is_sent_once_and_counted(site: Site, make_scheduler: MakeScheduler) -> None:
    saved = [save_due(site.app, f"entry-{index:02}", late=40 - index, args=[index]).name for index in range(20)]
    save_due(site.app, "several", late=200.0, coalesce="all", kwargs={"of": "several"})
    scheduler = make_scheduler(site.app)

    sent = site.until_sent(scheduler, 24)
    wait_until(lambda: scheduler.tick() is not None and counts(site.app, *saved) == [1] * 20, "their count")

    assert names(sent) == ["several", *saved, *["several"] * 3]
    assert len({run.id for run in sent}) == 24
    assert [run.args for run in sent if run.name != "several"] == [[index] for index in range(20)]
    assert counts(site.app, "several") == [4]
    assert site.take() == []


@pytest.mark.usefixtures("_switched_off")
def test_a_connection_that_is_cut_costs_no_run(site: Site, make_scheduler: MakeScheduler) -> None:
    scheduler = make_scheduler(site.app)
    save_due(site.app, "first")
    site.until_sent(scheduler, 1)
    saved = {save_due(site.app, f"entry-{number}").name for number in range(10)}
    cut = site.proxy.cut_after(b"proj.work", 4)
    sent: dict[str, set[str]] = {}

    def tick() -> bool:
        scheduler.tick()
        for run in site.take():
            sent.setdefault(run.name, set()).add(run.id)
        return set(sent) == saved and set(counts(site.app, *saved)) == {1}

    wait_until(tick, "all of them, counted")

    assert cut.is_set()
    assert {len(ids) for ids in sent.values()} == {1}


@pytest.fixture
def _untuned() -> Iterator[None]:
    """A process that is not tuned before the test, nor after it."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.fixture(params=[(700, 10, 10), (50_000, 5, 5), (0, 10, 10)], ids=str)
def thresholds(request: pytest.FixtureRequest, _untuned: None) -> tuple[int, int, int]:
    """How often the application collects garbage; 0: never."""
    gc.set_threshold(*request.param)
    return request.param


@pytest.mark.processes
def test_garbage_is_collected_less_often_but_as_the_application_wants_it(
    app: Celery, thresholds: tuple[int, int, int]
) -> None:
    tune_process(app)

    youngest, *older = gc.get_threshold()
    assert youngest == {700: 20_000, 50_000: 50_000, 0: 0}[thresholds[0]]
    assert older == [*thresholds[1:]]


@pytest.mark.usefixtures("_untuned")
@pytest.mark.parametrize("is_tuned", [True, False])
def test_a_process_of_beat_alone_is_tuned_unless_that_is_switched_off(
    app: Celery, make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch, is_tuned: bool
) -> None:
    monkeypatch.setattr(RedisScheduler, "tunes_process", is_tuned)
    scheduler = make_scheduler(app)
    service = Service(app)
    service.scheduler = scheduler
    save_due(app, "report")
    gc.unfreeze()

    beat_init.send(sender=service)
    is_frozen = gc.get_freeze_count() > 0
    collects_after = gc.get_threshold()[0]
    scheduler.is_served = False

    assert is_frozen is is_tuned
    assert (collects_after == 20_000) is is_tuned
    assert ("task_send_sent_event" in app.conf.changes) is is_tuned
    assert app.conf.task_send_sent_event is False
    assert names(run_due(scheduler)) == ["report"]


@pytest.mark.usefixtures("_untuned")
@pytest.mark.parametrize("is_tuned", [True, False])
def test_a_setting_that_changes_later_counts(app: Celery, make_scheduler: MakeScheduler, is_tuned: bool) -> None:
    executed: list[str] = []

    @app.task(name="proj.work", shared=False)
    def work() -> None:
        executed.append("report")

    app.finalize()
    if is_tuned:
        tune_process(app)
    app.conf.task_always_eager = True
    save_due(app, "report")

    assert run_due(make_scheduler(app)) == []
    assert executed == ["report"]
