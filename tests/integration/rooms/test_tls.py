"""TLS: the client verifies the server's certificate, and the server the client's where it asks for one."""

from __future__ import annotations

import shutil
import ssl
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from due import save_due
from outbox import names, run_due
from support.requirements import require
from support.servers import Program, Server
from support.tls import Certificates, terminator
from support.topologies import SERVICE, app_with, running_cluster, running_sentinels
from support.waiting import WAIT_SECONDS

from redisbeater import RedisScheduler, ScheduleStore, StoreError, StoreUnavailable
from redisbeater.store import connection


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.issued(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def port(server: Server, certificates: Certificates) -> Iterator[int]:
    """A port that speaks TLS."""
    with terminator(server.port, certificates.for_server()) as port:
        yield port


@pytest.fixture
def strict_port(server: Server, certificates: Certificates) -> Iterator[int]:
    """A port that speaks TLS and asks the client for a certificate."""
    with terminator(server.port, certificates.for_server(asks_client=True)) as port:
        yield port


@pytest.fixture
def connect(prefix: str) -> Callable[..., Celery]:
    def connect(port: int, use_ssl: Any = True, scheme: str = "rediss", query: str = "", **options: Any) -> Celery:
        return app_with(
            redisbeater_redis_url=f"{scheme}://127.0.0.1:{port}/0{query}",
            redisbeater_redis_use_ssl=use_ssl,
            redisbeater_redis_options=options,
            redisbeater_key_prefix=prefix,
        )

    return connect


def refusal(app: Celery) -> str:
    """Return the error of a connection that is refused, and assert that it was not retried."""
    begin = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "RETRY_SECONDS", WAIT_SECONDS)
        return _refusal(app, begin)


def _refusal(app: Celery, begin: float) -> str:
    with pytest.raises(StoreError) as raised:
        ScheduleStore(app).count()
    assert not isinstance(raised.value, StoreUnavailable), raised.value
    assert time.monotonic() - begin < connection.RETRY_SECONDS / 2
    return str(raised.value)


@pytest.mark.usefixtures("client")
def test_entries_run_over_tls(connect: Callable[..., Celery], port: int, certificates: Certificates) -> None:
    app = connect(port, {"ssl_ca_certs": certificates.ca})
    assert sent(app) == ["report"]


@pytest.mark.parametrize(
    "demands",
    [ssl.CERT_REQUIRED, "required", "CERT_REQUIRED", ssl.CERT_OPTIONAL, "optional"],
    ids=["constant", "word", "kombu-word", "optional-constant", "optional"],
)
def test_a_server_is_verified_by_the_given_authority_whatever_the_form_of_the_demand(
    connect: Callable[..., Celery], port: int, certificates: Certificates, demands: Any
) -> None:
    app = connect(port, {"ssl_cert_reqs": demands, "ssl_ca_certs": certificates.ca})

    assert ScheduleStore(app).count() == 0


def test_the_url_may_contain_the_tls_options_as_celerys_does(
    connect: Callable[..., Celery], port: int, certificates: Certificates
) -> None:
    app = connect(port, False, query=f"?ssl_cert_reqs=CERT_REQUIRED&ssl_ca_certs={certificates.ca}")

    assert ScheduleStore(app).count() == 0


def test_an_unknown_authority_is_refused(connect: Callable[..., Celery], port: int, tmp_path: Path) -> None:
    others = Certificates.issued(tmp_path / "others")

    assert "CERTIFICATE_VERIFY_FAILED" in refusal(connect(port, {"ssl_ca_certs": others.ca}))
    assert "CERTIFICATE_VERIFY_FAILED" in refusal(connect(port, True))
    assert "set ssl_ca_certs in redisbeater_redis_use_ssl" in refusal(connect(port, True))


def test_a_refused_certificate_of_a_sentinel_is_said(connect: Callable[..., Celery], port: int) -> None:
    said = refusal(connect(port, True, "rediss-sentinel", service_name=SERVICE))

    assert "CERTIFICATE_VERIFY_FAILED" in said
    assert "set ssl_ca_certs in redisbeater_redis_use_ssl" in said


def test_a_certificate_that_has_expired_is_to_be_renewed(
    connect: Callable[..., Celery], server: Server, tmp_path: Path
) -> None:
    certificates = Certificates.issued(tmp_path / "old", not_after=datetime.now(timezone.utc) - timedelta(days=1))
    with terminator(server.port, certificates.for_server()) as port:
        assert "renew the server's certificate" in refusal(connect(port, {"ssl_ca_certs": certificates.ca}))


def test_files_that_do_not_belong_together_are_named(
    connect: Callable[..., Celery], port: int, certificates: Certificates
) -> None:
    swapped = {"ssl_certfile": certificates.client, "ssl_keyfile": certificates.server_key}

    said = refusal(connect(port, {"ssl_ca_certs": certificates.ca, **swapped}))

    assert "check the files of ssl_ca_certs, ssl_certfile and ssl_keyfile" in said


def test_a_certificate_for_another_name_is_refused(
    connect: Callable[..., Celery], server: Server, tmp_path: Path
) -> None:
    certificates = Certificates.issued(tmp_path / "elsewhere", name="cache.example.org")
    with terminator(server.port, certificates.for_server()) as port:
        said = refusal(connect(port, {"ssl_ca_certs": certificates.ca}))
        assert "IP address mismatch" in said
        assert "use a name of the server's certificate" in said

        app = connect(port, {"ssl_ca_certs": certificates.ca, "ssl_check_hostname": False})
        assert ScheduleStore(app).count() == 0


@pytest.mark.parametrize("demands", [ssl.CERT_NONE, "none", "CERT_NONE", None], ids=repr)
def test_without_a_demand_no_certificate_is_verified(connect: Callable[..., Celery], port: int, demands: Any) -> None:
    assert ScheduleStore(connect(port, {"ssl_cert_reqs": demands})).count() == 0


def test_a_client_sends_its_certificate_to_a_server_that_asks_for_one(
    connect: Callable[..., Celery], strict_port: int, certificates: Certificates
) -> None:
    ours = {"ssl_certfile": certificates.client, "ssl_keyfile": certificates.client_key}

    assert ScheduleStore(connect(strict_port, {"ssl_ca_certs": certificates.ca, **ours})).count() == 0


def test_a_server_that_asks_for_a_certificate_refuses_a_client_without_one(
    connect: Callable[..., Celery], strict_port: int, certificates: Certificates
) -> None:
    said = refusal(connect(strict_port, {"ssl_ca_certs": certificates.ca}))
    assert "ALERT" in said.upper()
    assert "check ssl_certfile, ssl_keyfile" in said


@pytest.mark.usefixtures("short_retries")
def test_a_client_without_tls_does_not_reach_a_server_with_tls(connect: Callable[..., Celery], port: int) -> None:
    with pytest.raises(StoreUnavailable, match=r"\(does it want TLS on this port\? If so, use rediss:// in"):
        ScheduleStore(connect(port, False, "redis")).count()


@pytest.mark.usefixtures("short_retries")
def test_a_terminator_that_is_gone_is_an_outage(
    connect: Callable[..., Celery], server: Server, certificates: Certificates
) -> None:
    with terminator(server.port, certificates.for_server()) as port:
        store = ScheduleStore(connect(port, {"ssl_ca_certs": certificates.ca}))
        assert store.count() == 0

    with pytest.raises(StoreUnavailable):
        store.count()


# -- Sentinel and Cluster, where the server has TLS itself


@pytest.fixture
def program() -> Program:
    """A server program that has TLS itself; Valkey's package has none."""
    require("redis-server")
    return Program("redis-server", shutil.which("redis-server") or "")


@pytest.mark.topology
def test_sentinels_and_their_master_are_reached_over_tls(program: Program, certificates: Certificates) -> None:
    with running_sentinels(program, certificates) as sentinels:
        app = app_with(
            redisbeater_redis_url="rediss-" + sentinels.url().replace(";sentinel://", ","),
            redisbeater_redis_use_ssl={"ssl_ca_certs": certificates.ca},
            redisbeater_redis_options={"service_name": SERVICE},
        )
        assert sent(app) == ["report"]


@pytest.mark.topology
def test_a_cluster_is_reached_over_tls(program: Program, certificates: Certificates, tmp_path: Path) -> None:
    with running_cluster(program, certificates) as cluster:
        url = cluster.url().replace("redis-", "rediss-", 1)
        app = app_with(redisbeater_redis_url=url, redisbeater_redis_use_ssl={"ssl_ca_certs": certificates.ca})
        assert sent(app) == ["report"]

        others = Certificates.issued(tmp_path / "others")
        app = app_with(redisbeater_redis_url=url, redisbeater_redis_use_ssl={"ssl_ca_certs": others.ca})
        assert "CERTIFICATE_VERIFY_FAILED" in refusal(app)


def sent(app: Celery) -> list[str]:
    """Let an entry be due, and a beat run it; return the names of what was sent."""
    save_due(app, "report")
    scheduler = RedisScheduler(app)
    found = names(run_due(scheduler))
    scheduler.close()
    return found
