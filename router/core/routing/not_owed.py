"""Reasons why a message was not owed to LAN neighbours that share its group, for `router why` (R-C25)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from router.core.neighbours.directory import Directory, Standing

from .groups import Groups

OF_AN_UPLINK = "an uplink brought the message, and what an uplink brings goes to no LAN neighbour"
OF_ANOTHER = "a LAN neighbour brought the message, and it brings its messages itself to all that share the group"
OF_A_ROUTER = "another router brought the message, and LAN neighbours get what is published on this node"
NOT_JOINED = "it has not joined the group here"
NOT_THEN = "it had not joined the group when the message was accepted"


def lan_not_owed(
    directory: Directory, groups: Groups, group: bytes, brought_by: bytes, recipients: Collection[bytes]
) -> Iterator[tuple[bytes, str]]:
    """Yield each LAN neighbour that shares the group now and was not owed the message, with the reason.

    Neighbours that shared the group when the message was accepted, but do not now, are left out."""
    if brought_by in directory.uplinks:
        cause = OF_AN_UPLINK
    elif directory.is_lan(brought_by, group):
        cause = OF_ANOTHER
    else:
        is_router = directory.standing(brought_by, owner=False) in (Standing.PEER, Standing.MET)
        cause = OF_A_ROUTER if is_router else ""
    for key in directory.lan_sharing(group):
        if key != brought_by and key not in recipients:
            yield key, cause or (NOT_THEN if groups.get(group, key) else NOT_JOINED)
