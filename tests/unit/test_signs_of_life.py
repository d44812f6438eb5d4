"""The heartbeat file, and what systemd is sent."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from redisbeater.observe import observer as signs_of_life
from redisbeater.observe.observer import HeartbeatFile, Systemd

# The file


def test_a_pass_touches_the_file(tmp_path: Path) -> None:
    path = tmp_path / "beat.alive"
    HeartbeatFile(str(path)).touch()
    created = path.stat().st_mtime
    os.utime(path, (0, 0))
    HeartbeatFile(str(path)).touch()

    assert path.read_bytes() == b""
    assert path.stat().st_mtime >= created


def test_a_busy_beat_touches_it_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, now = tmp_path / "beat.alive", 100.0
    monkeypatch.setattr(signs_of_life.time, "monotonic", lambda: now)
    file = HeartbeatFile(str(path))
    file.touch()
    path.unlink()
    now += 0.5
    file.touch()
    assert not path.exists()

    now += 0.6
    file.touch()
    assert path.exists()


def test_a_file_that_cannot_be_touched_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = HeartbeatFile(str(tmp_path / "missing" / "beat.alive"))
    monkeypatch.setattr(signs_of_life, "TOUCH_SECONDS", 0.0)
    file.touch()
    file.touch()

    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("cannot touch redisbeater_heartbeat_file: [Errno 2]")
    assert line.endswith("; correct its path or its rights")


def test_without_a_path_nothing_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    HeartbeatFile(None).touch()

    assert list(tmp_path.iterdir()) == []


# systemd


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A socket as systemd listens on, and its name as the environment has it."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@redisbeater-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name.replace("@", "\0", 1))
        receiver.settimeout(10)
        yield receiver, name


def test_systemd_hears_of_begin_life_and_end(manager: tuple[socket.socket, str]) -> None:
    receiver, name = manager
    systemd = Systemd({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())})
    systemd.ready()
    systemd.alive()
    systemd.alive()  # too early for another one
    systemd.stopping()

    assert [receiver.recv(100) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"STOPPING=1"]
    assert systemd.period == 15.0


@pytest.mark.parametrize(
    "environment", [{}, {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}]
)
def test_a_process_that_is_not_watched_sends_no_sign_of_life(
    environment: dict[str, str], manager: tuple[socket.socket, str]
) -> None:
    receiver, name = manager
    receiver.setblocking(False)
    systemd = Systemd({"NOTIFY_SOCKET": name, **environment})
    systemd.alive()

    assert systemd.period is None
    with pytest.raises(BlockingIOError):
        receiver.recv(100)


def test_a_manager_that_is_gone_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Systemd({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()

    assert [record.levelname for record in caplog.records if record.levelno > 10] == []


def test_without_a_manager_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signs_of_life.socket, "socket", None)
    systemd = Systemd({})
    systemd.ready()

    assert systemd.period is None
