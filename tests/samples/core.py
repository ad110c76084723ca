"""Values of every noun of the core with fixed keys, shared by several tests."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from router.core.service.roles import Role
from router.core.wire import (
    address,
    advert,
    application,
    control,
    grouplink,
    hint,
    invitation,
    message,
    prekey,
    prekey_exchange,
    pubsub,
    redemption,
    renewal,
    succession,
    unicast_seal,
    whereabouts,
)
from router.core.wire import link_items as link
from router.core.wire.codec import decode, encode
from router.core.wire.crypto import MessageId, Signature, SigningKey
from router.core.wire.reasons import Reason
from router.core.wire.run_claim import LIFE_MAX, RunPlace, claim_run, stop_run


def value_of(data: bytes) -> Any:
    """Return the value that `data` encodes, without a limit on items but the number of its bytes."""
    return decode(data, len(data))


ROLES = {"discovery": Role.FINDER, "pubsub": Role.OVERLAY}
"""The roles of the services that have one, by the names that they have where nobody gives them another."""

ALICE, BOB, GROUP = (SigningKey(bytes((n,)) * 32) for n in (1, 2, 3))
CONTENT_KEY, NONCE, X25519_SEED, EPHEMERAL = b"k" * 32, b"n" * 24, b"x" * 32, b"e" * 32
IDS = tuple(MessageId(bytes((n,)) * 32) for n in range(100, 116))
EXPIRY_MIN = 3_100_000

UNICASTS = tuple(
    message.seal_unicast(ALICE, BOB.public, body, ttl_s=ttl_s, expiry_min=EXPIRY_MIN)
    for body, ttl_s in ((b"", 0), (b"x" * 23, 23), (b"x" * 24, 24), (b"x" * 255, 255), (b"x" * 256, 86_400))
)
MULTICASTS = tuple(
    message.seal_multicast(GROUP, body, ttl_s=3600, expiry_min=expiry_min, seen=IDS[:seen])
    for body, expiry_min, seen in (
        (b"", 0, 0),
        (b"hello", 65_535, 1),
        (b"x" * 1024, 65_536, 4),
        (b"x", 1, 16),
    )
)
BARE = UNICASTS + MULTICASTS
WIRES = BARE + tuple(message.with_via(wire, BOB.public) for wire in BARE)

CONTROLS: tuple[control.Control, ...] = (
    control.Carried(MULTICASTS[1]),
    control.Carried(message.with_via(MULTICASTS[2], BOB.public)),
    control.Join(GROUP.public, True),
    control.Join(GROUP.public, False),
    control.JoinAck(GROUP.public, True),
    control.JoinAck(GROUP.public, False),
    control.Leave(GROUP.public),
    control.LeaveAck(GROUP.public, True),
    control.LeaveAck(GROUP.public, False),
    control.Pull(GROUP.public, IDS[0]),
    control.Report(IDS[0], BOB.public, "expired", Reason.TTL_EXPIRED, 1_800_000_000),
    control.Report(IDS[0], BOB.public, "refused", 1000, 0),
    control.Report(IDS[0], BOB.public, "dropped", Reason.LEFT, (1 << 64) - 1),
)

WANTED = pubsub.Wanted(GROUP.public, True), pubsub.Wanted(GROUP.public, False)

HELLO = link.Hello(
    versions=(1,), role="router", epoch=b"epoch..8", durable=True, frame_bytes_max=1 << 20,
    window_messages=512, window_bytes=1 << 23, features=("outcome",), nonce=b"nonce.........16",
    key=ALICE.public, name="bakery",
)  # fmt: skip
ITEMS: tuple[link.Item, ...] = (
    HELLO,
    link.Hello((1, 2), "app", bytes(8), False, 0, 0, 0, (), bytes(16)),
    link.Hello((1,), "router", bytes(8), True, 1, 1, 1, (), bytes(16), run=link.Run(0, 1_800_000_000_000)),
    link.Hello(
        (1,),
        "router",
        bytes(8),
        True,
        1,
        1,
        1,
        (),
        bytes(16),
        run=link.Run(7, 9),
        claim=claim_run(ALICE, RunPlace(7, 9, bytes(8))),
    ),
    link.OtherRun(claim_run(ALICE, RunPlace(LIFE_MAX, (1 << 64) - 1, b"tag....8"))),
    link.StoppedRun(stop_run(ALICE, RunPlace(0, 1, bytes(8)), RunPlace(0, 1 << 63, b"tag....8"))),
    link.Proof(ALICE.sign(b"x")),
    link.Settled(0),
    link.Settled(23),
    link.Settled(24),
    link.Settled(256),
    link.Settled(1 << 16),
    link.Settled((1 << 64) - 1),
    link.Refused(7, Reason.BAD_SIGNATURE),
    link.Refused(1 << 32, 40_000, "the operator says: nein, danke"),
    link.Ping(1_800_000_000_000_000_000),
    link.Pong(1, 2, 3),
    link.Pong(1, 2, 3, link.LogHead(99, bytes(32))),
    link.Goodbye(Reason.SHUTDOWN),
    link.Goodbye(Reason.SHUTDOWN, "back in a minute"),
    link.Outcome(IDS[0], (link.RecipientOutcome(BOB.public, "delivered"),)),
    link.Outcome(
        IDS[0],
        (link.RecipientOutcome(3, "queued"), link.RecipientOutcome(BOB.public, "refused", Reason.BLOCKED)),
    ),
    link.Missed(GROUP.public, 3, IDS[0], IDS[1], Reason.TTL_EXPIRED),
    link.Missed(None, 1, IDS[0], IDS[0], Reason.QUEUE_FULL_RECIPIENT),
    link.Redelivered(12),
)

RENEWAL = renewal.make_renewal(ALICE, BOB, 1_800_000_000, 1_800_604_800)
WHEREABOUTS = whereabouts.make_whereabouts(
    ALICE,
    [
        whereabouts.DatedAddress(address.parse_address("tls://new.example:4101"), 1_800_000_000),
        whereabouts.DatedAddress(address.parse_address("tls://203.0.113.7:4101"), 5),
    ],
    1_800_000_000_000,
)
ABOUT_PLACES: tuple[whereabouts.Whereabouts | whereabouts.AskWhereabouts, ...] = (
    WHEREABOUTS,
    whereabouts.AskWhereabouts(BOB.public),
)
SUCCESSION = succession.make_succession(ALICE, BOB, 1_800_000_000, 1_802_592_000)
PREKEY = prekey.make_prekey(BOB, X25519_SEED)
CONTENT_KEYS = {application.content_key_id(CONTENT_KEY): CONTENT_KEY}
PREKEY_SEEDS = {PREKEY.id: X25519_SEED}
SEALED = application.seal(ALICE, GROUP.public, 5, IDS[:2], b"hello", content_key=CONTENT_KEY, nonce=NONCE)
UNTIL_MIN = EXPIRY_MIN + 8 * 1440
DATED_PREKEY = prekey.make_prekey(BOB, X25519_SEED, UNTIL_MIN)
ALICES_PREKEY = prekey.make_prekey(ALICE, b"y" * 32, UNTIL_MIN)
SEALING_KEY = unicast_seal.sealing_key(DATED_PREKEY, EPHEMERAL)
SEALED_BODIES = tuple(
    unicast_seal.seal_body(SEALING_KEY, ALICE.public, BOB.public, 7, b"psst", nonce=NONCE, prekey=mine)
    for mine in (None, ALICES_PREKEY)
)
SEALED_PLAINS = encode([7, [1, b"psst"]]), encode([7, [17, [b"psst", prekey.prekey_fields(ALICES_PREKEY)]]])
PREKEY_ANSWERS = prekey_exchange.encode_answer(DATED_PREKEY), prekey_exchange.encode_answer(None)
SEALED_TO_BOB = application.seal_to(PREKEY, ALICE, 0, (), b"psst", ephemeral_seed=EPHEMERAL)
APPLICATIONS = (
    application.encode_application(ALICE, GROUP.public, 0, IDS[:1], application.ACK, b""),
    application.encode_application(ALICE, GROUP.public, 1, (), application.UNICAST, b"u"),
    application.encode_application(ALICE, GROUP.public, 1 << 40, IDS, application.MULTICAST, b"m" * 300),
    application.encode_application(ALICE, GROUP.public, 2, (), application.MEMBER_ADD, b"\xa1\x63mem\x80"),
    application.encode_application(ALICE, GROUP.public, 3, (), 15, b"\xf6"),
)

ADDRESSES = tuple(
    address.parse_address(url)
    for url in (
        "tls://198.51.100.7:4101",
        "tls://[2001:db8::7]:4101",
        "tls://router.example.org:443",
        "wss://example.org/router",
    )
)

LINKS = (
    grouplink.new_group(GROUP.seed, CONTENT_KEY, "bread & roses"),
    grouplink.new_group(GROUP.seed, CONTENT_KEY).read_only(),
    replace(
        grouplink.new_group(GROUP.seed, CONTENT_KEY),
        hints=(hint.Hint(ALICE.public, ADDRESSES[:1]), hint.Hint(BOB.public, ADDRESSES[1:3])),
    ),
)

HINTS = (
    hint.encode_hint(hint.Hinted(GROUP.public, LINKS[2].hints), hint.TO_ROUTER),
    hint.encode_hint(hint.Hinted(BOB.public, LINKS[2].hints[:1]), hint.TO_SERVICE),
)

RIGHTS = ("join", "store", "relay")
ADVERTISEMENTS = (
    advert.make_advertisement(ALICE, ADDRESSES[:1], rev=1_790_000_000_000, expiry_min=EXPIRY_MIN),
    advert.make_advertisement(
        BOB, ADDRESSES[:3], services={"discovery": ALICE.public, "pubsub": GROUP.public}, groups=[GROUP.public],
        rev=0, ttl_s=0, expiry_min=0,
    ),
)  # fmt: skip
INVITATIONS = (
    invitation.make_invitation(ALICE, ADDRESSES[:1], b"i" * 16, expiry_min=EXPIRY_MIN, rights=["why"]),
    invitation.make_invitation(
        ALICE, ADDRESSES[:2], b"j" * 16, expiry_min=0, rights=RIGHTS, name="bakery", group=LINKS[0]
    ),
    invitation.make_invitation(ALICE, ADDRESSES[2:3], b"k" * 16, expiry_min=EXPIRY_MIN, rights=RIGHTS, group=LINKS[1]),
)

REDEMPTIONS: tuple[redemption.Redemption, ...] = (
    redemption.Redeem(b"i" * 16),
    redemption.Redeem(b"i" * 16, "Bob's laptop"),
    redemption.Redeemed(b"i" * 16, None, RIGHTS, EXPIRY_MIN),
    redemption.Redeemed(b"i" * 16, None, ("why",)),
    redemption.Redeemed(b"i" * 16, 194),
    redemption.Redeemed(b"i" * 16, None, RIGHTS, 0, True),
    redemption.AskTerms(),
    redemption.Terms(None, RIGHTS, EXPIRY_MIN),
    redemption.Terms(198, (), EXPIRY_MIN),
)

NO_SIGNATURE = Signature(bytes(64))
