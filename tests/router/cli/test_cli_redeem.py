"""`router peer add INVITATION`: its display, its files, and every sentence about an invitation that cannot be used."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result
from PIL import Image
from rigs.commands import Run
from samples.codes import code
from samples.invitations import CORE, FRIENDS, invitation

from router.cli import redeem
from router.core.wire.codec import encode
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import new_group
from router.core.wire.invitation import LIFE_S_MAX
from router.core.wire.link_text import SCHEME
from router.core.wire.succession import make_succession
from router.core.wire.text import key_text
from router.settings import config, keyring, own_successions, received
from router.settings.home import Home
from router.settings.received import InvitationAnswer

NOW_S = 1_790_000_040  # 2026-09-21 14:14
END_S = NOW_S + 7 * 86_400
GIVEN = invitation(until_s=END_S)
TEXT = GIVEN.text()
SHOWN = key_text("addr", CORE.public)
AGAIN = "Copy the whole link again, from upsycle: to its last letter.\n"
CLOSER = "take the picture closer and sharper, or copy the link"
NEITHER = "This is not an invitation or the link of a node"


@pytest.fixture(autouse=True)
def _at_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, NOW_S)


def set_clock(monkeypatch: pytest.MonkeyPatch, now_s: float) -> None:
    fixed = SimpleNamespace(time=lambda: now_s, gmtime=time.gmtime, strftime=time.strftime)
    monkeypatch.setattr(redeem, "time", fixed)


def refused(result: Result, code: int = 2) -> str:
    assert result.exit_code == code, result.output
    assert TEXT[20:60] not in result.output, "the secret is shown"
    return result.stderr


def peers(home: Path) -> list[tuple[str, tuple[str, ...], bool]]:
    return [(one.name, one.urls, one.uplink) for one in config.load(home / "router.toml")[0].peers]


def test_it_is_shown_and_kept_and_waits_for_the_node_to_run(router: Run, home: Path) -> None:
    router("init")
    assert refused(router("peer", "add", TEXT, "--yes"), 5).splitlines() == [
        f'invited by  {SHOWN} ("the core")',
        "at          tls://core.example.org:4100",
        "lets us     join, store, relay",
        "ends        2026-09-28 14:14 UTC, in 7 d",
        "group       friends, to read and write",
        "the-core has not let us in yet: no node is running here",
        f"`router --home {home} serve` starts the node, which then asks until 2026-09-28 14:14 UTC; "
        f"`router --home {home} peer list` shows the answer",
    ]
    assert peers(home) == [("the-core", ("tls://core.example.org:4100",), True)]
    assert [one.invitation() for one in received.received(home)] == [GIVEN] and not keyring.groups(home)


def test_the_list_of_neighbours_says_what_became_of_it(router: Run, home: Path) -> None:
    router("peer", "add", TEXT, "--yes")
    assert "\n  its invitation is not answered yet\n" in router("peer", "list").stdout
    no = InvitationAnswer(reason="invite:used-up", sentence="All uses of the invitation are taken by other guests.")
    received.answered(home, GIVEN.id, no, NOW_S)
    said = "it refused our invitation: all uses of the invitation are taken by other guests; "
    said += "ask its operator for a new invitation"
    assert f"\n  {said}\n" in router("peer", "list").stdout
    assert json.loads(router("peer", "list", "--json").stdout)[0]["problem"] == said


def test_as_json_it_says_the_outcome(router: Run, home: Path) -> None:
    def said(code: int) -> dict[str, object]:
        result = router("peer", "add", TEXT, "--yes", "--json")
        assert result.exit_code == code
        found: dict[str, object] = json.loads(result.stdout)
        return found

    address = CORE.public.hex()
    assert said(5) == {
        "address": address, "name": "the-core", "outcome": "waiting", "reason": None, "rights": list(GIVEN.rights),
        "group": None, "had": False,
    }  # fmt: skip
    received.answered(home, GIVEN.id, InvitationAnswer(rights=("join",)), NOW_S)
    assert said(5) == {
        "address": address, "name": "the-core", "outcome": "waiting", "reason": None, "rights": ["join"],
        "group": "friends", "had": False,
    }, "the kept yes is not told again: the inviter is asked, and what it gave holds"  # fmt: skip


def test_whoever_does_not_agree_changes_nothing(router: Run, home: Path) -> None:
    router("init")
    before = (home / "router.toml").read_bytes()
    said = "this asks before it makes a neighbour, and standard input is no terminal: give --yes to agree\n"
    assert refused(router("peer", "add", TEXT)).endswith(said)
    assert (home / "router.toml").read_bytes() == before and not (home / "invitations").exists()


@pytest.mark.parametrize(("rights", "options", "uplink"), [(("join",), (), True), (("store",), (), False),
                                                          (("join",), ("--no-uplink",), False)])  # fmt: skip
def test_it_makes_an_uplink_if_it_offers_to_join(
    router: Run, home: Path, rights: tuple[str, ...], options: tuple[str, ...], uplink: bool
) -> None:
    router("peer", "add", invitation(until_s=END_S, rights=rights).text(), "--yes", *options)
    assert peers(home) == [("the-core", ("tls://core.example.org:4100",), uplink)]


def test_a_neighbour_keeps_what_it_has_and_gets_what_is_offered(router: Run, home: Path) -> None:
    router("peer", "add", CORE.public.hex(), "tls://old:1", "--name", "mine", "--grant", "why")
    added = router("peer", "add", TEXT, "--yes")
    said = "mine is a neighbour already: its entry stays, and what the invitation offers is added\n"
    assert said in refused(added, 5)
    assert peers(home) == [("mine", ("tls://core.example.org:4100", "tls://old:1"), True)]
    [peer] = config.load(home / "router.toml")[0].peers
    assert peer.grant == ("why",)


def test_removing_or_blocking_the_neighbour_withdraws_it(router: Run, home: Path) -> None:
    for command in ("remove", "block"):
        router("peer", "add", TEXT, "--yes")
        assert received.received(home)
        assert router("peer", command, "the-core").exit_code == 0
        assert not received.received(home)
    said = (
        f"the-core, who invites, is blocked on this node; `router --home {home} peer unblock the-core` lets it in "
        "again, then take the invitation\n"
    )
    router("peer", "add", SHOWN, "--name", "the-core")
    router("peer", "block", SHOWN)
    assert refused(router("peer", "add", TEXT, "--yes")) == said


def test_when_the_file_cannot_be_changed_nothing_is_kept(router: Run, home: Path) -> None:
    router("init")
    path = home / "router.toml"
    path.write_text(
        path.read_text().replace("[node]", f'peers = [{{address = "{SigningKey(b"o" * 32).public.hex()}"}}]\n[node]', 1)
    )
    said = refused(router("peer", "add", TEXT, "--yes"))
    assert "peers is written as a list in [ ]; write each as a [[peers]] block to have it changed" in said
    assert not received.received(home)


def test_when_it_cannot_be_kept_it_says_what_to_do_and_nothing_is_changed(router: Run, home: Path) -> None:
    router("init")
    (home / "invitations").write_text("")
    said = f"{home}/invitations cannot be written: File exists; see that there is room and writing is allowed\n"
    assert refused(router("peer", "add", TEXT, "--yes")).endswith(said)
    assert not peers(home)


def test_one_s_own_is_said_to_be(router: Run, home: Path) -> None:
    Home(home).create()
    own = keyring.load_or_create(home, keyring.NODE)
    said = refused(router("peer", "add", invitation(until_s=END_S, key=own).text(), "--yes"))
    assert said == (
        "this is an invitation by this node itself: give it to those whom it is meant for; "
        f"`router --home {home} invite list` shows who has come by it\n"
    )


def test_one_by_a_former_key_of_the_node_is_said_to_be_its_own(router: Run, home: Path) -> None:
    Home(home).create()
    own, old = keyring.load_or_create(home, keyring.NODE), SigningKey(b"f" * 32)
    own_successions.save(home / "keys", [make_succession(old, own, 1, 2)])
    said = refused(router("peer", "add", invitation(until_s=END_S, key=old).text(), "--yes"))
    assert said.startswith("this is an invitation by this node itself: ")
    former = "this address was the node's own before its key was rotated: it is no neighbour\n"
    assert refused(router("peer", "add", key_text("addr", old.public))) == former
    assert not peers(home)


def test_one_whose_time_is_over_is_told_with_the_clock(router: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, END_S + 2 * 3600)
    assert refused(router("peer", "add", TEXT, "--yes")) == (
        "this invitation ended 2 h ago, on 2026-09-28 14:14 UTC, by this machine's clock, which shows "
        "2026-09-28 16:14 UTC; ask for a new one, or set the clock if it is wrong\n"
    )


def test_one_that_is_not_yet_valid_shows_a_clock_that_is_behind(router: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, END_S - LIFE_S_MAX - 10 * 86_400)
    assert refused(router("peer", "add", TEXT, "--yes")) == (
        "this invitation would end only in 3670 d, on 2026-09-28 14:14 UTC, by this machine's clock, which shows "
        "2016-09-10 14:14 UTC; none is made for more than 3660 d, so the clock is behind: set it, then take the "
        "invitation again\n"
    )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "tls://0.0.0.0:4100",
            "that node cannot be dialled: 0.0.0.0:4100 names no host, which only a datagram on the LAN may do: it "
            "means the source of the datagram; name an address in node.advertise at which others reach that node\n",
        ),
        (
            "tls://224.0.0.1:1",
            "that node cannot be dialled: 224.0.0.1:1 is a multicast, broadcast or reserved address, at which no "
            "router can be; name an address in node.advertise at which others reach that node\n",
        ),
        ("ws://a.org/x", "that node cannot be dialled: 'ws://a.org/x' leads off this machine without TLS"),
    ],
)
def test_one_without_an_address_to_dial_says_so(router: Run, url: str, said: str) -> None:
    assert refused(router("peer", "add", invitation(url, until_s=END_S).text(), "--yes")).startswith(said)


def test_one_whose_addresses_are_all_of_later_kinds_says_so(router: Run) -> None:
    fields = {"id": CORE.public, "at": [9, "x"], "inv": b"s" * 16, "exp": GIVEN.expiry_min, "gr": 1}
    signature = CORE.sign(b"upsycle invitation 1" + encode(fields))
    raw = encode([3, fields | {"sig": signature}])
    text = SCHEME + urlsafe_b64encode(raw).rstrip(b"=").decode()
    said = "that node cannot be dialled: the link names no address that this version knows\n"
    assert refused(router("peer", "add", text, "--yes")) == said


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "tls://192.168.7.20:4100",
            "its addresses lie in a private network: it can be reached from inside that network only\n",
        ),
        (
            "tls://127.0.0.1:4100",
            "that link leads back to this machine: it works only for a node that runs here\n",
        ),
    ],
)
def test_an_address_that_works_in_one_place_only_is_said_to(router: Run, url: str, said: str) -> None:
    assert said in refused(router("peer", "add", invitation(url, until_s=END_S).text(), "--yes"), 5)


def test_a_group_that_is_known_by_another_key_is_not_mixed(router: Run, home: Path) -> None:
    router("init")
    keyring.add_group(home, "mates", new_group(b"f" * 32, b"o" * 32))
    assert refused(router("peer", "add", TEXT, "--yes")) == (
        "this invitation opens its group by another key than the link that is kept here as mates: one of them is "
        "damaged; ask for the group's link and compare them\n"
    )


def test_one_cut_anywhere_is_told_from_one_that_is_changed(router: Run) -> None:
    for end in range(len(SCHEME), len(TEXT) - 1, 31):
        assert refused(router("peer", "add", TEXT[:end], "--yes")) == f"{NEITHER}: it is cut short. {AGAIN}"
    raw = urlsafe_b64decode(TEXT[len(SCHEME) :] + "==")
    for at in (0, 1, *range(2, len(raw), 37)):
        changed = raw[:at] + bytes((raw[at] ^ 1,)) + raw[at + 1 :]
        text = SCHEME + urlsafe_b64encode(changed).rstrip(b"=").decode()
        said = refused(router("peer", "add", text, "--yes"))
        whole = f"{NEITHER}: ", "This is not an invitation: ", "This is not the link of a node: "
        assert said.startswith(whole) and said.endswith(AGAIN), said
    for letters, case in ((TEXT.upper(), "capitals"), (TEXT.lower(), "small")):
        said = f"{NEITHER}: its letters are all {case}, and after upsycle: case counts. {AGAIN}"
        assert refused(router("peer", "add", letters, "--yes")) == said


def test_what_a_mailer_does_to_it_does_not_matter(router: Run, home: Path) -> None:
    broken = "\r\n ".join(TEXT[at : at + 70] for at in range(0, len(TEXT), 70)).replace("upsycle:", "UpSycle:", 1)
    assert router("peer", "add", "-", "--yes", stdin=f"\n {broken}\n").exit_code == 5
    assert [one.invitation() for one in received.received(home)] == [GIVEN]


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        (
            ("peer", "add"), SCHEME + urlsafe_b64encode(encode([7, {}])).rstrip(b"=").decode(),
            "This link is of type 7, which this version does not know. Install a newer version, or, if it should be an "
            f"invitation or the link of a node: {AGAIN}",
        ),
        (
            ("peer", "add"), FRIENDS.text(),
            "This is a group link, not an invitation or the link of a node. Take it with `router {home}group add "
            "LINK`.\n",
        ),
        (
            ("group", "add"), TEXT,
            "This is an invitation, not a group link. Take it with `router {home}peer add LINK`.\n",
        ),
        (
            ("peer", "add"), "upsycle:", f"{NEITHER}: it is cut short. {AGAIN}",
        ),
    ],
)  # fmt: skip
def test_a_link_of_another_kind_says_what_it_is(
    router: Run, home: Path, command: tuple[str, ...], text: str, said: str
) -> None:
    router("init")
    assert refused(router(*command, text)) == said.replace("{home}", f"--home {home} ")


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (Image.new("L", (300, 200), 255), f"shows no QR code to be read: {CLOSER}"),
        (
            code("https://example.org/menu"),
            "shows the QR code of another program, and none of ours: take a picture of the code that was drawn with "
            "the link, or copy the link, which begins with upsycle:",
        ),
        (
            Image.new("1", (10_000, 10_000)),
            "has 10000 x 10000 pixels, more than 40 million: cut out the code, or make it smaller",
        ),
        (None, "is neither a link nor a PNG or JPEG picture"),
    ],
)  # fmt: skip
def test_a_picture_that_gives_none_says_why(router: Run, tmp_path: Path, image: Image.Image | None, said: str) -> None:
    path = tmp_path / "given.png"
    if image is None:
        path.write_bytes(b"\x00\x00\x00\x18ftypmp42" + bytes(9_000))
    else:
        image.save(path)
    assert refused(router("peer", "add", str(path), "--yes")) == f"{path} {said}\n"


def test_it_is_taken_from_a_picture(router: Run, home: Path, tmp_path: Path) -> None:
    path = tmp_path / "code.png"
    code(TEXT).save(path)
    assert router("peer", "add", str(path), "--yes").exit_code == 5
    assert [one.invitation() for one in received.received(home)] == [GIVEN]


def test_with_rights_to_revoke_it_makes_no_sense(router: Run) -> None:
    said = "an invitation makes a neighbour, so there are no rights to --revoke yet;"
    assert said in refused(router("peer", "add", TEXT, "--yes", "--revoke", "join"))


def test_an_invitation_of_another_key_than_it_says_is_no_invitation(router: Run) -> None:
    forged = SCHEME + urlsafe_b64encode(
        encode([3, {"id": SigningKey(b"x" * 32).public, "at": [3, "a.org", 1], "inv": b"s" * 16,
                    "exp": GIVEN.expiry_min, "gr": 1, "sig": CORE.sign(b"")}])
    ).rstrip(b"=").decode()  # fmt: skip
    assert refused(router("peer", "add", forged, "--yes")) == (
        f"This is not an invitation: it is damaged, letters of it are changed (its signature does not fit). {AGAIN}"
    )
