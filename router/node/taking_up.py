"""What a router takes up when its node starts, besides what its store holds: files of the home, and words to the
operator about what was found."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from router.core.link.session import Offer
from router.core.router import Router
from router.core.routing.recovered import Recovered
from router.core.service.roles import Role
from router.core.wire.admin import ALL_NUMBERED, KNOWN_TOLD, NUMBERED
from router.core.wire.crypto import PublicKey
from router.core.wire.link_items import Run
from router.core.wire.now import Now
from router.core.wire.run_claim import TAG_BYTES, RunClaim
from router.core.wire.succession import Former, formers
from router.node.guest import InvitationFiles
from router.node.key_files import KeyFiles
from router.settings import config_guests, own_successions
from router.settings.config import Config

log = logging.getLogger(__name__)


def take_up(
    router: Router, config_path: Path, keys: Path, guest: InvitationFiles, key_files: KeyFiles, now: Now
) -> tuple[RunClaim | None, tuple[Former, ...]]:
    """Give the router what the home's files say, and warn of what is wrong. Return what its hello claims of this run,
    None on a barred node, and the statements by which its key has followed others. `keys`: the folder of keys."""
    router.redeeming.given(guest.offers(), now, guest.inviters())
    router.guests.started(config_guests.digest_of(config_path), now)
    for key in router.moving.damaged:
        log.warning("%s", _damaged_whereabouts(key))
    if router.copies.problem:
        log.warning("%s", router.copies.problem)
    for problem in router.renewing.resume(key_files.begun(), now):
        log.warning("%s", problem)
    chain = own_successions.load(keys, PublicKey(router.directory.me))
    for one in chain:
        router.renewing.hear(one, now)
    router.renewing.carry_out(now)  # before anything is decided by the present key
    return router.copies.begin(os.urandom(TAG_BYTES), now), formers(chain)


def offer_to_all(
    config: Config,
    recovered: Recovered,
    claim: RunClaim | None,
    was: tuple[Former, ...],
    public: Callable[[Role], PublicKey | None],
) -> Offer:
    """Return the beginning of every link of this run, without what differs from one link to the next. `claim`: None of
    a barred node; `public`: returns its public service with a role."""
    return Offer(
        "router",
        recovered.epoch,
        config.store.durability == "synced",
        config.limits.window_messages,
        config.limits.window_bytes,
        b"",
        config.limits.frame_bytes_max,
        (NUMBERED, ALL_NUMBERED, KNOWN_TOLD),
        pubsub=public(Role.OVERLAY),
        discovery=public(Role.FINDER),
        run=None if claim is None else Run(claim.run.life, claim.run.start_ms),
        claim=claim,
        was=was,
    )


def _damaged_whereabouts(key: bytes) -> str:
    said = f"what the router {key.hex()[:16]}… had said of its addresses is damaged in the store, or of a later version"
    return f"{said}: it is left out until that router says it again"
