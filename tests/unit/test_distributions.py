"""The sdist and the wheel: what is in them, that two builds are equal, and that the wheel works when unpacked."""

from __future__ import annotations

import email
import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from check_wheel_contents.__main__ import main as check_wheel_contents
from click.testing import CliRunner
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from twine.commands.check import check as twine_check

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "redisbeater"

#: What is no part of a distribution, though it may lie in a checkout.
LEFT_OVER = {"__pycache__", "node_modules", "_build", "_generated", ".pytest_cache", ".hypothesis"}

#: What the installed package does, from its files alone: each kind of data file is read once.
SMOKE = """
import sys
from importlib.metadata import entry_points, version
from importlib.resources import files

import redisbeater
from redisbeater.dashboard.site import Assets
from redisbeater.dashboard.template_environment import environment
from redisbeater.store.connection import load_script

assert redisbeater.__file__.startswith(sys.argv[1]), redisbeater.__file__
assert version("redisbeater") == redisbeater.__version__
[scheduler] = [each for each in entry_points(group="celery.beat_schedulers") if each.name == "redisbeater"]
[commands] = [each for each in entry_points(group="celery.commands") if each.name == "redisbeater"]
assert scheduler.load() is redisbeater.RedisScheduler
assert load_script("claim", with_runs=True)
assert environment().get_template("entries.html")
assert Assets().version
assert files("redisbeater").joinpath("py.typed").is_file()
print(len(commands.load().commands))
"""


def build(folder: Path) -> tuple[Path, Path]:
    sdist = next(SdistBuilder(str(ROOT)).build(directory=str(folder)))
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"]))
    return Path(sdist), Path(wheel)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def sdist(built: tuple[Path, Path]) -> Path:
    return built[0]


@pytest.fixture(scope="module")
def wheel(built: tuple[Path, Path]) -> Path:
    return built[1]


def files_below(folder: str) -> set[str]:
    paths = [path for path in (ROOT / folder).rglob("*") if path.is_file() and not LEFT_OVER & set(path.parts)]
    return {str(path.relative_to(ROOT)) for path in paths}


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    package = {name for name in names if name.startswith("redisbeater/")}
    assert {f"src/{name}" for name in package} == files_below("src/redisbeater")
    assert {Path(name).suffix for name in package} >= {".py", ".typed", ".lua", ".html", ".css", ".js", ".svg"}
    info = {name.partition("/")[2] for name in names - package}
    assert info == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}


@pytest.mark.parametrize("folder", ["src", "tests", "docs", "examples", "benchmarks", ".ci", ".github"])
def test_the_sdist_has_what_the_tests_and_the_documentation_need(sdist: Path, folder: str) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {name for name in names if name.startswith(f"{folder}/")} == files_below(folder)
    assert {path.name for path in ROOT.iterdir() if path.suffix in (".rst", ".md", ".toml", ".ini", ".yml")} <= names
    assert {"LICENSE", "Dockerfile", ".dockerignore", "PKG-INFO"} <= names


def test_two_builds_are_equal_to_the_byte(built: tuple[Path, Path], tmp_path: Path) -> None:
    again = build(tmp_path)

    digests = [[hashlib.sha256(path.read_bytes()).hexdigest() for path in paths] for paths in (built, again)]
    assert digests[0] == digests[1]


def test_indexes_and_installers_find_no_fault(built: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    failed = twine_check([str(path) for path in built], strict=True)
    contents = CliRunner().invoke(check_wheel_contents, ["--no-config", str(built[1])])

    assert not failed, capsys.readouterr().out
    assert (contents.exit_code, contents.output.strip()) == (0, f"{built[1]}: OK")


def test_the_metadata_name_what_people_search_for(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [path] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = email.message_from_bytes(archive.read(path))

    classifiers = set(metadata.get_all("Classifier", []))
    assert {"Framework :: Celery", "Framework :: Django", "Typing :: Typed"} <= classifiers
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Description-Content-Type"] == "text/x-rst"
    assert {"celery", "beat", "redis", "valkey"} <= set(metadata["Keywords"].split(","))


@pytest.mark.processes
def test_the_wheel_works_where_it_is_unpacked(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)

    ended = subprocess.run(
        [sys.executable, "-c", SMOKE, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 30
