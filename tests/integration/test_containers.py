"""The image, what compose starts of it, and the manifests: their commands run here, without a container."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from celery import Celery
from celery.bin.celery import celery as celery_command
from click.testing import CliRunner

from redisbeater import RedisScheduler

ROOT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines) if name]


def argument(name: str) -> str:
    """The last one of that name, which is that of the image."""
    return [rest for each, rest in instructions() if each == name][-1]


def manifests() -> dict[str, dict[str, Any]]:
    texts = [path.read_text() for path in sorted((ROOT / "docs" / "kubernetes").glob("*.yaml"))]
    found = [each for text in texts for each in yaml.safe_load_all(text)]
    return {f"{each['kind']} {each['metadata']['name']}": each for each in found}


def pods() -> dict[str, dict[str, Any]]:
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in manifests().values()
        if each["kind"] == "Deployment"
    }


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return {name: service for name, service in found.items() if name != "redis"}


def words(command: Any) -> list[str]:
    """The words of a command, which is a list or a text."""
    return shlex.split(command) if isinstance(command, str) else list(command)


def commands() -> dict[str, list[str]]:
    """Every command that begins with celery, by where it is."""
    health = json.loads(argument("HEALTHCHECK").partition(" CMD ")[2])[-1].removeprefix("exec ")
    found = {"image": json.loads(argument("CMD")), "image, health": shlex.split(health)}
    found |= {f"compose, {name}": words(each["command"]) for name, each in services().items() if "command" in each}
    found["compose, worker, health"] = shlex.split(services()["worker"]["healthcheck"]["test"][1].replace("$$", "$"))
    return found | {f"kubernetes, {name}": pod["containers"][0]["command"] for name, pod in pods().items()}


@pytest.fixture(autouse=True)
def the_application(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``-A proj``, and APP as the image sets it, find the app of the test."""
    [name] = re.findall(r"\bAPP=(\w+)", argument("ENV"))
    module = ModuleType(name)
    module.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("APP", name)


def run(command: list[str]) -> Any:
    assert command[0] == "celery"
    return CliRunner().invoke(celery_command, command[1:])


@pytest.mark.parametrize("where", commands())
def test_every_command_is_one_of_celery_with_options_that_it_knows(where: str) -> None:
    command = commands()[where]

    shown = run([*command, "--help"])

    assert shown.exit_code == 0, shown.output
    assert "Usage: " in shown.output
    unknown = run([*command, "--no-such-option"])
    assert "no-such-option" in unknown.output
    assert re.findall(r"No such option:? '?--(\S+?)'?[.\s]", unknown.output) == ["no-such-option"]


def test_the_healthcheck_of_the_image_asks_for_the_beat_in_it(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    command = commands()["image, health"]
    assert command[-1] == "$(hostname):1"
    health = [*command[:-1], f"{socket.gethostname()}:{os.getpid()}"]
    scheduler = RedisScheduler(app)
    assert run(health).exit_code == 1

    scheduler.tick()

    assert (run(health).exit_code, run(health).output[:2]) == (0, "ok")
    assert run([*health[:-1], f"{socket.gethostname()}:1"]).exit_code == 1
    scheduler.close()


def test_all_run_one_image_as_one_user_who_is_not_root() -> None:
    user = argument("USER")

    assert re.fullmatch(r"([1-9]\d+):\1", user)
    assert {service["image"] for service in services().values()} == {"redisbeater"}
    assert {service["user"] for service in services().values()} == {user}
    for pod in pods().values():
        context = pod["securityContext"]
        assert f"{context['runAsUser']}:{context['runAsGroup']}" == user
        assert context["runAsNonRoot"] is True
        assert [container["image"] for container in pod["containers"]] == ["redisbeater"]
        assert pod["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False


def test_the_base_of_the_image_is_pinned_and_has_a_python_that_is_supported() -> None:
    bases = [rest.split()[0] for name, rest in instructions() if name == "FROM"]
    classifiers = (ROOT / "pyproject.toml").read_text()

    [base] = set(bases)
    found = re.fullmatch(r"python:(3\.\d+)-slim-\w+", base)
    assert found
    assert f"Programming Language :: Python :: {found[1]}" in classifiers


def test_what_the_image_copies_exists_and_is_let_in() -> None:
    copied = [
        word for name, rest in instructions() if name == "COPY" and "--from" not in rest for word in rest.split()[:-1]
    ]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()

    assert copied
    assert all((ROOT / path).exists() for path in copied)
    assert {f"!{path}" for path in copied} == {line for line in ignored if line.startswith("!")}


def test_the_probes_of_kubernetes_ask_for_ports_that_are_served() -> None:
    for name, pod in pods().items():
        [container] = pod["containers"]
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        for probe in (container[key] for key in container if key.endswith("Probe")):
            asked = probe.get("httpGet", probe.get("tcpSocket"))
            assert asked["port"] in ports
            assert asked.get("path", "/live") == "/live"
        given = {each["name"]: each.get("value") for each in container["env"]}
        assert ports.get("probes") == (int(given["REDISBEATER_HTTP"].strip(":")) if name == "beat" else None)
        assert set(given) <= set(
            re.findall(r'environ\.get\("(\w+)"', (ROOT / "examples/several_beats/proj.py").read_text())
        )


@pytest.mark.parametrize("kind", ["PodDisruptionBudget beat", "Service page"])
def test_selectors_select_the_pods_of_their_deployment(kind: str) -> None:
    found, deployment = manifests()[kind], manifests()[f"Deployment {kind.split()[1]}"]
    selector = found["spec"]["selector"]

    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert selector.get("matchLabels", selector) == labels == deployment["spec"]["selector"]["matchLabels"]
