from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import redisbeater
from redisbeater.config.settings import Config
from redisbeater.entry import FIELDS
from redisbeater.model.fields import FIELDS as TABLE
from redisbeater.model.fields import INHERITED, NO_LABELS, REDBEAT_FIELDS, EntryChanges, EntryFields, StoredFields
from redisbeater.model.policies import (
    Anchor,
    AnchorWord,
    Coalesce,
    CoalesceWord,
    OnFinish,
    OnFinishWord,
    Overlap,
    OverlapWord,
)
from redisbeater.model.resolved_policy import Defaults

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = Path(__file__).with_name("typed_program.py")

#: Strict; only Django and django-tenants, which have no types, are not looked at. Errors of redisbeater itself are for
#: its own run of mypy.
STRICT = """
[mypy]
strict = true
python_version = 3.10
pretty = false
disallow_untyped_decorators = false
[mypy-django.*,django_tenants.*]
ignore_missing_imports = true
[mypy-redisbeater.*]
follow_imports = silent
"""

#: What makes mypy see of Celery what it sees without celery-types: nothing.
WITHOUT_TYPES = """
[mypy-celery.*,kombu.*]
follow_imports = skip
follow_imports_for_stubs = true
ignore_missing_imports = true
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder with the program and all examples, whose modules of the same name get names of their own."""
    folder = tmp_path_factory.mktemp("programs")
    for source in (PROGRAM, *EXAMPLES.rglob("*.py")):
        example = source.relative_to(EXAMPLES).parts[0] if source is not PROGRAM else ""
        relative = source.relative_to(EXAMPLES / example) if example else Path(source.name)
        target = folder / Path(
            *(
                f"{example}_{part}" if part.startswith(("proj", "conftest", "test_")) else part
                for part in relative.parts
            )
        )
        target.parent.mkdir(exist_ok=True)
        target.write_text(re.sub(r"^from proj\b", f"from {example}_proj", source.read_text(), flags=re.MULTILINE))
    return folder


@pytest.mark.deep
@pytest.mark.parametrize("celery_types", [True, False], ids=["with-celery-types", "without-celery-types"])
def test_mypy_finds_the_wrong_lines_of_a_program_and_none_in_the_examples(programs: Path, celery_types: bool) -> None:
    metadata.version("celery-types")  # of the extra "test"
    config = programs / f"{celery_types}.ini"
    config.write_text(STRICT if celery_types else STRICT + WITHOUT_TYPES)

    found = dict.fromkeys(_errors(programs, config))

    wrong = [n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if line.endswith("# error")]
    assert list(found) == [f"{PROGRAM.name}:{number}" for number in wrong]


def _errors(programs: Path, config: Path) -> Iterator[str]:
    """Yield file and line of each error that mypy finds."""
    files = [str(path.relative_to(programs)) for path in sorted(programs.rglob("*.py"))]
    arguments = ["--config-file", config.name, "--cache-dir", f"{config.stem}.cache", "--no-error-summary", *files]
    source = Path(redisbeater.__file__).parents[1]
    environment = {} if source.name == "site-packages" else {"MYPYPATH": str(source)}  # mypy finds what is installed
    result = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments], cwd=programs, env=environment, capture_output=True, text=True
    )
    assert not result.stderr
    for line in result.stdout.splitlines():
        if match := re.match(r"(.+:\d+): error: ", line):
            yield match[1]


def test_the_words_for_type_checkers_are_those_of_the_policies() -> None:
    assert get_args(CoalesceWord) == tuple(choice.value for choice in Coalesce)
    assert get_args(OnFinishWord) == tuple(choice.value for choice in OnFinish)
    assert get_args(OverlapWord) == tuple(choice.value for choice in Overlap)
    assert get_args(AnchorWord) == tuple(choice.value for choice in Anchor)


def test_the_fields_for_type_checkers_are_those_of_an_entry() -> None:
    created, changed = EntryFields.__annotations__.keys(), EntryChanges.__annotations__.keys()

    assert created == {*FIELDS, "relative"} - {"name", "task", "schedule", "app"}
    assert changed == {*FIELDS} - {"name", "app", "last_run_at", "total_run_count"}
    assert get_type_hints(redisbeater.RedisScheduleEntry).keys() >= {*FIELDS}


def test_the_parameters_of_an_entry_are_those_of_the_table_with_its_defaults() -> None:
    parameters = inspect.signature(redisbeater.RedisScheduleEntry).parameters
    passed = {name: parameters[name].default for name in parameters if name not in {*FIELDS, "relative"} - {*TABLE}}
    passed.pop("unknown")

    assert passed == {name: None if field.default is NO_LABELS else field.default for name, field in TABLE.items()}


def test_the_docstring_of_an_entry_explains_each_field_of_the_table() -> None:
    documented = re.findall(r"^        (\w+(?:, \w+)*): ", redisbeater.RedisScheduleEntry.__doc__ or "", re.MULTILINE)

    assert {*TABLE} <= {name for names in documented for name in names.split(", ")}


def test_a_definition_has_the_fields_of_the_table_with_its_defaults() -> None:
    defaults = StoredFields._field_defaults

    assert {*StoredFields._fields} - {*TABLE} == {"name", "task", "schedule", "extra"}
    assert {name: TABLE[name].default for name in defaults} == defaults
    assert {*TABLE} - {*defaults} == {*REDBEAT_FIELDS} - {"enabled"}


def test_each_field_that_inherits_has_a_setting_with_a_value_for_entries() -> None:
    assert {*INHERITED} <= {*Config.__annotations__} & {*Defaults.__annotations__}
