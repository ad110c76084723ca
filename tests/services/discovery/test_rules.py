"""Discovery by value: its own advertisement, the nodes it asks, the entries it accepts and those it announces."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from router.core.wire.address import parse_address
from router.core.wire.advert import Advertisement, decode_advertisement, make_advertisement
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.invitation import make_invitation
from router.core.wire.lifetime import expiry_min
from router.core.wire.reasons import Reason
from router.core.wire.text import BadText
from router.service import contract as c
from router.service.roles import discovery as d
from services.discovery.core.exchanges import ANNOUNCE_AGAIN_S
from services.discovery.core.messages import Entry, Sample, Sampled, decode_message, encode_message
from services.discovery.core.own import AGAIN_S, RENEW_S
from services.discovery.rules import Discovery
from services.discovery.settings import Settings

NOW = c.Now(1_800_000_000, 1_000)


class Node:
    """A router, its discovery service, and the addresses that it claims to have."""

    def __init__(self, number: int, url: str = "") -> None:
        self.router = SigningKey(bytes((1, number)) * 16)
        self.service = SigningKey(bytes((2, number)) * 16)
        self.url = url or f"tls://45.0.{number}.1:4100"

    def advert(self, rev: int = 1, life_s: int = 86_400, **more: Any) -> Advertisement:
        services = {"discovery": self.service.public}
        address, expiry = parse_address(self.url), expiry_min(NOW.wall_s + life_s)
        return make_advertisement(self.router, [address], services=services, rev=rev, expiry_min=expiry, **more)


ME, FIRST, SECOND, THIRD = (Node(number) for number in range(4))
AT = [parse_address(FIRST.url)]
EXPIRY = expiry_min(NOW.wall_s + 60)
SILENT = make_advertisement(FIRST.router, AT, rev=1, expiry_min=EXPIRY).text()
INVITATION = make_invitation(FIRST.router, AT, bytes(16), rights=("join",), expiry_min=EXPIRY).text()


class Rules:
    """The rules of ME, and their kept state."""

    def __init__(self, kept: dict[bytes, bytes] | None = None, **settings: Any) -> None:
        self.kept = kept if kept is not None else {}
        setup = c.Setup("discovery", ME.service.public, Settings(sampling=True, **settings), self.kept, Random(1))
        self.rules = Discovery(setup)
        self.seconds = 0.0

    def hear(self, heard: c.Heard) -> list[c.Deed]:
        deeds = self.rules.hear(heard, c.Now(NOW.wall_s + self.seconds, NOW.mono_s + self.seconds))
        for deed in deeds:
            if isinstance(deed, c.Put):
                self.kept.pop(deed.key, None)
                self.kept.update({deed.key: deed.value} if deed.value is not None else {})
        return deeds

    def begin(self) -> list[c.Deed]:
        return [*self.hear(c.Started(ME.router.public)), *self.hear(d.Signed("own", ME.advert().message))]

    def pass_time(self, seconds: float) -> list[c.Deed]:
        self.seconds += seconds
        return self.hear(c.Tick())

    def period(self) -> list[c.Deed]:
        """Let a period begin, and let the partner answer."""
        deeds = self.pass_time(20)
        for one in (FIRST, SECOND, THIRD):
            if one.router.public in asked(deeds):
                self.said(one, [], answer=True)
        return deeds

    def said(
        self, by: Node, view: list[tuple[int, Advertisement]], *, answer: bool = False, source: PublicKey | None = None
    ) -> list[c.Deed]:
        body = encode_message((Sampled if answer else Sample)(tuple(Entry(*one) for one in view)))
        source = source or by.service.public
        return self.hear(c.Message(MessageId(bytes(32)), body, source=source, via=by.router.public))


def of(kind: type[Any], deeds: list[c.Deed]) -> list[Any]:
    return [one for one in deeds if isinstance(one, kind)]


def asked(deeds: list[c.Deed]) -> list[PublicKey | None]:
    return [one.via for one in of(c.Send, deeds)]


def announced(deeds: list[c.Deed]) -> list[PublicKey]:
    return [decode_advertisement(one.body).router for one in of(c.Publish, deeds)]


def test_it_has_the_router_sign_its_advertisement_and_sign_it_anew_in_time() -> None:
    one = Rules()
    assert of(d.Advertise, one.hear(c.Started(ME.router.public))) == [d.Advertise(tag="own")]
    one.hear(d.Signed("own", error="nowhere"))
    assert of(d.Advertise, one.pass_time(AGAIN_S)), "it asks again, as the node may be reached by now"
    one.hear(d.Signed("own", ME.advert().message))
    assert one.rules.known.own == ME.advert()
    assert not of(d.Advertise, one.pass_time(RENEW_S - 1)) and of(d.Advertise, one.pass_time(1))


def test_it_asks_its_seed_through_the_seeds_router_which_the_router_learns_of_first() -> None:
    deeds = Rules(seeds=(FIRST.advert().text(),)).begin()
    [learned], [asked] = of(c.AddNeighbour, deeds), of(c.Send, deeds)
    assert (learned.key, learned.urls) == (FIRST.router.public, (FIRST.url,))
    assert (asked.to, asked.via, asked.ttl_s) == (FIRST.service.public, FIRST.router.public, 30)
    assert decode_message(asked.body) == Sample((Entry(0, ME.advert()),))


def test_a_seed_that_the_settings_name_no_more_is_unknown_again() -> None:
    one = Rules(seeds=(FIRST.advert().text(),))
    one.begin()
    deeds = Rules(one.kept).begin()
    assert of(c.AddNeighbour, deeds) == [c.AddNeighbour(FIRST.router.public)] and not of(
        c.AddNeighbour, Rules(one.kept).begin()
    )


def test_who_asks_is_answered_through_its_router_and_what_it_brought_is_announced() -> None:
    one = Rules()
    one.begin()
    [answer] = of(c.Send, one.said(FIRST, [(0, FIRST.advert()), (3, SECOND.advert())]))
    assert (answer.to, answer.via) == (FIRST.service.public, FIRST.router.public)
    assert isinstance(decode_message(answer.body), Sampled)
    deeds = one.pass_time(20)
    assert {FIRST.router.public, SECOND.router.public} <= set(announced(deeds))
    assert all(each.ttl_s == 0 for each in of(c.Publish, deeds))


def test_a_partner_is_announced_before_it_is_asked() -> None:
    one = Rules()
    one.begin()
    one.said(FIRST, [(0, FIRST.advert())])
    deeds = one.pass_time(20)
    [asked] = of(c.Send, deeds)
    assert asked.via == FIRST.router.public
    assert announced(deeds[: deeds.index(asked)])[0] == FIRST.router.public


def test_what_is_known_already_is_announced_again_after_ten_minutes_and_news_at_once() -> None:
    one = Rules()
    one.begin()
    one.said(FIRST, [(0, FIRST.advert()), (0, SECOND.advert())])
    first = one.period()
    assert set(announced(first)) == {FIRST.router.public, SECOND.router.public}
    second = one.period()
    assert set(announced(second)) == set(asked(second)), "a partner each time, in case the router has forgotten it"
    one.said(THIRD, [(0, THIRD.advert()), (0, SECOND.advert(rev=2))])
    assert SECOND.router.public in announced(one.period())
    one.seconds += ANNOUNCE_AGAIN_S
    assert {FIRST.router.public, SECOND.router.public} <= set(announced(one.period()))


def test_what_was_drawn_is_kept_and_asked_after_a_restart() -> None:
    one = Rules()
    one.begin()
    one.said(FIRST, [(0, FIRST.advert())])
    one.pass_time(20)
    assert [each.via for each in of(c.Send, Rules(one.kept).begin())] == [FIRST.router.public]


def forged(by: Node) -> Advertisement:
    wire = by.advert().message
    return decode_advertisement(wire[:-1] + bytes((wire[-1] ^ 1,)))


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (forged(SECOND), Reason.BAD_SIGNATURE),
        (SECOND.advert(life_s=-60), Reason.EXPIRY_PASSED),
        (SECOND.advert(life_s=3 * 86_400), Reason.EXPIRY_TOO_FAR),
        (Node(9, "tls://127.0.0.1:4100").advert(), Reason(201)),
        (Node(9, "tls://10.0.0.1:4100").advert(), Reason(201)),
        (Node(9, "tls://[ff02::1]:4100").advert(), Reason(201)),
    ],
)
def test_what_does_not_count_is_written_down_and_not_believed(entry: Advertisement, reason: Reason) -> None:
    one = Rules()
    one.begin()
    one.said(FIRST, [(0, FIRST.advert()), (0, entry)])
    deeds = one.pass_time(20)
    assert set(announced(deeds)) == {FIRST.router.public}
    [note] = of(c.LogEvent, deeds)
    assert (note.event, note.reason) == ("discovery_refused", reason)
    assert note.fields == {"router": FIRST.router.public.hex(), "times": 1}


def test_who_is_told_of_in_vain_hears_why_and_one_of_a_private_network_knows_it() -> None:
    private = Node(9, "tls://10.0.0.1:4100")
    one = Rules()
    one.begin()
    [refusal] = of(c.Refuse, one.said(private, [(0, private.advert())]))
    assert refusal.reason == Reason(201) and "lies in a private network" in refusal.text
    [note] = of(c.LogEvent, one.pass_time(20))
    assert note.reason == Reason(201) and note.fields["times"] == 1
    looks = []
    for own in (ME, private):
        one.hear(d.Signed("own", own.advert().message))
        [answer] = of(c.Answer, one.hear(c.Asked(1, "sampling")))
        looks.append(answer.value["private"])
    assert looks == [False, True]


def test_an_older_revision_changes_nothing_and_is_nobodys_fault() -> None:
    one = Rules()
    one.begin()
    one.said(FIRST, [(0, FIRST.advert()), (0, SECOND.advert(rev=5))])
    one.said(THIRD, [(0, THIRD.advert()), (0, SECOND.advert(rev=4))])
    deeds = one.pass_time(20)
    assert one.rules.known.newest(SECOND.router.public) == SECOND.advert(rev=5) and not of(c.LogEvent, deeds)


def test_only_the_service_that_a_router_names_speaks_for_it() -> None:
    one = Rules()
    one.begin()
    [refusal] = of(c.Refuse, one.said(FIRST, [(0, FIRST.advert())], source=SECOND.service.public))
    assert refusal.reason is Reason.NOT_AUTHORISED
    assert not of(c.Send, one.said(SECOND, [(0, FIRST.advert())])), "nor does another router"


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"", Reason.MALFORMED), (b"\x82\x18\x63\xa0", Reason.UNSUPPORTED), (FIRST.advert().message, Reason.UNSUPPORTED)],
)
def test_what_it_does_not_read_is_refused(body: bytes, reason: Reason) -> None:
    one = Rules()
    one.begin()
    deeds = one.hear(c.Message(MessageId(bytes(32)), body, source=FIRST.service.public, via=FIRST.router.public))
    assert [each.reason for each in of(c.Refuse, deeds)] == [reason]


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("upsycle:AAAA", "services.discovery.seeds[1]: "),
        (FIRST.advert().text()[:-8], "services.discovery.seeds[1]: "),
        (INVITATION, "services.discovery.seeds[1] is an invitation, which `router peer add` takes"),
        (SILENT, "services.discovery.seeds[1] names no discovery service, so nobody could be asked there"),
    ],
)
def test_a_seed_that_is_no_link_of_a_node_is_named_with_the_remedy(link: str, said: str) -> None:
    with pytest.raises(BadText) as caught:
        Rules(seeds=(FIRST.advert().text(), link))
    assert str(caught.value).startswith(said)


def test_without_sampling_nothing_is_asked_and_nothing_answered() -> None:
    one = Discovery(c.Setup("discovery", ME.service.public, Settings(), {}, Random(1)))
    assert not of(d.Advertise, one.hear(c.Started(ME.router.public), NOW))
    body = encode_message(Sample((Entry(0, FIRST.advert()),)))
    message = c.Message(MessageId(bytes(32)), body, source=FIRST.service.public, via=FIRST.router.public)
    [refusal] = one.hear(message, NOW)
    assert isinstance(refusal, c.Refuse) and refusal.reason is Reason.UNSUPPORTED


def test_configured_routers_that_are_away_are_dialled_and_asked_once_they_are_connected() -> None:
    rules = Rules()
    rules.begin()
    [question] = of(c.Inquire, rules.pass_time(20))
    key = FIRST.router.public
    row = {"address": key.hex(), "standing": "peer", "state": "away", "urls": [FIRST.url], "uplink": False}
    row["problem"] = "connection refused"
    others: list[dict[str, Any]] = [{"urls": []}, {"standing": "met"}, {"state": "connected"}, {"uplink": True}]
    told = c.Told(question.tag, question.word, [*({**row, **one} for one in others), row])
    assert rules.hear(told) == [d.Dial(key)]
    page = {"page": [row], "left_out": 9, "next": 1400}
    assert rules.hear(replace(told, answer=page)) == [d.Dial(key), c.Inquire("peers", "1400", question.tag)]
    assert rules.hear(replace(told, answer={"page": [row], "left_out": 0})) == [d.Dial(key)]
    assert rules.hear(c.Told(question.tag, question.word, error="busy")) == []
    assert asked(rules.hear(d.Linked(key, FIRST.service.public))) == [key]
    rules.said(FIRST, [(3, SECOND.advert())], answer=True)
    [view] = [one.value for one in of(c.Answer, rules.hear(c.Asked(1, "sampling")))]
    assert view == {"seeds": [], "neighbours": [key.hex()], "known": 1, "private": False}, (
        "though it has not told its own"
    )
