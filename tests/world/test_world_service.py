"""The rules of the guestbook in a world where processes die: each page once, with its event and its answer."""

from __future__ import annotations

import pytest
from guestbook.rules import COUNT, PAGE, Guestbook
from guestbook.settings import Settings

from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_unicast
from world.app import App, Habits
from world.resident import Resident
from world.world import World

PAGES = 12


def write(guest: App, book: Resident, text: str) -> None:
    expiry = expiry_min(guest.time.now().wall_s + 7200)
    guest.put(seal_unicast(guest.key, book.key.public, text.encode(), ttl_s=3600, expiry_min=expiry))


@pytest.mark.parametrize("seed", range(20))
def test_a_guestbook_that_dies_again_and_again_has_each_page_once(seed: int) -> None:
    with World(seed) as world:
        node = world.node("home")
        book = Resident(world, node, "book", Guestbook, Settings(), Habits(die=0.3))
        guests = [world.app(node, name) for name in ("alice", "bob")]
        world.run_until_quiet()  # from now on the node knows the guestbook's key
        for number in range(PAGES):
            write(guests[number % 2], book, f"page of {number}")
            world.run(world.time.random.random())
            if world.time.chance(0.2):
                world.crash(node)
        world.run_until_quiet()
        pages = [value.partition(b" ")[2] for key, value in sorted(book.kept.items()) if key.startswith(PAGE)]
        assert sorted(pages) == sorted(f"page of {number}".encode() for number in range(PAGES))
        assert book.kept[COUNT] == b"%d" % PAGES
        assert [one.fields["page"] for one in book.notes] == list(range(1, PAGES + 1)), "each event with its page"
        answers = [open_message(wire).body for wire in book.diary.sent.values()]
        assert sorted(answers) == sorted(2 * [b"page %d" % number for number in range(1, PAGES + 1)])
        world.check()
