"""What seals an app's unicasts and opens those of others: its own prekeys, its correspondents, and the keys that are in
use with each (pure). Each decision returns with the rows to write.

One ephemeral key serves several messages to a correspondent; both ends remember what it shares with the prekey, as long
as the prekey lives.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from router.client.sealing.correspondents import CorrespondentLimits, Correspondents, Verdict, Writing
from router.client.sealing.own_prekeys import OwnPrekeys, PrekeyLimits
from router.client.sealing.rows import CORRESPONDENTS, OWN_PREKEYS, RENEWALS, Kept, PrekeyRow, PrekeyRows
from router.core.neighbours.renewals import RENEWALS_MAX, Renewals, RenewalVerdict
from router.core.wire.application import NONCE_BYTES, UnknownContentKey
from router.core.wire.crypto import KEY_BYTES, PublicKey, SigningKey
from router.core.wire.lifetime import expiry_s
from router.core.wire.prekey import Prekey
from router.core.wire.renewal import Renewal, decode_renewal, encode_renewal
from router.core.wire.unicast_seal import (
    OpenedBody,
    SealingKey,
    open_body,
    opening_key,
    read_body,
    seal_body,
    sealing_key,
)

STRANGERS_MAX = RENEWALS_MAX // 2
"""The most renewals that are believed of addresses which have only written to this app: as none is ever forgotten,
strangers could otherwise leave no room for those of whom this app writes to."""


class SealingLimits(Struct, frozen=True):
    """`messages_max`: how many messages one ephemeral key seals. `keys_max`: most keys remembered, of each side."""

    messages_max: int = 1024
    keys_max: int = 1024


class UnknownPrekey(UnknownContentKey):
    """A body is sealed to a prekey that is not ours, or was forgotten at its end."""


@dataclass(slots=True)
class _KeyInUse:
    """A key to seal with, how many messages it may still seal, and the id of the own prekey that one of them has
    brought."""

    key: SealingKey
    until_min: int
    left: int
    brought: bytes = b""


@dataclass(slots=True)
class OpenedUnicast:
    """An opened message; `verdict` is None unless it brought a prekey; `rows` are to be written. `needs_prekey`: it is
    sealed to a prekey that is no longer given out, so its sender needs the one of today."""

    message: OpenedBody
    verdict: Verdict | None = None
    rows: list[PrekeyRow] = field(default_factory=list)
    needs_prekey: bool = False


class UnicastSealing:
    """Seals and opens for one key. `entropy` returns random bytes; `mine`: the renewals by which that key has taken the
    place of earlier ones, the newest last."""

    def __init__(
        self,
        key: SigningKey,
        kept: PrekeyRows,
        entropy: Callable[[int], bytes],
        limits: SealingLimits | None = None,
        correspondents: CorrespondentLimits | None = None,
        prekeys: PrekeyLimits | None = None,
        mine: Sequence[Renewal] = (),
    ) -> None:
        self._key = key
        self.mine = tuple(mine)
        self._kept, self._prekeys = kept, prekeys
        self._entropy = entropy
        self._limits = limits or SealingLimits()
        self.own = self._own_in(kept.under(OWN_PREKEYS))
        self.renewals = Renewals(decode_renewal(statement) for _, statement in kept.under(RENEWALS))
        self._of_strangers = len(self.renewals) - len(kept.written_to([one.old for one in self.renewals]))
        known = kept.under(CORRESPONDENTS)
        self.correspondents = Correspondents(
            known, correspondents, prekeys, kept.written_to([address for address, _ in known])
        )
        self._sealing: OrderedDict[tuple[PublicKey, bytes], _KeyInUse] = OrderedDict()
        self._opening: OrderedDict[tuple[bytes, bytes], bytes] = OrderedDict()

    def __repr__(self) -> str:
        return f"<sealing with {self.own!r}, {self.correspondents!r}>"

    # -- own prekeys ---------------------------------------------------------------------------------------

    def tick(self, now_min: int) -> list[PrekeyRow]:
        """Forget what has ended, with the keys that were made of it: own secrets on the disk, too, once this returns.
        Return the other rows to write."""
        if self.own.has_ended(now_min):
            self._change_own(lambda own: own.forget_ended(now_min), now_min)
        for in_use in [one for one, key in self._sealing.items() if key.until_min <= now_min]:
            del self._sealing[in_use]
        self._forget_opening(now_min)
        return self.correspondents.forget_ended(now_min)

    def renew(self, now_min: int) -> None:
        """Make a new prekey if there is none of today, and write it, before it is given out."""
        if self.own.is_due(now_min):
            seed = self._entropy(KEY_BYTES)
            self._change_own(lambda own: own.renew(now_min, seed) if own.is_due(now_min) else [], now_min)

    def _change_own(self, decide: Callable[[OwnPrekeys], list[PrekeyRow]], now_min: int) -> None:
        """Write what is decided of the prekeys on disk, among which another process of this name may have made some,
        and forgotten others, since they were read."""
        own = self.own

        def decided(kept: Kept) -> list[PrekeyRow]:
            nonlocal own
            own = self._own_in(kept)
            return decide(own)

        self._kept.change(OWN_PREKEYS, decided)
        self.own = own
        self._forget_opening(now_min)

    def _forget_opening(self, now_min: int) -> None:
        for one in [one for one in self._opening if self.own.seed_of(one[0], now_min) is None]:
            del self._opening[one]

    def current(self) -> Prekey:
        """Return the prekey to give out; `renew` has made it."""
        found = self.own.current()
        assert found is not None, "no prekey has been made"
        return found.prekey

    def _read_again(self) -> OwnPrekeys:
        """Read the own prekeys again: another process of this name may have made one."""
        kept = self._kept.under(OWN_PREKEYS)
        if kept != self.own.rows:
            self.own = self._own_in(kept)
        return self.own

    def _own_in(self, kept: Kept) -> OwnPrekeys:
        """Return the prekeys in these rows; one that an earlier key has given out is given out no more."""
        since_s = max((one.from_s for one in self.mine), default=0)
        return OwnPrekeys(self._key, kept, self._prekeys, since_s)

    # -- renewals ------------------------------------------------------------------------------------------

    def sign_by(self, key: SigningKey, mine: Sequence[Renewal]) -> None:
        """Seal and open for another key, which has taken the place of this one."""
        self._key, self.mine = key, tuple(mine)
        self._sealing.clear()  # the first message under each new one brings our prekey, signed by this key
        self.own = self._own_in(self._kept.under(OWN_PREKEYS))

    def is_former(self, address: PublicKey) -> bool:
        """Whether an address was ours, and its key was renewed."""
        return any(one.old == address for one in self.mine)

    def newest(self, address: PublicKey) -> PublicKey:
        """Return the address that has the place of this one, as far as we were told."""
        return PublicKey(self.renewals.newest(address))

    def renewed(self, said: Renewal, now_min: int) -> tuple[RenewalVerdict, list[PrekeyRow]]:
        """Judge the news that a correspondent's key was renewed; return the rows to write."""
        is_stranger = not self._kept.written_to([said.old])
        if is_stranger and said.old not in self.renewals and self._of_strangers >= STRANGERS_MAX:
            return RenewalVerdict.FULL, []
        verdict = self.renewals.hear(said, expiry_s(now_min))
        if verdict is not RenewalVerdict.NEWS:
            return verdict, []
        self._of_strangers += is_stranger
        expected = self.correspondents.expects(self.newest(said.new), now_min)  # its prekey comes with the news
        return verdict, [PrekeyRow(RENEWALS, said.old, encode_renewal(said)), *expected]

    # -- sealing -------------------------------------------------------------------------------------------

    def prekey_of(self, to: PublicKey, now_min: int) -> Prekey | Writing:
        """Return the prekey to seal with, or how else to write to this address. One's own address has one's own prekey,
        which `renew` has made."""
        to = self.newest(to)
        return self.current() if to == self._key.public else self.correspondents.prekey_of(to, now_min)

    def seal(self, prekey: Prekey, seq: int, content: bytes) -> bytes:
        """Return the body of a message to the owner of a prekey, which was judged when it came. The first one under
        each ephemeral key brings our own prekey, as does the first one after that was renewed."""
        mine, to, in_use = self.current(), prekey.owner, self._key_for(prekey)
        is_known = to == self._key.public or in_use.brought == mine.id
        in_use.brought = mine.id
        nonce = self._entropy(NONCE_BYTES)
        return seal_body(in_use.key, self._key.public, to, seq, content, nonce=nonce, prekey=None if is_known else mine)

    def _key_for(self, prekey: Prekey) -> _KeyInUse:
        place = prekey.owner, prekey.x25519  # who signs another's X25519 key as its own shares nothing with it
        in_use = self._sealing.get(place)
        if in_use is None or not in_use.left:
            made = sealing_key(prekey, self._entropy(KEY_BYTES))
            in_use = self._sealing[place] = _KeyInUse(made, prekey.until_min or 0, self._limits.messages_max)
        self._sealing.move_to_end(place)
        if len(self._sealing) > self._limits.keys_max:
            self._sealing.popitem(last=False)
        in_use.left -= 1
        return in_use

    # -- opening -------------------------------------------------------------------------------------------

    def open(self, body: bytes, source: PublicKey, now_min: int, destination: PublicKey | None = None) -> OpenedUnicast:
        """Return what `source` has sealed to us, or to a former address of ours (`destination`). Raise `Malformed`, or
        a `SealError` such as `UnknownPrekey`."""
        sealed = read_body(body)
        place = sealed.prekey_id, sealed.ephemeral
        secret = self._opening.get(place)
        is_new = secret is None
        if secret is None:
            seed = self.own.seed_of(sealed.prekey_id, now_min) or self._read_again().seed_of(sealed.prekey_id, now_min)
            if seed is None:
                said = f"it is sealed to the prekey {sealed.prekey_id.hex()}, which is not ours, or no longer"
                raise UnknownPrekey(f"{said}; the sender gets the one of today, and should send it again")
            secret = opening_key(seed, sealed.ephemeral)
        to = destination if destination is not None and self.is_former(destination) else self._key.public
        message = open_body(sealed, secret, source, to)
        if is_new:
            self._opening[place] = secret
            if len(self._opening) > self._limits.keys_max:
                self._opening.popitem(last=False)
        if source == self._key.public:
            return OpenedUnicast(message)
        opened = OpenedUnicast(message, needs_prekey=self.own.is_given_out_no_more(sealed.prekey_id, now_min))
        if message.prekey is not None:
            opened.verdict, opened.rows = self.correspondents.brought(source, message.prekey, now_min)
        return opened
