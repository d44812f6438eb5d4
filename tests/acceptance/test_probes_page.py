"""The probes of Kubernetes, systemd and compose, as the page on monitoring has them, with a real beat."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import socket
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.ports import free_port
from support.project import Process, Project
from support.scrape import get
from support.waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "monitoring.rst").read_text(encoding="utf-8")

#: The page's own file and port.
FILE, PORT = "/tmp/beat.alive", 9808


def blocks(language: str) -> list[str]:
    found = re.findall(rf"\.\. code-block:: {language}\n\n((?:   .*\n|\n)+)", PAGE)
    return [textwrap.dedent(block) for block in found]


def yaml_with(key: str) -> Any:
    [found] = [read for block in blocks("yaml") if key in (read := yaml.safe_load(block))]
    return found[key]


@pytest.fixture
def site(make_project: Callable[..., Project], tmp_path: Path) -> Project:
    """A project with the page's settings, but for the file and the port, which are the test's."""
    assert f'redisbeater_heartbeat_file = "{FILE}"' in PAGE
    assert f'redisbeater_http = "127.0.0.1:{PORT}"' in PAGE
    return make_project(
        redisbeater_http=f"127.0.0.1:{free_port()}", redisbeater_heartbeat_file=str(tmp_path / "beat.alive")
    )


def port_of(site: Project) -> int:
    return int(str(site.settings["redisbeater_http"]).rpartition(":")[2])


def succeeds(site: Project, command: list[str]) -> bool:
    """Run a command of the page, for the file of the test."""
    assert FILE in " ".join(command)
    ours = [word.replace(FILE, str(site.settings["redisbeater_heartbeat_file"])) for word in command]
    return subprocess.run(ours).returncode == 0


def test_the_probes_of_kubernetes_and_compose_find_a_beat_alive(site: Project) -> None:
    [container] = yaml_with("containers")
    probe = container["livenessProbe"]["httpGet"]
    by_file = yaml_with("livenessProbe")["exec"]["command"]
    kind, in_compose = yaml_with("services")["beat"]["healthcheck"]["test"]
    on_the_page = re.findall(r"^   \$ (test .*)$", PAGE, re.MULTILINE)
    assert (container["ports"], probe["port"]) == ([{"name": "probes", "containerPort": PORT}], "probes")
    assert kind == "CMD-SHELL"
    commands = [by_file, ["sh", "-c", in_compose.replace("$$", "$")], ["sh", "-c", on_the_page[0]]]
    assert [succeeds(site, command) for command in commands] == [False] * 3

    beat = site.celery(*container["command"][3:])
    beat.says("leading as")

    wait_until(lambda: succeeds(site, commands[0]), "the file to be touched")
    assert [succeeds(site, command) for command in commands] == [True] * 3
    assert get(port_of(site), probe["path"]).status == 200
    wait_until(lambda: get(port_of(site), "/health").status == 200, "a healthy beat")
    beat.pause()
    os.utime(site.settings["redisbeater_heartbeat_file"], (0, 0))
    assert [succeeds(site, command) for command in commands] == [False] * 3


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(60)
        yield receiver


def test_systemd_is_notified_of_begin_life_and_end(
    site: Project, manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = configparser.ConfigParser()
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(blocks("ini")[0])
    service = unit["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert (service["Type"], program.endswith("/celery"), arguments[:2]) == ("notify", True, ["-A", "proj"])
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", str(int(float(service["WatchdogSec"]) * 1_000_000)))

    beat = site.celery(*arguments[2:])

    assert manager.recv(100) == b"READY=1"
    assert manager.recv(100) == b"WATCHDOG=1"
    assert beat.end() == 0
    assert manager.recv(100) == b"STOPPING=1"


def test_the_beat_of_a_worker_answers_too(site: Project) -> None:
    worker: Process = site.worker("--beat", "--scheduler", "redisbeater")
    worker.says("leading as")

    assert get(port_of(site), "/live").status == 200
    wait_until(lambda: get(port_of(site), "/health").text.startswith("ok: last pass"), "a healthy beat")
    assert get(port_of(site), "/metrics").status == 200
    assert worker.end() == 0
