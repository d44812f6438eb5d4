"""Redis Sentinel and Redis Cluster for the tests, made of real servers on this machine."""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from celery import Celery
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry
from servers import Program, Server, stop
from tls import Certificates
from waiting import wait_until

#: Ports of the nodes. A cluster node listens 10,000 above, too; systems give neither to clients.
PORTS = range(20_000, 22_700)
BUS_OFFSET = 10_000

#: Failovers within seconds; not so fast that a busy machine is taken for a dead server.
NODE_TIMEOUT_MS = 1_000

#: A failover on a machine that has much else to do.
FAILOVER_PATIENCE = 60.0

SLOTS = 16_384
MASTERS, SENTINELS = 3, 3
SERVICE = "mymaster"


def app_with(**settings: Any) -> Celery:
    """An app with a broker in memory."""
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update(settings)
    return app


@dataclass(eq=False)
class Node:
    """One server of several. It can be killed, and started again on its port with its data."""

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
        return f"127.0.0.1:{self.port}"

    @property
    def client(self) -> redis.Redis:
        """A plain client, for the test's own questions."""
        options: dict[str, Any] = {
            "protocol": 2,
            "socket_timeout": 10,
            "retry": Retry(NoBackoff(), 0),
            **self.connection,
        }
        return redis.Redis("127.0.0.1", self.port, decode_responses=True, **options)

    def start(self, *options: str) -> Node:
        """Start it: on its port, or the first time on one that is free."""
        for port in [self.port] if self.port else _candidates():
            log = (self.folder / "log").open("ab")
            command = [self.program.path, *self._arguments(port), *options]
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
            self.port = port
            if wait_until(lambda: self.has_ended or self.answers, f"{self.program.path} to answer") and self.answers:
                return self
            if "in use" not in self.log:
                break
        raise AssertionError(f"does not start:\n{self.log}")

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def _arguments(self, port: int) -> list[str]:
        return [*self._ports(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder), *self.options]

    def _ports(self, port: int) -> list[str]:
        return ["--port", "0", "--tls-port", str(port)] if "ssl" in self.connection else ["--port", str(port)]

    @property
    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    @property
    def answers(self) -> bool:
        with contextlib.suppress(redis.ConnectionError, redis.TimeoutError), self.client as client:
            return not self.has_ended and bool(client.ping())
        return False

    def kill(self) -> None:
        """SIGKILL: a crash."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(15)

    def stop(self) -> None:
        if self.process is not None:
            stop(self.process)

    @property
    def id(self) -> str:
        """Its name in a cluster."""
        return self.ask("CLUSTER", "MYID")  # type: ignore[no-any-return]

    def info(self, section: str) -> dict[str, Any]:
        with self.client as client:
            return client.info(section)  # type: ignore[return-value]

    def ask(self, *command: Any) -> Any:
        with self.client as client:
            return client.execute_command(*command)


def _candidates() -> Iterator[int]:
    for port in random.sample(PORTS, 50):
        if _is_free(port) and _is_free(port + BUS_OFFSET):
            yield port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


# Sentinel


@dataclass(frozen=True)
class Sentinels:
    """A master with a replica, and three Sentinels that watch them."""

    servers: list[Node]
    watchers: list[Node]

    @property
    def hosts(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", watcher.port) for watcher in self.watchers]

    def url(self, db: int = 0, password: str = "") -> str:
        """In kombu's form."""
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
        """Kill the master, and wait for the other to be it."""
        old = self.master
        old.kill()
        wait_until(lambda: self.master is not old, "the Sentinels to name another master", FAILOVER_PATIENCE)

    def heal(self) -> None:
        """Start what was killed; the replica has all that the master has, and every Sentinel sees both."""
        for server in self.servers:
            if server.has_ended:
                # The Sentinels would tell it so themselves, after a while.
                server.start("--replicaof", "127.0.0.1", str(self.master.port))
        wait_until(self._is_whole, "the replica to follow the master", FAILOVER_PATIENCE)

    def _is_whole(self) -> bool:
        replicas = [server.info("replication") for server in self.servers if server is not self.master]
        links = [each.get("master_link_status") for each in replicas]
        return links == ["up"] and all(self._is_seen(watcher) for watcher in self.watchers)

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
        replica = new_node(stack, program, fast, tls).start("--replicaof", "127.0.0.1", str(master.port))
        watchers = [stack.enter_context(running_watcher(master, tls=tls)) for _ in range(SENTINELS)]
        sentinels = Sentinels([master, replica], watchers)
        wait_until(sentinels._is_whole, "the Sentinels to know each other", FAILOVER_PATIENCE)
        yield sentinels


class Watcher(Node):
    """A Sentinel; it keeps what it knows in its configuration file."""

    def _arguments(self, port: int) -> list[str]:
        return [str(self.folder / "sentinel.conf"), *self._ports(port), *self.options, "--sentinel"]


@contextlib.contextmanager
def running_watcher(master: Node | Server, password: str = "", tls: Certificates | None = None) -> Iterator[Watcher]:
    """Run one Sentinel."""
    with tempfile.TemporaryDirectory(prefix="redisbeater-") as folder:
        lines = [
            "bind 127.0.0.1",
            f"dir {folder}",
            f"sentinel monitor {SERVICE} 127.0.0.1 {master.port} {SENTINELS // 2 + 1}",
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
    """A node that is not started yet, and ends with the stack."""
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
        """A cluster client, for the test's own questions."""
        return redis.RedisCluster("127.0.0.1", self.living[0].port, decode_responses=True)

    @property
    def living(self) -> list[Node]:
        return [node for node in self.nodes if not node.has_ended]

    def owner(self, key: str) -> Node:
        """The master that says of itself that it has the slot of a key."""
        return wait_until(lambda: self._owner(key_slot(key.encode())), f"a node that has {key}", FAILOVER_PATIENCE)

    def _owner(self, slot: int) -> Node | None:
        return next((node for node in self.living if _owner_by(node, slot) == node.port), None)

    def fail_over(self, key: str) -> Node:
        """Kill the master that has the slot of a key, and wait for another to have it; the dead one."""
        old = self.owner(key)
        old.kill()
        self.owner(key)
        return old

    def heal(self) -> None:
        """Start what was killed; the cluster is whole, each master with a replica that has all it has."""
        for node in self.nodes:
            if node.has_ended:
                node.start()
        wait_until(self._is_whole, "the cluster to be whole", FAILOVER_PATIENCE)

    @contextlib.contextmanager
    def joined(self) -> Iterator[Node]:
        """A new master without slots; it must have none when it goes."""
        node = self.another().start()
        node.ask("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        self.nodes.append(node)
        wait_until(lambda: all(_knows(each) == len(self.nodes) for each in self.nodes), "all to know the new node")
        wait_until(self._is_ok, "the new node to know the slots", FAILOVER_PATIENCE)
        yield node
        gone = node.id
        self.nodes.remove(node)
        node.stop()
        for each in self.nodes:
            each.ask("CLUSTER", "FORGET", gone)

    @contextlib.contextmanager
    def moving(self, key: str, first: Sequence[str], target: Node) -> Iterator[None]:
        """The slot of a key is on its way: some of its keys are there, the others follow when this is over."""
        source, slot = self.owner(key), key_slot(key.encode())
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        _move(source, target, first)
        yield
        _move(source, target, source.ask("CLUSTER", "GETKEYSINSLOT", slot, 1000))
        target.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        for master in self.masters:  # a source that has no slots left is a replica by now
            master.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        # Before they all know that this is the latest word, another move could contradict it.
        wait_until(lambda: len({_epoch(node, target) for node in self.living}) == 1, "the nodes to agree")

    def other_master(self, key: str) -> Node:
        """One that does not have the slot of a key."""
        return next(node for node in self.masters if node is not self.owner(key))

    @property
    def masters(self) -> list[Node]:
        return [node for node in self.living if node.info("replication")["role"] == "master"]

    def _is_ok(self) -> bool:
        return all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.living)

    def _is_whole(self) -> bool:
        replications = [node.info("replication") for node in self.nodes]
        masters = [each for each in replications if each["role"] == "master"]
        links = [each["master_link_status"] for each in replications if each["role"] == "slave"]
        return (
            self._is_ok()
            and len(masters) == MASTERS
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
        node.ask("CLUSTER", "MEET", "127.0.0.1", cluster.nodes[0].port)
    wait_until(lambda: all(_knows(node) == len(cluster.nodes) for node in cluster.nodes), "the nodes to meet")
    for master, replica in zip(masters, replicas):
        replica.ask("CLUSTER", "REPLICATE", master.id)
    wait_until(cluster._is_whole, "the cluster to be whole", FAILOVER_PATIENCE)


def _move(source: Node, target: Node, keys: Sequence[str]) -> None:
    if keys:
        source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)


def _epoch(node: Node, target: Node) -> str:
    """How new the word of a node is, as another one knows it."""
    lines = [line.split() for line in node.ask("CLUSTER", "NODES").splitlines()]
    return next(fields[6] for fields in lines if fields[0] == target.id)


def _knows(node: Node) -> int:
    """How many nodes it knows, not counting those it is just shaking hands with."""
    return len([line for line in node.ask("CLUSTER", "NODES").splitlines() if "handshake" not in line])


def _owner_by(node: Node, slot: int) -> int | None:
    """The port of the master that has a slot, as one node says."""
    for first, last, master, *_ in node.ask("CLUSTER", "SLOTS"):
        if first <= slot <= last:
            return int(master[1])
    return None
