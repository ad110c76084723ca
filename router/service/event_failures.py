"""What becomes of each event on which a service's rules fail, so that one thing that goes wrong stops no other.

docs/services.md shows this as a table; an event that is not named here is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec.structs import replace

from router.core.wire.heard import Heard
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import discovery as d
from router.service.roles import overlay as o


class Remedy(Enum):
    """What becomes of an event on which rules fail; the text is what writers of services read."""

    RESTART = "The service is started again, with growing pauses: it cannot work without."
    END_STREAM = "The stream is closed, without what was not carried out; a datagram is passed over."
    ANSWER = "The question is answered with the cause."
    AGAIN = (
        "It is heard again after a pause, and by itself; after five failures (`node.service_attempts_max`) it is "
        "refused, `peer-refused`."
    )
    AGAIN_THEN_PASS = (
        "It is heard again after a pause; after five failures (`node.service_attempts_max`) it is passed over. The "
        "message's fate stands in the log: `router why` tells it."
    )
    AS_FAILED = (
        "It is heard once more, as a result that says `{said}`; if it said so already, or the rules fail on that too, "
        "it is passed over."
    )
    PASS = "It is passed over: {said}."
    COUNT = (
        "It is passed over: {said}. After five failures on this kind in a row the service is started again, then after "
        "ten, twenty and so on."
    )


EVENT_REMEDIES: Mapping[type[Heard], tuple[Remedy, str]] = {
    c.Started: (Remedy.RESTART, ""),
    c.Message: (Remedy.AGAIN, ""),
    c.Opened: (Remedy.END_STREAM, ""),
    c.Came: (Remedy.END_STREAM, ""),
    c.ConnectionFailed: (Remedy.PASS, "what was to be said over that stream is given up"),
    c.Joined: (Remedy.PASS, "it comes again when that changes, and in a new life of the service"),
    c.Sent: (Remedy.AGAIN_THEN_PASS, ""),
    c.HopOutcome: (Remedy.PASS, "the copy's fate stands in the log, and `router why` tells it"),
    c.Pulled: (Remedy.AS_FAILED, "wire=None"),
    c.Computed: (Remedy.AS_FAILED, "error=…"),
    c.Tick: (Remedy.COUNT, "another one comes after a pause, unless the rules ask for one before"),
    c.Asked: (Remedy.ANSWER, ""),
    c.Told: (Remedy.AS_FAILED, "error=…"),
    o.Wanted: (Remedy.COUNT, "it comes again until it is acknowledged"),
    o.NeighbourUnreachable: (Remedy.PASS, "it comes again with the next attempt that fails"),
    o.Signed: (Remedy.AS_FAILED, "error=…"),
    o.Attested: (Remedy.PASS, "the signature is not used"),
    o.Hinted: (Remedy.PASS, "these hints are not used"),
    o.SaidCaughtUp: (Remedy.PASS, "the app has been told in any case"),
    o.Dropped: (Remedy.PASS, "what is missing is found by other means"),
    o.HeldPage: (Remedy.AS_FAILED, "error=…"),
    o.Linked: (Remedy.COUNT, "a new life of the service hears of all who are connected"),
    o.Published: (Remedy.COUNT, "`ListHeld` names what was published"),
    o.PulledFrom: (Remedy.PASS, "a message that was asked for comes in any case, or not at all"),
    o.GroupsShared: (Remedy.COUNT, "all groups shared with a router are said again within the hour"),
    d.Interfaces: (Remedy.COUNT, "a new life of the service hears of all interfaces"),
    d.DialledBack: (Remedy.AS_FAILED, "reason=internal"),
    d.NeighbourAdded: (Remedy.PASS, "after some seconds the service goes on without it"),
    d.NeighbourLinked: (Remedy.COUNT, "a new life of the service hears of all who are connected"),
    d.Listening: (Remedy.COUNT, "a new life of the service asks for it again"),
}
"""What becomes of each event, and what its sentence says besides."""
OF_OTHERS = Remedy.PASS, "let the service ask again"


def remedy_of(kind: type[Heard]) -> Remedy:
    """Return what becomes of an event of this class."""
    return EVENT_REMEDIES.get(kind, OF_OTHERS)[0]


def sentence_of(kind: type[Heard]) -> str:
    """Return that as a sentence."""
    remedy, said = EVENT_REMEDIES.get(kind, OF_OTHERS)
    return remedy.value.format(said=said)


def as_failed(heard: Heard, cause: str) -> Heard | None:
    """Return the result as that of something which has failed; None if it says so already."""
    said = f"the service failed on its result: {cause}"
    match heard:
        case c.Computed(error="") | o.Signed(error="") | o.HeldPage(error=""):
            if isinstance(heard, c.Computed):
                return replace(heard, result=b"", error=said)
            if isinstance(heard, o.Signed):
                return replace(heard, message=b"", error=said)
            return o.HeldPage(heard.group, error=said, after=heard.after)
        case c.Told(error=""):
            return replace(heard, answer=None, error=said)
        case c.Pulled(wire=bytes()):
            return replace(heard, wire=None)
        case d.DialledBack(reason=None):
            return replace(heard, reason=Reason.INTERNAL, text=said)
    return None


def named(heard: Heard) -> str:
    """Return an event as warnings name it: its class, and the tag of the deed that led to it."""
    tag = getattr(heard, "tag", "")
    return f"{type(heard).__name__} of the tag {str(tag)[:60]!r}" if tag else type(heard).__name__
