"""Both ends of one link without I/O: Alice dials, by default as an app, and Bob's router listens."""

from __future__ import annotations

from samples.core import ALICE, BOB

from router.core.link.session import Offer, Session
from router.core.wire import link_items as link
from router.core.wire.codec import frame


def offer(role: str = "router", nonce: bytes = b"n" * 16, *, messages: int = 8, size: int = 4096) -> Offer:
    features = ("outcome",) if role == "app" else ()
    return Offer(role, b"epoch..8", True, messages, size, nonce, features=features)


def pair(*, proven: bool, role: str = "app") -> tuple[Session, Session]:
    """Return a dialling app and a listening router that have exchanged nothing yet."""
    dialler = Session(
        offer(role, b"d" * 16), ALICE, dialler=True, peer=BOB.public if proven else None, expect=BOB.public
    )
    listener = Session(offer(nonce=b"l" * 16), BOB, dialler=False, peer=ALICE.public if proven else None)
    return dialler, listener


def said(session: Session) -> bytes:
    return b"".join(session.output())


def exchange(one: Session, other: Session) -> tuple[list[object], list[object]]:
    """Carry bytes both ways until both are silent; return the events of each."""
    heard: tuple[list[object], list[object]] = [], []
    while (out := said(one), back := said(other)) != (b"", b""):
        heard[1].extend(other.receive(out, 0) if out else [])
        heard[0].extend(one.receive(back, 0) if back else [])
    return heard


def opened(*, role: str = "app") -> tuple[Session, Session]:
    one, other = pair(proven=False, role=role)
    exchange(one, other)
    assert one.is_open and other.is_open
    return one, other


def item(value: link.Item) -> bytes:
    return frame(link.encode_item(value))
