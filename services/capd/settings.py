"""The settings of a CAPD pool: in the sample, judged by `config check`, shown by `config show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from router.service.settings import Struct, about, span

from .core.limits import PoolLimits

_POOL = PoolLimits()
POOL_BYTES_MAX = 1 << 34


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A pool of messages that are paid for by work (CAPD)."""

    def warnings(self, name: str, *, is_public: bool) -> Iterator[str]:
        """Yield what a pool can run with and hardly is meant to."""
        if self.profile == "compat" and self.data_bytes_max != _POOL.data_bytes_max:
            yield f'services.{name}.data_bytes_max has no effect under the profile "compat", which has no such limit'

    profile: Annotated[
        Literal["strict", "compat"],
        about(
            'How the pool takes and loses messages: "compat" as a Nexa node does, with its faults; "strict" ranks by '
            "current priority, honours expiration, and has a size limit."
        ),
    ] = "strict"
    pool_bytes: Annotated[
        int, span(4096, POOL_BYTES_MAX, "Bytes of the pool at most; a message counts with 128 and its data.")
    ] = _POOL.bytes_max
    data_bytes_max: Annotated[
        int, span(128, 900_000, "Bytes of data in one message at most, and never more than an eighth of the pool.")
    ] = _POOL.data_bytes_max
