"""The reasons why a CAPD pool turns a message away, holds it no longer, or ends a connection."""

from __future__ import annotations

from router.core.wire.reasons import Reason, reason_from

BAD_WORK = Reason.declare(128, "capd:bad-work", "The message's work is not done: its id is not below its target.")
BELOW_LINE = Reason.declare(
    129, "capd:below-line", "The message's priority is below what the pool takes now: do more work."
)
FUTURE = Reason.declare(
    130, "capd:future", "The message says that it is from the future: set the clock, or date it back a few seconds."
)
TOO_LARGE = Reason.declare(131, "capd:too-large", "The message has more data than the pool takes in one.")
MALFORMED = Reason.declare(132, "capd:malformed", "The bytes are no CAPD message.")
DISPLACED = Reason.declare(133, "capd:displaced", "Messages of higher priority took the message's place in the pool.")
EXPIRED = Reason.declare(134, "capd:expired", "The message's own expiration has come.")
RESCINDED = Reason.declare(135, "capd:rescinded", "Its sender has rescinded the message.")
FADED = Reason.declare(136, "capd:faded", "The message was ten minutes old, so its priority was used up.")
TOO_MANY_QUERIES = Reason.declare(
    137, "capd:too-many-queries", "The pool keeps no more standing queries: end one, or ask again later."
)
NOT_A_PEER = Reason.declare(
    138, "capd:not-a-peer", "Only the pools that its settings name as peers may reconcile with the pool."
)
TOO_FAST = Reason.declare(
    139, "capd:too-fast", "The peer asks for more work than one may in this time: it is dealt with later.", later=True
)
NO_SUCH_QUERY = Reason.declare(140, "capd:no-such-query", "The asker has no such standing query, or it is over.")
NOT_ASKED = Reason.declare(
    141, "capd:not-asked", "The neighbour has answered with a message that it was not asked for."
)
NO_SUCH_SECRET = Reason.declare(142, "capd:no-such-secret", "The pool holds no message that the secret rescinds.")

# The reasons why a connection to a neighbour is refused or ended.
WRONG_NETWORK = Reason.declare(
    150, "capd:wrong-network", "The neighbour speaks on another network: compare the settings of both."
)
BAD_PACKET = Reason.declare(151, "capd:bad-packet", "The neighbour's bytes are no packet of Nexa nodes.")
OUT_OF_TURN = Reason.declare(152, "capd:out-of-turn", "The neighbour said what has no place there.")
NO_POOL = Reason.declare(153, "capd:no-pool", "The neighbour says that it has no CAPD pool.")
TOO_SLOW = Reason.declare(154, "capd:too-slow", "The neighbour began to say something and did not end it in time.")
DOES_NOT_READ = Reason.declare(155, "capd:does-not-read", "The neighbour has not answered a ping in time.")
TOO_MANY = Reason.declare(156, "capd:too-many", "So many connections are open already: try later.", later=True)
BANNED = Reason.declare(157, "capd:banned", "Connections of this address are not taken, for what came from it before.")
MISBEHAVED = Reason.declare(158, "capd:misbehaved", "The neighbour has sent too much that is below the line.")
ASKS_TOO_MUCH = Reason.declare(159, "capd:asks-too-much", "The neighbour asks for more work than one may.")
ITSELF = Reason.declare(160, "capd:itself", "The connection leads back to this node: take it out of `connect`.")
UNREACHED = Reason.declare(161, "capd:unreached", "Nobody answers at the address.")
GONE = Reason.declare(162, "capd:gone", "The neighbour has closed the connection.")


def of(number: int) -> Reason:
    """Return the reason that an answer of a pool names by its number: one of these, or one of the router's."""
    return reason_from(number)
