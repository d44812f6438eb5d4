"""A traceback on the page of a run: the frame that raised stands first, those of libraries are folded."""

from __future__ import annotations

from redisbeater.dashboard.frames import raised_of

OWN = """Traceback (most recent call last):
  File "/srv/venv/lib/python3.11/site-packages/celery/app/trace.py", line 479, in trace_task
    R = retval = fun(*args, **kwargs)
                 ^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/orders/tasks.py", line 31, in import_orders
    rows = [parse_row(each) for each in feed]
  File "/usr/lib/python3.11/csv.py", line 8, in __next__
    row = next(self.reader)
  File "/srv/shop/orders/feed.py", line 88, in parse_row
    return Row(row["price"])
           ~~~^^^^^^^^^
KeyError: 'price'
of row 17"""


def test_the_frame_that_raised_stands_first_and_libraries_are_folded_in_their_place():
    (raised,) = raised_of(OWN)
    assert raised.error == "KeyError: 'price'\nof row 17"
    assert [(part.is_own, [frame.place for frame in part.frames]) for part in raised.parts] == [
        (True, ["shop/orders/feed.py:88"]),
        (False, ["csv.py:8"]),
        (True, ["shop/orders/tasks.py:31"]),
        (False, ["celery/app/trace.py:479"]),
    ]
    assert raised.parts[1].words == "1 frame of csv"
    first = raised.parts[0].frames[0]
    assert (first.function, first.code) == ("parse_row", ('return Row(row["price"])',))


def test_of_several_errors_the_last_one_stands_first():
    before = 'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in f\n    g()\nOSError: no disk'
    assert [raised.error for raised in raised_of(f"{before}\n\n{OWN}")] == [
        "KeyError: 'price'\nof row 17",
        "OSError: no disk",
    ]


def test_neighbouring_frames_of_libraries_are_one_fold_that_names_each_of_them():
    lines = [
        f'  File "/venv/lib/python3.12/site-packages/{name}/core.py", line 1, in call\n    go()'
        for name in ("celery", "httpx", "httpx")
    ]
    (raised,) = raised_of("\n".join(["Traceback (most recent call last):", *lines, "TimeoutError"]))
    assert [part.words for part in raised.parts] == ["3 frames of httpx, celery"]
    assert not raised.has_own


def test_what_is_no_traceback_has_no_frames():
    for text in ("", "Traceback\n  in fetch\nError", "Traceback (most recent call last):\nValueError: no row"):
        assert raised_of(text) == []


def test_a_traceback_that_was_cut_keeps_what_is_left():
    (raised,) = raised_of('...\n    x()\n  File "/srv/a.py", line 3, in f\n    y()\nValueError: late')
    assert (raised.parts[0].frames[0].place, raised.error) == ("srv/a.py:3", "ValueError: late")
