"""Where in the own code a run has failed."""

from __future__ import annotations

import pytest

from redisbeater.model.incident import own_frame


@pytest.mark.parametrize(
    ("files", "frame"),
    [
        (["/srv/shop/jobs/feed.py"], "shop/jobs/feed.py:1 in f1"),
        (["/srv/a.py", "/srv/b.py"], "srv/b.py:2 in f2"),
        (["/a.py"], "a.py:1 in f1"),
        (["C:\\shop\\jobs\\feed.py", "C:\\venv\\Lib\\site-packages\\requests\\api.py"], "shop/jobs/feed.py:1 in f1"),
        (["/srv/a.py", "/usr/lib/python3.11/json/decoder.py", "<frozen runpy>"], "srv/a.py:1 in f1"),
        (["/usr/lib/python3/dist-packages/celery/app/trace.py"], ""),
        ([], ""),
    ],
)
def test_the_last_frame_that_is_in_no_library_is_the_own_one(files: list[str], frame: str) -> None:
    frames = "".join(f'  File "{file}", line {place}, in f{place}\n    x()\n' for place, file in enumerate(files, 1))

    assert own_frame(f"Traceback (most recent call last):\n{frames}ValueError: x") == frame
