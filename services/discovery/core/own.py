"""The advertisement of this node's own router: requested at the start, and signed again in time (R-D24)."""

from __future__ import annotations

from router.core.wire.advert import decode_advertisement
from router.service import contract as c
from router.service.roles import discovery as d
from services.discovery.core.known import Known

RENEW_S = 8 * 3600
AGAIN_S = 60
TAG = "own"


class Own:
    """Keeps `Known.own` fresh. Without an address where others reach the node there is none, and it is requested again
    each minute."""

    def __init__(self, known: Known) -> None:
        self._known = known

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        match heard:
            case c.Started() | c.Tick():
                return [d.Advertise(tag=TAG), c.Wake(now.wall_s + AGAIN_S)]
            case d.Signed(tag=c_tag, message=message) if c_tag == TAG and message:
                self._known.own = decode_advertisement(message)
                return [c.Wake(now.wall_s + RENEW_S)]
        return []
