"""A link writer and the silence of its neighbour: what it says, and when it ends the link."""

from __future__ import annotations

from samples.logs import KEY

from router.core.link.liveness import NO_PATH, UNKNOWN, LivenessLimits, PathView
from router.core.link.session import Offer, Session
from router.core.wire import link_items
from router.core.wire.codec import frame
from router.core.wire.lifetime import SECOND_NS
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.node.link_writer import LinkWriter
from router.node.open_links import OpenLinks

LIMITS = LivenessLimits()


class Written(LinkWriter):
    """A link writer whose output is kept, and that notes whether it was cut."""

    def __init__(self, *, ip: str = "", path: PathView = NO_PATH) -> None:
        offer = Offer("router", bytes(8), True, 8, 4096, bytes(16))
        super().__init__(1, Session(offer, KEY, dialler=False), "somewhere", ip=ip, path=path)
        self._parts.clear()
        self.is_cut = False

    def _cut(self) -> None:
        self.is_cut = True

    def pinged_s(self, seconds: int) -> list[int]:
        """Look every second; return when it was pinged."""
        found = []
        for second in range(1, seconds + 1):
            self.look(second * SECOND_NS, LIMITS)
            if self._parts == [frame(link_items.encode_item(link_items.Ping(second * SECOND_NS)))]:
                found.append(second)
            self._parts.clear()
        return found


def test_link_writer_pings_early_if_a_neighbour_on_another_machine_owes_a_settling() -> None:
    far, near = Written(ip="192.0.2.1"), Written()
    for one in (far, near):
        one.tell(b"a message")
        one.pinged_s(0)
        one._parts.clear()
    assert far.pinged_s(20) == [5] and near.pinged_s(20) == []


def test_link_writer_pings_who_is_heard_once_a_minute_for_the_clock() -> None:
    one = Written()
    pinged = []
    for second in range(1, 150):
        one.liveness.heard(second)
        one.look(second * SECOND_NS, LIMITS)
        pinged += [second] * bool(one._parts)
        one._parts.clear()
    assert pinged == [60, 120]


def test_link_writer_cuts_a_silent_link() -> None:
    one = Written()
    assert one.pinged_s(90) == [30, 60] and one.is_cut
    assert one.closing == (Reason.CONNECT_TIMEOUT, "nothing heard for a long time")


def test_link_writers_of_other_machines_alone_are_concerned_by_a_change_of_network() -> None:
    links, stranded = OpenLinks(), PathView(lambda: UNKNOWN, lambda: True)
    links.writers = {1: (near := Written(path=stranded)), 2: (far := Written(ip="192.0.2.1", path=stranded))}
    links.network_changed(Now(SECOND_NS, SECOND_NS))
    for second in (1, 2):
        for one in (near, far):
            one.look(second * SECOND_NS, LIMITS)
    assert far.is_cut and not near.is_cut
    assert far.closing == (Reason.CONNECT_TIMEOUT, "this machine no longer has the address of the connection")
