"""The colours of the page: texts and marks are told from each of the three grounds, light and dark."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

STYLE = files("redisbeater.dashboard").joinpath("static", "page.css").read_text()

#: Each colour by its name: light, then dark.
TOKENS = {
    name: tuple(f"#{''.join(2 * digit for digit in each) if len(each) == 3 else each}" for each in pair)
    for name, *pair in re.findall(r"--([\w-]+):light-dark\(#(\w+),#(\w+)\)", STYLE)
}

GROUNDS = ("bg", "panel", "hover")

#: What is read, and what is only seen, with the least contrast of each.
LEAST = {
    **dict.fromkeys(("text", "quiet", "accent", "good", "bad", "warn", "held"), 4.5),
    **dict.fromkeys(("edge", "m-good", "m-coming", "m-bad", "m-warn", "m-held"), 3.0),
}

#: Texts on the ground of a message of their tone.
MESSAGES = (("good", "good-bg"), ("bad", "bad-bg"), ("warn", "warn-bg"), ("ink", "accent"))


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG 2 defines it."""
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_that_of_the_standard():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", LEAST)
def test_each_colour_is_told_from_every_ground(name: str, theme: int):
    found = {ground: round(contrast(TOKENS[name][theme], TOKENS[ground][theme]), 2) for ground in GROUNDS}
    assert min(found.values()) >= LEAST[name], found


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), MESSAGES)
def test_a_message_is_read_on_its_own_ground(text: str, ground: str, theme: int):
    assert contrast(TOKENS[text][theme], TOKENS[ground][theme]) >= 4.5


def test_every_colour_of_a_text_or_a_mark_is_a_token():
    rules = STYLE.split("\n}\n", 1)[1].partition("/* Colours that the system chooses")[0]
    loose = re.findall(r"(?:[^-\w]color|fill|stroke|background(?:-color)?):(#\w+)", rules)
    assert loose == []
