"""What a service with the role `overlay` hears and does: it carries groups from node to node (R-C27 to R-C35).

Its verbs are files of `router/service/verbs/`; the router takes some of them from this role alone.
"""

from __future__ import annotations

import re

from router.core.wire.heard import Heard
from router.core.wire.hint import Hinted as Hinted
from router.core.wire.pubsub import Wanted as Wanted
from router.service.verbs.add_neighbour import NeighbourUnreachable as NeighbourUnreachable
from router.service.verbs.advertise import Advertise as Advertise
from router.service.verbs.advertise import Signed as Signed
from router.service.verbs.caught_up import CaughtUp as CaughtUp
from router.service.verbs.caught_up import SaidCaughtUp as SaidCaughtUp
from router.service.verbs.dial import Dial as Dial
from router.service.verbs.dropped import Dropped as Dropped
from router.service.verbs.fan_out import FanOut as FanOut
from router.service.verbs.held import HeldPage as HeldPage
from router.service.verbs.held import ListHeld as ListHeld
from router.service.verbs.linked import Linked as Linked
from router.service.verbs.published import Published as Published
from router.service.verbs.pull_from import PulledFrom as PulledFrom
from router.service.verbs.pull_from import PullFrom as PullFrom
from router.service.verbs.share_groups import GroupsShared as GroupsShared
from router.service.verbs.share_groups import ShareGroups as ShareGroups
from router.service.verbs.take_part import AckWanted as AckWanted
from router.service.verbs.take_part import TakePart as TakePart
from router.service.verbs.verb import Deed

LABEL = re.compile(r"upsycle [a-z ]+ [0-9]+")


class Attest(Deed, frozen=True):
    """Sign `label` and these bytes with the service's own key; `Attested` with the same tag brings the signature.

    A label reads like `upsycle interests 1`: nothing else that we sign begins like that (R-B7)."""

    label: str
    data: bytes
    tag: str = ""

    def signed(self) -> bytes:
        """Return the bytes to sign; raise ValueError if the label has another form."""
        if not LABEL.fullmatch(self.label):
            raise ValueError(f'"{self.label}" is no label of signed bytes; write one like "upsycle interests 1"')
        return self.label.encode() + self.data


class Attested(Heard, frozen=True):
    """The signature that the `Attest` with this tag asked for."""

    tag: str
    signature: bytes
