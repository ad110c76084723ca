"""The reasons for which a DMQ node rejects a message; the reference's name of each is in `core/fault.py`."""

from __future__ import annotations

from router.core.wire.reasons import Reason

DUPLICATE = Reason.declare(64, "dmq:duplicate", "The DMQ node holds a message with this id already.")
EXPIRED = Reason.declare(65, "dmq:expired", "The message's expiry has passed by the clock of the DMQ node.")
EXPIRY_TOO_FAR = Reason.declare(
    66, "dmq:expiry-too-far", "The message's expiry lies further ahead than the topic allows."
)
TOO_FREQUENT = Reason.declare(67, "dmq:too-frequent", "The pool's last message is too recent.")
WRONG_ID = Reason.declare(68, "dmq:wrong-id", "The message's id is not the digest of what it stands for.")
CERTIFICATE_ENDED = Reason.declare(
    69, "dmq:certificate-ended", "The KES period lies after those of the operational certificate: issue a new one."
)
CERTIFICATE_NOT_BEGUN = Reason.declare(
    70, "dmq:certificate-not-begun", "The KES period lies before the operational certificate's first."
)
UNKNOWN_POOL = Reason.declare(
    71,
    "dmq:unknown-pool",
    "The stake distribution does not hold the pool: a pool is in it from the second epoch after its registration on, "
    "and an older snapshot lacks it; the node's operator takes a new one in each epoch.",
)
STAKE_MISSING = Reason.declare(
    72,
    "dmq:stake-missing",
    "The node has no stake distribution yet: its operator names one with --stake, or reads in `router dmq status` why "
    "none can be read.",
    later=True,
)
NO_STAKE = Reason.declare(
    73, "dmq:no-stake", "The pool has no active stake in this epoch: what is delegated counts from the second epoch on."
)
OLD_CERTIFICATE = Reason.declare(
    74, "dmq:old-certificate", "The pool has sent a message with a later operational certificate before."
)
BAD_CERTIFICATE = Reason.declare(
    75, "dmq:bad-certificate", "The cold key's signature of the operational certificate is wrong."
)
BAD_SIGNATURE = Reason.declare(76, "dmq:bad-signature", "The KES signature of the message is wrong.")
TTL_TOO_LARGE = Reason.declare(77, "dmq:ttl-too-large", "The message's ttl is longer than the topic allows.")
MEMPOOL_FULL = Reason.declare(78, "dmq:mempool-full", "The mempool of the node is full.", later=True)
POOL_FULL = Reason.declare(79, "dmq:pool-full", "The pool's share of the mempool is full.", later=True)
PACE_FULL = Reason.declare(
    80, "dmq:pace-full", "Too many messages of the pool wait until other nodes may hear of them.", later=True
)
DISK_FULL = Reason.declare(
    83, "dmq:disk-full", "The disk of the node is nearly full: it takes no message until there is room.", later=True
)
SET_ASIDE = Reason.declare(
    81, "dmq:set-aside", "The message alone broke the consumer off three times; router dmq again gives it once more."
)
SPACING = Reason.declare(
    84, "dmq:spacing", "The message expired before another node would take it: nodes take one of a pool a minute."
)
CONSUMER_GONE = Reason.declare(82, "dmq:consumer-gone", "The configuration names the consumer no more.")
