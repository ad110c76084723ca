"""The settings of the pub/sub service: in the sample, judged by `config check`, shown by `config show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from router.service.settings import Struct, about, span
from services.pubsub.core.rings.overlay import OverlayLimits
from services.pubsub.core.sending.forwarding import ForwardingLimits

_COPIES = ForwardingLimits()


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Publish-subscribe: groups beyond this node and its neighbours."""

    def warnings(self, name: str, *, is_public: bool, has_neighbours: bool) -> Iterator[str]:
        """Yield warnings about who may send to the service: other cores must be allowed to, and at a leaf nobody needs
        it."""
        if self.mode == "overlay" and not is_public:
            said = f'services.{name}.mode is "overlay", but node.services_public does not name "{name}": cores '
            said += "that are no neighbours in router.toml "
            yield f'{said}cannot send to it, so groups get nothing from them; add "{name}" to node.services_public'
        if self.mode == "leaf" and is_public:
            said = f'services.{name}.mode is "leaf", but node.services_public names "{name}": strangers may send to a '
            remedy = f'take "{name}" out of node.services_public, or set mode = "overlay" on a core'
            yield f"{said}service that has no use for it; {remedy}"

    mode: Annotated[
        Literal["leaf", "overlay"],
        about(
            'What this node does for its groups: as "overlay" it finds the other routers that want them and forwards '
            'messages to them, as core nodes do; as "leaf" it forwards nothing, and catches up with its uplinks.'
        ),
    ] = "leaf"
    period_s: Annotated[
        float, span(0.1, 3600.0, "The time between two questions about the rings, give or take a quarter.")
    ] = OverlayLimits().period_s
    fanout: Annotated[
        int, span(2, 10, "To how many neighbours a message goes on: the next on both sides of the ring, and others.")
    ] = _COPIES.fanout
    fanout_s: Annotated[
        float,
        span(
            1.0, 86_400.0,
            "How long after the last message published here a group that nobody here reads is looked for elsewhere; "
            "longer while a message waits for a node that takes it.",
        ),
    ] = 120.0  # fmt: skip
    failover_s: Annotated[
        float, span(0.1, 60.0, "How long a neighbour has to take a message before it goes to another as well.")
    ] = _COPIES.failover_s
    large_bytes: Annotated[
        int, span(1024, 1 << 30, "From this size on only neighbours on the ring are sent a message; others its id.")
    ] = _COPIES.large_bytes
