"""`router lan`, its settings and its kept state: where a node may be heard, by value."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from samples.lan import DOOR, at, came, interface, key_of, signed

from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles.discovery import Interface, Interfaces, Listening, UseInterfaces
from services.discovery.core.known import SERVICE as DISCOVERY
from services.discovery.core.known import Known
from services.discovery.core.lan.networks import network_of
from services.discovery.core.lan.part import OnLan
from services.discovery.core.messages import Named
from services.discovery.settings import Settings

ME, OTHER = key_of(1), key_of(2)
SERVICE = key_of(3).public


def id_of(one: Interface) -> str:
    found = network_of(one)
    assert found is not None
    return found.id


class Part:
    """The part, and the state it keeps."""

    def __init__(self, kept: dict[bytes, bytes] | None = None, **settings: Any) -> None:
        self.kept = {} if kept is None else kept
        self.known = Known()
        setup = c.Setup("discovery", SERVICE, Settings(**settings), self.kept, Random(1))
        self.part = OnLan(setup, self.known)
        self.mono_s = 0.0

    def hear(self, heard: c.Heard) -> list[c.Deed]:
        deeds = self.part.hear(heard, at(self.mono_s))
        for deed in deeds:
            if isinstance(deed, c.Put) and deed.value is not None:
                self.kept[deed.key] = deed.value
        return deeds

    def ask(self, word: str) -> tuple[Any, list[c.Deed]]:
        deeds = self.hear(c.Asked(7, "lan", word))
        [answer] = [one.value for one in deeds if isinstance(one, c.Answer)]
        return answer, deeds

    def begin(self, *interfaces: Interface) -> list[c.Deed]:
        return [*self.hear(Interfaces(DOOR, interfaces)), *self.hear(c.Started(PublicKey(ME.public)))]


def attended(deeds: list[c.Deed]) -> list[tuple[int, ...]]:
    return [one.interfaces for one in deeds if isinstance(one, UseInterfaces)]


def test_nothing_is_attended_until_it_is_asked_for_and_then_it_is_after_a_new_start_too() -> None:
    part = Part()
    assert attended(part.begin(interface(1))) == []
    answer, deeds = part.ask("on")
    assert attended(deeds)[-1] == (2,)
    assert [(one["interface"], one["allowed"]) for one in answer["networks"]] == [("eth0", True)]
    assert attended(Part(part.kept).begin(interface(1))) == [(2,)]
    assert attended(Part(part.kept).begin(interface(1, name="eth1"))) == []


def test_off_is_off_also_after_a_new_start_and_on_allows_again_what_was_allowed() -> None:
    part = Part()
    part.begin(interface(1))
    part.ask("on")
    answer, deeds = part.ask("off")
    assert answer["mode"] == "off" and attended(deeds)[-1] == ()
    again = Part(part.kept)
    assert attended(again.begin(interface(1, name="eth1"))) == []
    again.ask("on")
    assert attended(again.hear(Interfaces(DOOR, (interface(1),))))[-1] == (2,)


def test_everywhere_is_everywhere() -> None:
    part = Part()
    part.begin(interface(1))
    assert part.ask("everywhere")[0]["mode"] == "everywhere"
    assert attended(part.hear(Interfaces(DOOR, (interface(1), interface(1, index=9, name="wlan0")))))[-1] == (2, 9)


@pytest.mark.parametrize("lan", ["here", "everywhere"])
def test_a_setting_does_what_the_command_does(lan: str) -> None:
    assert attended(Part(lan=lan).begin(interface(1))) == [(2,)]


def test_networks_of_the_settings_are_allowed() -> None:
    networks = (f"{id_of(interface(1))} eth0 at home",)
    assert attended(Part(networks=networks).begin(interface(1), interface(1, index=3, name="eth1"))) == [(2,)]


def test_what_the_operator_turned_off_in_the_file_stays_off() -> None:
    part = Part(lan="off")
    part.begin(interface(1))
    answer, deeds = part.ask("on")
    assert answer == {
        "error": 'router.toml says lan = "off" under [services.discovery]; remove that line and start the node again'
    }
    assert not attended(deeds) and not part.kept


def test_here_is_where_the_node_is_when_it_starts() -> None:
    part = Part(lan="here")
    part.begin(interface(1))
    assert attended(part.hear(Interfaces(DOOR, (interface(1, name="eth1"),))))[-1] == ()


def test_a_network_whose_gateway_is_not_resolved_yet_is_allowed_when_it_is() -> None:
    waiting = replace(interface(1), gateway_place="eth0 10.0.0.254")
    part = Part()
    part.begin(waiting)
    answer, deeds = part.ask("on")
    assert answer["networks"][0]["network"] == "" and attended(deeds) == []
    assert attended(part.hear(Interfaces(DOOR, (replace(waiting, gateway=b"\2gate"),))))[-1] == (2,)


def test_without_an_interface_the_list_is_empty() -> None:
    part = Part()
    part.begin()
    assert part.ask("list")[0] == {"mode": "allowed", "problem": "", "full": "", "networks": []}


def test_forty_interfaces_are_attended_each_and_one_that_goes_takes_none_with_it() -> None:
    part = Part(lan="everywhere")
    forty = [interface(1, index=2 + number, name=f"eth{number}") for number in range(40)]
    assert attended(part.begin(*forty))[-1] == tuple(range(2, 42))
    assert attended(part.hear(Interfaces(DOOR, tuple(forty[1:]))))[-1] == tuple(range(3, 42))


def test_an_unknown_word_is_answered() -> None:
    part = Part()
    part.begin()
    assert part.ask("up")[0] == {"error": "`router lan` is asked on, off or list, not up"}


def test_who_is_near_is_known_to_the_other_parts_until_it_is_away() -> None:
    part = Part(lan="everywhere")
    part.begin(interface(1))
    part.hear(Listening("tls://:4101"))
    part.hear(came(signed(OTHER)))
    assert [*part.known.nearby] == [OTHER.public]
    part.mono_s = 31
    part.hear(c.Tick())
    assert not part.known.nearby


def test_a_name_that_comes_before_groups_are_agreed_on_counts_from_then_on() -> None:
    """The two routers do not agree at the same moment, so an early name is no fault."""
    part, theirs = Part(lan="everywhere"), key_of(4).public
    part.begin(interface(1))
    part.hear(Listening("tls://:4101"))
    part.hear(came(signed(OTHER, services={DISCOVERY: theirs})))
    name = c.Message(MessageId(bytes(32)), b"", source=theirs, via=PublicKey(OTHER.public))
    assert part.part.read(name, Named("anna"), at(part.mono_s)) == []
    part.mono_s = 1
    assert not [one for one in part.hear(c.Tick()) if isinstance(one, c.AddNeighbour) and one.name]
    part.known.agreed[PublicKey(OTHER.public)] = None
    part.mono_s = 6
    assert [one.name for one in part.hear(c.Tick()) if isinstance(one, c.AddNeighbour)] == ["anna"]
    assert not [one for one in part.hear(c.Tick()) if isinstance(one, c.AddNeighbour)]


def test_what_did_not_count_is_written_down_by_network_and_reason_once_a_minute() -> None:
    part = Part(lan="everywhere")
    part.begin(interface(1))
    assert not part.part.admits(came(b"noise"), 0.0)
    notes = [one for one in part.hear(c.Tick()) if isinstance(one, c.LogEvent)]
    assert notes == [c.LogEvent("discovery_refused", None, Reason.MALFORMED, {"prefix": "10.0.0.0/24", "times": 1})]
    part.part.admits(came(b"noise"), 0.0)
    assert not [one for one in part.hear(c.Tick()) if isinstance(one, c.LogEvent)]
