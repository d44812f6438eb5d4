"""The servers of the tests themselves: each test gets a whole topology, and a port that is taken is passed over."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import pytest
from support import rabbitmq
from support.ports import BUS_OFFSET, LOOPBACK, free_node_port, free_port, listen
from support.proxy import Proxy
from support.servers import Program, Server, programs, running
from support.topologies import SERVICE, Cluster, Keeper, Sentinels, new_node, running_cluster, running_sentinels
from support.waiting import wait_until

pytestmark = pytest.mark.topology

KEY = "{tag}:key"

#: Seconds that a topology gets to be whole again, where the test knows that it cannot be.
GIVE_UP_SECONDS = 1.0


@pytest.fixture(scope="module")
def program() -> Program:
    return programs()[0]


@pytest.fixture(scope="module")
def clusters(program: Program) -> Iterator[Keeper[Cluster]]:
    with contextlib.closing(Keeper(lambda: running_cluster(program))) as keeper:
        yield keeper


@pytest.fixture(scope="module")
def watched(program: Program) -> Iterator[Keeper[Sentinels]]:
    with contextlib.closing(Keeper(lambda: running_sentinels(program))) as keeper:
        yield keeper


def assert_usable(cluster: Cluster) -> None:
    with contextlib.closing(cluster.client()) as client:
        assert client.get(KEY) is None, "the data of the test before"
        assert client.set(KEY, "1")
    assert len(cluster.masters) == 3


# -- a cluster


@pytest.mark.timeout(300)
def test_a_cluster_whose_nodes_were_all_killed_is_whole_for_the_next_test(clusters: Keeper[Cluster]) -> None:
    cluster = clusters.whole()
    cluster.owner(KEY).ask("SET", KEY, "left")
    for node in cluster.nodes:
        node.kill()

    whole = clusters.whole()

    assert all(node.ask("PING") for node in whole.nodes)
    assert_usable(whole)


@pytest.mark.timeout(300)
def test_a_cluster_with_a_slot_half_moved_is_whole_for_the_next_test(clusters: Keeper[Cluster]) -> None:
    cluster = clusters.whole()
    source, target = cluster.owner(KEY), cluster.other_master(KEY)
    for key in (KEY, "{tag}:other"):
        source.ask("SET", key, "left")
    with pytest.raises(ZeroDivisionError), cluster.moving(KEY, [KEY], target):
        raise ZeroDivisionError("what a test raises in the middle of a move")

    assert_usable(clusters.whole())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("damage", ["forgotten", "joined"])
def test_a_cluster_that_cannot_be_healed_is_replaced_with_a_warning(clusters: Keeper[Cluster], damage: str) -> None:
    broken = clusters.whole()
    if damage == "forgotten":
        for master in broken.masters:
            master.ask("FLUSHALL")
            master.ask("CLUSTER", "RESET", "HARD")
    else:
        broken.nodes.append(broken.another())

    with pytest.warns(UserWarning, match="replacing a topology that cannot be healed"):
        replaced = clusters.whole(GIVE_UP_SECONDS)

    assert replaced is not broken
    assert all(node.has_ended for node in broken.nodes)
    assert_usable(replaced)


# -- Sentinels


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", ["the servers", "the Sentinels", "all"])
def test_sentinels_whose_processes_were_killed_are_whole_for_the_next_test(
    watched: Keeper[Sentinels], kills: str
) -> None:
    sentinels = watched.whole()
    for node in {
        "the servers": sentinels.servers,
        "the Sentinels": sentinels.watchers,
        "all": [*sentinels.servers, *sentinels.watchers],
    }[kills]:
        node.kill()

    assert watched.whole().master.ask("SET", KEY, "1")


@pytest.mark.timeout(300)
def test_a_late_failover_is_waited_for_by_the_next_test(watched: Keeper[Sentinels]) -> None:
    sentinels = watched.whole()
    old = sentinels.master
    old.kill()

    healed = watched.whole()

    assert healed is sentinels
    assert healed.master is not old


@pytest.mark.timeout(300)
@pytest.mark.parametrize("damage", ["forgotten", "paused"])
def test_sentinels_that_cannot_be_healed_are_replaced_with_a_warning(watched: Keeper[Sentinels], damage: str) -> None:
    broken = watched.whole()
    for node in broken.watchers:
        if damage == "forgotten":
            node.ask("SENTINEL", "REMOVE", SERVICE)
        elif node.process is not None:
            node.process.send_signal(signal.SIGSTOP)

    with pytest.warns(UserWarning, match="replacing a topology that cannot be healed"):
        replaced = watched.whole(GIVE_UP_SECONDS)

    assert replaced is not broken
    assert all(node.has_ended for node in [*broken.servers, *broken.watchers])
    assert replaced.master.ask("SET", KEY, "1")


@contextlib.contextmanager
def _failing_once(attempts: list[int]) -> Iterator[Sentinels]:
    attempts.append(1)
    if len(attempts) == 1:
        raise AssertionError("a machine that is too busy")
    yield Sentinels([], [])


def test_a_topology_that_does_not_start_is_started_once_more() -> None:
    attempts: list[int] = []

    with pytest.warns(UserWarning, match="too busy"):
        Keeper(lambda: _failing_once(attempts)).whole()

    assert len(attempts) == 2


# -- ports that another program has


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on."""
    with listen() as listener:
        yield int(listener.getsockname()[1])


def first(*ports: int, then: Callable[[], int] = free_port) -> Callable[[], int]:
    """Return a choice of these ports, as if they had been free a moment ago, then of free ones."""
    left = list(ports)
    return lambda: left.pop(0) if left else then()


def test_a_server_passes_over_a_port_that_another_program_has(program: Program, taken: int) -> None:
    with running(program, choose=first(taken)) as server:
        assert server.port != taken
        assert server.client().ping()


def test_a_server_passes_over_a_port_where_another_redis_answers(program: Program, server: Server) -> None:
    with running(program, choose=first(server.port)) as other:
        assert other.port != server.port
        assert other.client().info("server")["process_id"] == other.process.pid


def test_a_server_that_must_have_its_port_fails_when_another_program_has_it(program: Program, taken: int) -> None:
    with pytest.raises(Exception, match="in use"), running(program, taken):
        pass


@pytest.mark.parametrize("offset", [0, BUS_OFFSET], ids=["port", "bus-port"])
def test_a_cluster_node_passes_over_a_port_that_another_program_has(program: Program, offset: int) -> None:
    occupied = free_node_port()
    with contextlib.ExitStack() as stack, socket.create_server((LOOPBACK, occupied + offset)):
        node = new_node(stack, program, ["--cluster-enabled", "yes"])

        node.start(choose=first(occupied, then=free_node_port))

        assert node.port != occupied
        assert node.answers


def test_a_port_that_is_taken_is_not_chosen(taken: int) -> None:
    assert taken not in {free_port() for _ in range(50)}


def test_a_proxy_passes_over_a_port_that_another_program_has(server: Server, taken: int) -> None:
    with Proxy(server.port, choose=first(taken)) as proxy:
        assert proxy.port != taken
        with socket.create_connection((LOOPBACK, proxy.port)) as connection:
            connection.sendall(b"PING\r\n")
            assert connection.recv(7) == b"+PONG\r\n"


def test_a_proxy_that_refuses_keeps_its_port(server: Server) -> None:
    with Proxy(server.port) as proxy:
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((LOOPBACK, proxy.port)).close()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((LOOPBACK, proxy.port))

        proxy.heal()

        wait_until(lambda: _pongs(proxy.port), "the proxy to forward again")


def _pongs(port: int) -> bool:
    with socket.create_connection((LOOPBACK, port)) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(7) == b"+PONG\r\n"


@pytest.mark.timeout(500)
@pytest.mark.needs("rabbitmq-server")
def test_rabbitmq_passes_over_a_port_that_another_program_has(taken: int) -> None:
    with rabbitmq.running(choose=first(taken)) as node:
        assert node.port != taken
