"""Redis Sentinel and Redis Cluster for the tests: real servers on this machine, replaced when a test breaks them."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import redis
from celery import Celery
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

from support.ports import LOOPBACK, PortInUse, free_node_port, with_free_port
from support.servers import Program, Server, answers, has_port_in_use, stop
from support.tls import Certificates
from support.waiting import wait_until

#: Milliseconds without an answer until a node is taken for dead: soon, but not after a stall of a busy machine.
NODE_TIMEOUT_MS = 2_000

#: Seconds that a failover may take on a busy machine.
FAILOVER_SECONDS = 90.0

#: Seconds that a topology may take to be whole again before it is replaced, which takes a few seconds.
HEAL_SECONDS = 45.0

#: Sentinel's periods in milliseconds. By default it does nothing for 30 s after a stall of two (tilt mode).
SENTINEL_PERIODS = {"tilt-period": 1_000, "info-period": 1_000}

SLOTS = 16_384
MASTERS, SENTINELS = 3, 3
SERVICE = "mymaster"


def app_with(**settings: Any) -> Celery:
    """Return an app with a broker in memory."""
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update(settings)
    return app


@dataclass(eq=False)
class Node:
    """A server of a topology, which can be killed and started again on its port with its data."""

    program: Program
    folder: Path
    options: Sequence[str]
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    #: What a client needs beyond the port; with ``ssl`` the port speaks TLS.
    connection: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Node({self.port})"

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def client(self) -> redis.Redis:
        """A client of this node alone, for the test's own questions."""
        options: dict[str, Any] = {
            "protocol": 2,
            "socket_timeout": 10,
            "retry": Retry(NoBackoff(), 0),
            **self.connection,
        }
        return redis.Redis(LOOPBACK, self.port, decode_responses=True, **options)

    def start(self, *options: str, choose: Callable[[], int] = free_node_port) -> Node:
        """Start it: the first time on a port that is free, later on the same one."""
        if self.port:
            self._start(self.port, options)
        else:
            with_free_port(lambda port: self._start(port, options), choose)
        return self

    def _start(self, port: int, options: Sequence[str]) -> None:
        log = self.folder / "log"
        before = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            command = [self.program.path, *self._arguments(port), *options]
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=output, stderr=output)
        had_port, self.port = self.port, port
        wait_until(lambda: self.has_ended or self.answers, f"{self.program.path} to answer")
        if self.has_ended:
            self.port = had_port
            printed = log.read_bytes()[before:].decode(errors="replace")
            raise PortInUse(printed) if has_port_in_use(printed) else AssertionError(f"does not start:\n{printed}")

    def _arguments(self, port: int) -> list[str]:
        return [*self._ports(port), "--bind", LOOPBACK, "--save", "", "--dir", str(self.folder), *self.options]

    def _ports(self, port: int) -> list[str]:
        return ["--port", "0", "--tls-port", str(port)] if "ssl" in self.connection else ["--port", str(port)]

    @property
    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    @property
    def answers(self) -> bool:
        return self.process is not None and answers(self.port, self.process, **self.connection)

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(15)

    def stop(self) -> None:
        if self.process is not None:
            stop(self.process)

    @property
    def id(self) -> str:
        """Its name in its cluster."""
        return self.ask("CLUSTER", "MYID")  # type: ignore[no-any-return]

    def info(self, section: str) -> dict[str, Any]:
        with self.client as client:
            return client.info(section)  # type: ignore[return-value]

    def ask(self, *command: Any) -> Any:
        with self.client as client:
            return client.execute_command(*command)


def wait_for_replicas(master: Node) -> None:
    """Wait until the replicas of a master have what it has now; what they lack is lost when it is killed."""
    offset = master.info("replication")["master_repl_offset"]

    def are_equal() -> bool:
        replicas = [each for name, each in master.info("replication").items() if re.fullmatch(r"slave\d+", name)]
        return bool(replicas) and all(each["offset"] >= offset for each in replicas)

    wait_until(are_equal, f"the replicas of {master.address} to have its data")


# A topology for one test after the other


class Topology(Protocol):
    """Several servers that can be made whole again."""

    def heal(self, seconds: float) -> None:
        """Start what was killed, and wait until the topology is whole; raise an error if that takes too long."""

    def empty(self) -> None:
        """Delete all data."""


T = TypeVar("T", bound=Topology)


class Keeper(Generic[T]):
    """Keeps a topology for one test after the other, and replaces it when a test left it beyond repair."""

    def __init__(self, run: Callable[[], AbstractContextManager[T]]) -> None:
        self._run = run
        self._stack = ExitStack()
        self._current: T | None = None

    def whole(self, seconds: float = HEAL_SECONDS) -> T:
        """Return a topology that is whole and empty: the one of the last test, or a new one."""
        if self._current is not None:
            try:
                self._current.heal(seconds)
                self._current.empty()
            except Exception as error:  # whatever a test left behind, the next one must not suffer from it
                warnings.warn(f"replacing a topology that cannot be healed: {error!r}", stacklevel=2)
                self.close()
        if self._current is None:
            self._current = self._start()
        return self._current

    def _start(self) -> T:
        try:
            return self._stack.enter_context(self._run())
        except Exception as error:  # a busy machine; once more, then it is an error
            warnings.warn(f"starting a topology again after a failure: {error!r}", stacklevel=3)
            return self._stack.enter_context(self._run())

    def close(self) -> None:
        """End the servers."""
        self._current = None
        self._stack.close()


# Sentinel


@dataclass(frozen=True)
class Sentinels:
    """A master with a replica, and three Sentinels that watch them."""

    servers: list[Node]
    watchers: list[Node]

    @property
    def hosts(self) -> list[tuple[str, int]]:
        return [(LOOPBACK, watcher.port) for watcher in self.watchers]

    def url(self, db: int = 0, password: str = "") -> str:
        """The URL in kombu's form."""
        user = f":{password}@" if password else ""
        return ";".join(f"sentinel://{user}{watcher.address}" for watcher in self.watchers) + f"/{db}"

    def settings(self, db: int = 0) -> dict[str, Any]:
        return {"redisbeater_redis_url": self.url(db), "redisbeater_redis_options": {"service_name": SERVICE}}

    @property
    def master(self) -> Node:
        """The server that the Sentinels name."""
        _, port = self.watchers[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if server.port == int(port))

    def fail_over(self) -> None:
        """Kill the master, and wait until the Sentinels name the other server."""
        old = self.master
        old.kill()
        wait_until(lambda: self.master is not old, "the Sentinels to name another master", FAILOVER_SECONDS)

    def heal(self, seconds: float = FAILOVER_SECONDS) -> None:
        """Start what was killed; wait until the replica follows the master and every Sentinel sees both."""
        for watcher in self.watchers:
            if watcher.has_ended:
                watcher.start()
        if all(server.has_ended for server in self.servers):
            self.master.start()
        wait_until(lambda: not self.master.has_ended, "the Sentinels to name a master that is up", seconds)
        for server in self.servers:
            if server.has_ended:
                # The Sentinels would make it a replica themselves, but later.
                server.start("--replicaof", LOOPBACK, str(self.master.port))
        wait_until(self._is_whole, "the replica to follow the master", seconds)

    def empty(self) -> None:
        """Delete all data."""
        self.master.ask("FLUSHALL")

    def _is_whole(self) -> bool:
        with contextlib.suppress(redis.RedisError):  # one that is busy answers the next time
            return self._is_replicated() and all(self._is_seen(watcher) for watcher in self.watchers)
        return False

    def _is_replicated(self) -> bool:
        replicas = [server.info("replication") for server in self.servers if server is not self.master]
        links = [each.get("master_link_status") for each in replicas]
        return links == ["up"]

    def _is_seen(self, watcher: Node) -> bool:
        state = _fields(watcher.ask("SENTINEL", "MASTER", SERVICE))
        replicas = [_fields(each) for each in watcher.ask("SENTINEL", "REPLICAS", SERVICE)]
        healthy = [each for each in replicas if each["flags"] == "slave"]
        return (
            state["flags"] == "master"
            and int(state["port"]) == self.master.port
            and int(state["num-other-sentinels"]) == SENTINELS - 1
            and len(healthy) == len(self.servers) - 1
        )


def _fields(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


@contextlib.contextmanager
def running_sentinels(program: Program, tls: Certificates | None = None) -> Iterator[Sentinels]:
    """Run a master, a replica and three Sentinels."""
    with contextlib.ExitStack() as stack:
        fast = ["--repl-diskless-sync-delay", "0", "--appendonly", "no"]
        master = new_node(stack, program, fast, tls).start()
        replica = new_node(stack, program, fast, tls).start("--replicaof", LOOPBACK, str(master.port))
        watchers = [stack.enter_context(running_watcher(master, tls=tls)) for _ in range(SENTINELS)]
        sentinels = Sentinels([master, replica], watchers)
        wait_until(sentinels._is_whole, "the Sentinels to know each other", FAILOVER_SECONDS)
        yield sentinels


class Watcher(Node):
    """A Sentinel; it keeps its state in its configuration file."""

    def _start(self, port: int, options: Sequence[str]) -> None:
        super()._start(port, options)
        with contextlib.suppress(redis.ResponseError):  # before Redis 7 they cannot be set
            for name, milliseconds in SENTINEL_PERIODS.items():
                self.ask("SENTINEL", "DEBUG", name, milliseconds)

    def _arguments(self, port: int) -> list[str]:
        return [str(self.folder / "sentinel.conf"), *self._ports(port), *self.options, "--sentinel"]


@contextlib.contextmanager
def running_watcher(master: Node | Server, password: str = "", tls: Certificates | None = None) -> Iterator[Watcher]:
    """Run one Sentinel."""
    with tempfile.TemporaryDirectory(prefix="redisbeater-") as folder:
        lines = [
            f"bind {LOOPBACK}",
            f"dir {folder}",
            f"sentinel monitor {SERVICE} {LOOPBACK} {master.port} {SENTINELS // 2 + 1}",
            f"sentinel down-after-milliseconds {SERVICE} {NODE_TIMEOUT_MS}",
            f"sentinel failover-timeout {SERVICE} {4 * NODE_TIMEOUT_MS}",
            *([f"requirepass {password}"] if password else []),
        ]
        (Path(folder) / "sentinel.conf").write_text("\n".join(lines) + "\n")
        secret = {"password": password} if password else {}
        watcher = Watcher(master.program, Path(folder), _tls_options(tls), connection={**secret, **_tls_client(tls)})
        try:
            watcher.start()
            yield watcher
        finally:
            watcher.stop()


def new_node(
    stack: contextlib.ExitStack, program: Program, options: Sequence[str], tls: Certificates | None = None
) -> Node:
    """Return a node that is not started yet, and that ends with the stack."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="redisbeater-")))
    node = Node(program, folder, [*options, *_tls_options(tls)], connection=_tls_client(tls))
    stack.callback(node.stop)
    return node


def _tls_options(tls: Certificates | None) -> list[str]:
    if tls is None:
        return []
    files = ["--tls-cert-file", tls.server, "--tls-key-file", tls.server_key, "--tls-ca-cert-file", tls.ca]
    return [*files, "--tls-auth-clients", "optional", "--tls-replication", "yes"]


def _tls_client(tls: Certificates | None) -> dict[str, Any]:
    return {"ssl": True, "ssl_ca_certs": tls.ca} if tls else {}


# Cluster


@dataclass(frozen=True)
class Cluster:
    """Three masters, each with a replica."""

    nodes: list[Node]
    another: Callable[[], Node]

    def url(self, hosts: int = MASTERS) -> str:
        return "redis-cluster://" + ",".join(node.address for node in self.living[:hosts])

    def client(self) -> redis.RedisCluster:
        """Return a cluster client, for the test's own questions."""
        return redis.RedisCluster(LOOPBACK, self.living[0].port, decode_responses=True)

    @property
    def living(self) -> list[Node]:
        return [node for node in self.nodes if not node.has_ended]

    def owner(self, key: str) -> Node:
        """Return the master that reports to have the slot of a key; wait until there is one."""
        return wait_until(lambda: self._owner(key_slot(key.encode())), f"a node that has {key}", FAILOVER_SECONDS)

    def _owner(self, slot: int) -> Node | None:
        return next((node for node in self.living if _owner_by(node, slot) == node.port), None)

    def fail_over(self, key: str) -> Node:
        """Kill the master that has the slot of a key, wait until another has it, and return the dead one."""
        old = self.owner(key)
        old.kill()
        self.owner(key)
        return old

    def heal(self, seconds: float = FAILOVER_SECONDS) -> None:
        """Start what was killed, end moves of slots, and wait until each master has a replica that follows it."""
        assert len(self.nodes) == 2 * MASTERS, f"a node stayed that had joined: {self.nodes}"
        for node in self.nodes:
            if node.has_ended:
                node.start()
        self._close_slots()
        wait_until(self._is_whole, "the cluster to be whole", seconds)

    def empty(self) -> None:
        """Delete all data."""
        for master in self.masters:
            master.ask("FLUSHALL")

    def _close_slots(self) -> None:
        """End the moves that a test began and did not finish: the slot stays with the master that has it."""
        for master in self.masters:
            for slot in _open_slots(master):
                master.ask("FLUSHALL")  # keys of the slot on both sides would contradict each other
                master.ask("CLUSTER", "SETSLOT", slot, "STABLE")

    @contextlib.contextmanager
    def joined(self) -> Iterator[Node]:
        """Add a new master without slots, and remove it afterwards; it must have no slots then."""
        node = self.another().start()
        node.ask("CLUSTER", "MEET", LOOPBACK, self.nodes[0].port)
        self.nodes.append(node)
        wait_until(lambda: all(_knows(each) == len(self.nodes) for each in self.nodes), "all to know the new node")
        wait_until(self._is_ok, "the new node to know the slots", FAILOVER_SECONDS)
        yield node
        gone = node.id
        self.nodes.remove(node)
        node.stop()
        for each in self.nodes:
            each.ask("CLUSTER", "FORGET", gone)

    @contextlib.contextmanager
    def moving(self, key: str, first: Sequence[str], target: Node) -> Iterator[None]:
        """Begin to move the slot of a key, with the keys in ``first``; move the other keys and the slot afterwards."""
        source, slot = self.owner(key), key_slot(key.encode())
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        _move(source, target, first)
        yield
        _move(source, target, source.ask("CLUSTER", "GETKEYSINSLOT", slot, 1000))
        target.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        for master in self.masters:  # a source that has no slots left has become a replica
            master.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        # Another move, begun before all nodes have the new epoch, could contradict this one.
        wait_until(lambda: len({_epoch(node, target) for node in self.living}) == 1, "the nodes to agree")

    def other_master(self, key: str) -> Node:
        """Return a master that does not have the slot of a key."""
        return next(node for node in self.masters if node is not self.owner(key))

    @property
    def masters(self) -> list[Node]:
        return [node for node in self.living if node.info("replication")["role"] == "master"]

    def _is_ok(self) -> bool:
        return all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.living)

    def _is_whole(self) -> bool:
        with contextlib.suppress(redis.RedisError):  # one that is busy answers the next time
            return self._is_ok() and self._is_replicated() and self._is_agreed()
        return False

    def _is_agreed(self) -> bool:
        """Whether all nodes tell the same of each slot, no slot is being moved, and there is no other node."""
        views = {str(sorted(_slots(node))) for node in self.nodes}
        known = {_knows(node) for node in self.nodes}
        return len(views) == 1 and known == {len(self.nodes)} and not any(map(_open_slots, self.nodes))

    def _is_replicated(self) -> bool:
        replications = [node.info("replication") for node in self.nodes]
        masters = [each for each in replications if each["role"] == "master"]
        links = [each["master_link_status"] for each in replications if each["role"] == "slave"]
        return (
            len(masters) == MASTERS
            and links == ["up"] * (len(self.nodes) - MASTERS)
            and all(each["connected_slaves"] >= 1 for each in masters)
        )


@contextlib.contextmanager
def running_cluster(program: Program, tls: Certificates | None = None) -> Iterator[Cluster]:
    """Run a cluster of six nodes."""
    with contextlib.ExitStack() as stack:
        options = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS), "--appendonly", "no"]
        options += ["--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"]

        if tls:
            options += ["--tls-cluster", "yes"]

        def another() -> Node:
            return new_node(stack, program, options, tls)

        nodes = [another().start() for _ in range(2 * MASTERS)]
        cluster = Cluster(nodes, another)
        _form(cluster)
        yield cluster


def _form(cluster: Cluster) -> None:
    masters, replicas = cluster.nodes[:MASTERS], cluster.nodes[MASTERS:]
    for epoch, node in enumerate(cluster.nodes, start=1):
        node.ask("CLUSTER", "SET-CONFIG-EPOCH", epoch)
    bounds = [index * SLOTS // MASTERS for index in range(MASTERS + 1)]
    for master, first, end in zip(masters, bounds, bounds[1:]):
        master.ask("CLUSTER", "ADDSLOTS", *range(first, end))
    for node in cluster.nodes[1:]:
        node.ask("CLUSTER", "MEET", LOOPBACK, cluster.nodes[0].port)
    wait_until(lambda: all(_knows(node) == len(cluster.nodes) for node in cluster.nodes), "the nodes to meet")
    for master, replica in zip(masters, replicas):
        replica.ask("CLUSTER", "REPLICATE", master.id)
    wait_until(cluster._is_whole, "the cluster to be whole", FAILOVER_SECONDS)


def _move(source: Node, target: Node, keys: Sequence[str]) -> None:
    if keys:
        source.ask("MIGRATE", LOOPBACK, target.port, "", 0, 5000, "KEYS", *keys)


def _epoch(node: Node, target: Node) -> str:
    """Return the configuration epoch of ``target`` that ``node`` knows."""
    lines = [line.split() for line in node.ask("CLUSTER", "NODES").splitlines()]
    return next(fields[6] for fields in lines if fields[0] == target.id)


def _knows(node: Node) -> int:
    """Return how many nodes it knows, without those in a handshake."""
    return len([line for line in node.ask("CLUSTER", "NODES").splitlines() if "handshake" not in line])


def _owner_by(node: Node, slot: int) -> int | None:
    """Return the port of the master that has a slot, as ``node`` reports it."""
    return next((port for first, last, port in _slots(node) if first <= slot <= last), None)


def _slots(node: Node) -> list[tuple[int, int, int]]:
    """Return the ranges of slots that ``node`` reports, each as first slot, last slot and port of its master."""
    return [(first, last, int(master[1])) for first, last, master, *_ in node.ask("CLUSTER", "SLOTS")]


def _open_slots(node: Node) -> list[int]:
    """Return the slots that a node is migrating or importing: ``[93->-...]`` or ``[77-<-...]`` in its own line."""
    own = next(line for line in node.ask("CLUSTER", "NODES").splitlines() if "myself" in line)
    return [int(word[1:].split("-")[0]) for word in own.split() if word.startswith("[")]
