"""Messages to this router itself, judged before a signature is checked and before anything is decoded.

A unicast to a router is a question or an answer between two linked neighbours: its signer, its first two bytes and its
length decide whether anything else of it is read (R-C4). In the group of a service's own key the router hears only that
service: its requests, and from the discovery service advertisements (R-C26).
"""

from __future__ import annotations

from router.core.neighbours.directory import UNKNOWN, Directory, Standing
from router.core.routing.intake import SIGNATURE_BYTES, ArrivedMessage
from router.core.routing.links import Link
from router.core.service.roles import Role
from router.core.why.report import REPORT_BYTES_MAX
from router.core.wire.admin import ANSWER, ASK
from router.core.wire.advert import ADVERTISEMENT_BYTES_MAX
from router.core.wire.control import CARRIED, CONTROL_BYTES_MAX
from router.core.wire.hint import HINT_BYTES_MAX, TO_ROUTER
from router.core.wire.message import MULTICAST, body_at
from router.core.wire.reasons import Reason
from router.core.wire.whereabouts import WHEREABOUTS, WHEREABOUTS_BYTES_MAX, is_about_places

ADVERTISED = b"\x82\x01"
HEAD_BYTES = 7  # of an answer: array head and type, and at most 5 for the byte string's head


def body_of(row: ArrivedMessage, data: bytes) -> tuple[int, int]:
    """Return where the body of a unicast begins and ends in `data`."""
    return body_at(data, row.start, row.end), row.end - SIGNATURE_BYTES


def kind_in_group(directory: Directory, link: Link, row: ArrivedMessage, data: bytes) -> bytes | None:
    """Return the first two bytes of a service's message to this router in the group of the service's own key; None if
    it is no such message."""
    if link.key not in directory.services or row.head.signer != link.key:
        return None
    start, _ = body_of(row, data)
    kind = data[start : start + 2]
    is_ours = kind == ASK or (kind == ADVERTISED and directory.has_role(link.key, Role.FINDER))
    return kind if is_ours else None


def out_of_place(
    link: Link, row: ArrivedMessage, data: bytes, *, is_awaited: bool, ask_bytes_max: int
) -> tuple[Reason, str] | None:
    """Return why a message to this router is refused undecoded, or None.

    `is_awaited`: we await an answer of this neighbour; `ask_bytes_max`: the most bytes of a question.
    """
    start, end = body_of(row, data)
    kind, size = data[start : min(start + 2, end)], end - start
    is_stranger = link.standing in UNKNOWN
    if kind == CARRIED:  # the carried message is judged separately, together with its carrier
        no_right = link.standing is Standing.STRANGER
        return (Reason.NOT_AUTHORISED, "strangers have nothing carried") if no_right else None
    if row.head.signer != link.key:
        return Reason.NOT_AUTHORISED, "a router is asked only by the key at the other end of the link"
    most = CONTROL_BYTES_MAX
    if kind == ASK:
        most = ask_bytes_max
        if is_stranger:
            return Reason.NOT_AUTHORISED, "strangers ask this router nothing"
    elif kind == TO_ROUTER:
        most = HINT_BYTES_MAX
        if is_stranger:
            return Reason.NOT_AUTHORISED, "strangers give this router no hints"
    elif is_about_places(kind):
        most = 2 + WHEREABOUTS_BYTES_MAX if kind == WHEREABOUTS else CONTROL_BYTES_MAX
        if is_stranger:
            return Reason.NOT_AUTHORISED, "strangers neither say nor ask this router where others are"
    elif row.head.kind == MULTICAST:
        most = ADVERTISEMENT_BYTES_MAX
    elif kind == ANSWER:
        most = REPORT_BYTES_MAX + HEAD_BYTES
        if not is_awaited and (is_stranger or link.app or link.standing is Standing.LOCAL):
            return Reason.NOT_AUTHORISED, "only this router answers"
        if not is_awaited:
            return Reason.NOT_AUTHORISED, "nothing was asked to which this could be the answer"
    if size > most:
        return Reason.TOO_LARGE, f"{size} bytes for this router; of this kind it takes {most}"
    return None
