"""How much was asked of all peers, and how much they brought: the counters of a dmq-node's consumer side, by its names
(docs/dmq.md, "Metrics")."""

from __future__ import annotations

from msgspec import Struct


class FetchCounts(Struct):
    """Requests for ids and for bodies, their replies, and what both have named, since the start of the node.

    `blocking`, `pipelined`: the requests for ids that block, and those that do not; `bodies_omitted`: bodies that were
    requested and are missing in the reply."""

    blocking: int = 0
    pipelined: int = 0
    ids_requested: int = 0
    id_replies: int = 0
    ids_received: int = 0
    body_requests: int = 0
    bodies_requested: int = 0
    body_replies: int = 0
    bodies_received: int = 0
    bodies_omitted: int = 0
