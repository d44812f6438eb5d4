"""Lists whose order changes: what somebody does lands on the row they chose, and rows that nobody holds are in order."""

from __future__ import annotations

import pytest
from support.order_walk import OrderWalk, Shuffled
from walking import wait_until_live

# The browser shows nothing about the kind of server.
pytestmark = pytest.mark.one_server

#: How many acts of each seed are tried; ``benchmarks/order_walk.py`` tries hundreds.
ACTS = 20


@pytest.mark.parametrize("seed", [1, 2])
def test_acts_in_a_list_that_changes_its_order_land_on_their_entries(make_site, make_page, seed):
    shuffled = []
    site = make_site(wrap=lambda page: shuffled.append(Shuffled(page, seed)) or shuffled[0])
    page = make_page(has_touch=True, viewport={"width": 1280, "height": 1400})
    OrderWalk.fill(site.store)
    page.clock.install()
    page.goto(site.url)
    wait_until_live(page)
    walk = OrderWalk(page, shuffled[0], site.store, seed)
    for _ in range(ACTS):
        walk.act()
    assert walk.done == ACTS
