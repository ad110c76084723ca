"""`router why` for people: one spelling of a key, blocks under the clock of each router, prefixes as typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rigs.commands import Run

from router.cli.exits import Failure
from router.cli.publish_report import FULL, UNREACHED, UNREAD, UNTAKEN, PublishCounts
from router.cli.services import keeps_for_others
from router.client.errors import Refused
from router.core.log.life import Restored
from router.core.routing.not_owed import OF_AN_UPLINK
from router.core.why.fate import Hop, Recipient, Trace
from router.core.why.report import NeighbourReport, RecipientCount, followed, recipient_json
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text
from router.disk import life_file
from router.disk.log.search import FoundEvents
from router.settings import config, keyring
from router.settings.config_peers import AddPeer, Peer
from router.settings.home import Home
from router.settings.names import Names
from router.why.answers import one as answer_of
from router.why.command import _noted, _readable, _tell, _tell_recipient

HERE = "0a" * 32
CORE = SigningKey(b"c" * 32).public
ADDRESS = key_text("addr", CORE)
S = 1_000_000_000
ACKED = Recipient(
    CORE.hex(), "acked", None, (Hop(HERE, "forwarded", 6 * S), Hop(HERE, "acked", 7 * S)), 1, None,
    f"nothing here: {CORE.hex()[:8]}… has taken custody",
)  # fmt: skip
TOLD = NeighbourReport("", 3 * S, (
    RecipientCount("delivered", None, 3, 5 * S), RecipientCount("queued", None, 2, 0),
    RecipientCount("delivered", None, 1, 4 * S, 1),
))  # fmt: skip


@pytest.fixture
def names(router: Run, home: object) -> Names:
    assert router("init").exit_code == 0
    return Names.of(Home(str(home)))


def told(one: Recipient, names: Names, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    _tell_recipient(json.loads(json.dumps(recipient_json(one))), HERE, names)
    return capsys.readouterr().out.splitlines()


def test_one_router_alone_needs_no_heading(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(ACKED, names, capsys) == [
        ADDRESS, "  acked, 1 attempt",
        "  1970-01-01 00:00:06.000 UTC  forwarded", "  1970-01-01 00:00:07.000 UTC  acked",
        f"  next: nothing here: {ADDRESS[:16]}… has taken custody",
    ]  # fmt: skip


def test_fields_of_services_are_shown_as_they_say() -> None:
    fields = {"service": "dmq", "pool": "ab", "due": "soon", "detail": "", "times": 0}
    shown: dict[str, dict[str, Callable[[Any], str]]] = {"dmq": {"pool": str.upper, "due": lambda due: str(int(due))}}
    [one] = _readable({"noted": [{"event": "dmq_accepted", "fields": fields}]}, shown)["noted"]
    assert one["fields"] == {"service": "dmq", "pool": "AB", "due": "soon", "times": 0}
    [other] = _readable({"noted": [{"event": "dmq_accepted", "fields": {**fields, "service": "two"}}]}, shown)["noted"]
    assert other["fields"]["pool"] == "ab"


def test_a_router_that_a_service_names_has_its_name(router: Run, names: Names, home: object) -> None:
    """A message that was missed is told with the router that brought it."""
    noted = {"event": "pubsub_repaired", "reason": None, "by": HERE, "time": "now"}
    fields = {"asks": 1, "router": CORE.hex()}
    assert f"; asks 1, router {ADDRESS}" in _noted({**noted, "fields": fields}, names)
    config.edit_peers(Home(str(home)).config_path, AddPeer(Peer(address=CORE, name="core", urls=())))
    assert "; asks 1, router core (addr1" in _noted({**noted, "fields": fields}, Names.of(Home(str(home))))
    assert "; router 7, other x" in _noted({**noted, "fields": {"router": 7, "other": "x"}}, names)


def test_what_was_not_read_is_said(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    for unread, said in ((("a.jsonl",), "a.jsonl is gone or damaged"), ((), "")):
        found = FoundEvents(None, (), 1, 1, 0, 0, unread)
        _tell(answer_of(found, Trace(CORE), None, {}), names)
        lines = [line for line in capsys.readouterr().out.splitlines() if "incomplete" in line]
        assert [said in line for line in lines] == [True] * bool(said)


def test_of_a_message_that_nobody_reads_it_says_what_that_means(
    names: Names, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = answer_of(FoundEvents(None, (), 1, 1, 0, 0), Trace(CORE), None, {})
    turned = {"time": "T", "reason": "no-subscribers", "from": "5a" * 32}
    _tell(answer | {"accepted_at": None, "turned_away": [turned], "turned_away_times": 1}, names)
    _, _, once, meaning, remedy, *_ = capsys.readouterr().out.splitlines()
    assert once.startswith("turned away  once, last T: no-subscribers, from addr1")
    said = (
        "nobody has joined the group who is here or has messages kept; it is not kept here, and its sender was told so"
    )
    assert meaning.strip() == said
    assert remedy.strip().startswith("this node knows nobody who reads that group; on a local network subscribe to it")


@pytest.mark.parametrize(
    ("role", "reason", "advised"),
    [
        ("edge", Reason.NO_SUBSCRIBERS, UNREAD),
        ("core", Reason.NO_SUBSCRIBERS, UNTAKEN),
        ("core", Reason.NO_ROUTE, UNREACHED),
        ("edge", Reason.DISK_FULL, FULL),
        ("edge", Reason.TOO_LARGE, ""),
    ],
)
def test_why_and_pub_advise_the_same_against_a_refusal(
    names: Names, home: Path, capsys: pytest.CaptureFixture[str], role: str, reason: Reason, advised: str
) -> None:
    """A core keeps what nobody there reads for readers elsewhere: to connect to a core is no advice to it."""
    Home(home).config_path.write_text(f'[node]\nrole = "{role}"\nservices = ["services.pubsub"]\n')
    is_kept = keeps_for_others(Home(home))
    answer = answer_of(FoundEvents(None, (), 1, 1, 0, 0), Trace(CORE), None, {})
    turned = {"time": "T", "reason": reason.word, "from": "5a" * 32}
    turned_away = {"accepted_at": None, "turned_away": [turned], "turned_away_times": 1}
    _tell(answer | turned_away, names, is_kept_for_others=is_kept)
    tally = PublishCounts(as_json=True, is_kept_for_others=is_kept)
    tally.failed(Refused(reason, message=MessageId(bytes(32))))
    with pytest.raises(Failure):
        tally.finish()
    output, errors = capsys.readouterr()
    for said in (output, errors):
        found = [text for text in (UNREAD, UNTAKEN, UNREACHED, FULL) if text[:40] in said]
        assert found == [advised] * bool(advised)


def test_which_lan_neighbours_were_not_owed_it_is_said(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    answer = answer_of(FoundEvents(None, (), 1, 1, 0, 0), Trace(CORE), None, {})
    _tell(answer | {"not_owed": [{"neighbour": "5a" * 32, "why": OF_AN_UPLINK}]}, names)
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("not owed to")]
    assert line.endswith(f", a LAN neighbour: {OF_AN_UPLINK}")


def test_how_many_events_are_left_out_is_said(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(replace(ACKED, attempts=300, hops_omitted=550), names, capsys)
    assert lines[1:3] == [
        "  acked, 300 attempts",
        "  of the events here the first 25 and the last 25; 550 between them are left out:",
    ]


@pytest.mark.parametrize(
    ("count", "said"), [(0, "no attempt known"), (1, "at least 1 attempt"), (2, "at least 2 attempts")]
)
def test_that_attempts_may_be_missing_is_said(
    names: Names, capsys: pytest.CaptureFixture[str], count: int, said: str
) -> None:
    assert told(replace(ACKED, attempts=count, is_partial=True), names, capsys)[1] == f"  acked, {said}"


def test_each_router_s_events_stand_under_its_own_clock(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(followed(ACKED, TOLD), names, capsys)[2:] == [
        "  here, by this router's clock:",
        "    1970-01-01 00:00:06.000 UTC  forwarded",
        "    1970-01-01 00:00:07.000 UTC  acked",
        f"  at {ADDRESS}, by its own clock:",
        "    1970-01-01 00:00:03.000 UTC  accepted",
        "    1970-01-01 00:00:05.000 UTC  delivered, 3 recipients, the last one then",
        "    now                          queued, 2 recipients",
        "  at routers behind it, each by its own clock:",
        "    1970-01-01 00:00:04.000 UTC  delivered",
        f"  next: nothing here: {ADDRESS[:16]}… has taken custody; of its recipients: 3 delivered, 2 queued; "
        "of those at routers behind it: 1 delivered",
    ]


def test_who_did_not_answer_has_no_clock(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(followed(ACKED, NeighbourReport("", problem="it is not connected now")), names, capsys)
    assert lines[5:7] == [f"  at {ADDRESS}:", "    now                          unknown (it is not connected now)"]


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_key_with_a_name_goes_by_it(
    router: Run, home: object, capsys: pytest.CaptureFixture[str], is_kept: bool
) -> None:
    """The key is a neighbour's, or one kept here that the node does not know."""
    assert router("init").exit_code == 0
    place, one = Home(str(home)), ACKED
    if is_kept:
        key = keyring.load_or_create(place, "core").public
        one = Recipient(key.hex(), "queued", None, (), 0, None, f"waits for {key.hex()[:8]}…, who is away")
    else:
        key = CORE
        config.edit_peers(place.config_path, AddPeer(Peer(address=CORE, name="core")))
    lines = told(one, Names.of(place), capsys)
    assert lines[0] == f"core ({key_text('addr', key)[:16]}…)"
    assert lines[-1] in ("  next: waits for core, who is away", "  next: nothing here: core has taken custody")


def test_a_prefix_that_fits_nothing_is_repeated_as_typed(at_node: Run) -> None:
    """The error quotes a prefix in the text form at any length, and claims nothing about which of its digits are
    wrong."""
    assert at_node("group", "new", "typed").exit_code == 0
    message = json.loads(at_node("pub", "typed", "hello", "--json").stdout)["id"]
    text = key_text("msg", bytes.fromhex(message))
    for length in range(24, 29):
        assert at_node("why", text[:length]).exit_code == 0
        wrong = text[: length - 1] + ("q" if text[length - 1] != "q" else "p")
        result = at_node("why", wrong)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"no message whose id begins with {wrong} is in the log of this router")


def test_message_that_a_running_node_does_not_know_may_have_come_between_snapshot_and_restore(
    at_node: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life_file, "read", lambda _: Restored(1, 1_790_000_000, 1_790_100_000))
    result = at_node("why", "abababab")
    assert result.exit_code == 1 and "this node was restored on 2026-09-22 18:00:00 UTC" in result.stderr
