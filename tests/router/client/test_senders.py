"""How a group that an app names is read, and the causes of its next message there: one of each for a connection."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from samples.apps import FAMILY, OPEN

from router.client.custody.causes import Causes
from router.client.journal import Journal
from router.client.ordering import Ordering
from router.client.senders import GroupKeys, Senders
from router.client.state_writer import StateWriter
from router.core.wire.application import content_key_id
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.grouplink import new_group
from router.disk import private_file
from router.disk.state.app_state import AppState
from router.settings import keyring
from router.settings.home import Home
from router.settings.kept_files import KeptFiles
from router.settings.secret_lines import link_in

NOW_S = 1_800_000_000.0
UNTIL_MIN = 31_000_000
ME = SigningKey(b"m" * 32).public


def senders_at(tmp_path: Path, journal: Journal | None = None) -> tuple[Senders, Ordering]:
    journal = journal or Journal(None, StateWriter(AppState.memory(), lambda: NOW_S))
    ordering = Ordering(ME, journal.known)
    return Senders(Home.chosen(tmp_path), 4, ordering, journal), ordering


def test_the_first_keys_stay_until_the_group_is_joined(tmp_path: Path) -> None:
    senders, _ = senders_at(tmp_path)
    sender, name = senders.of(FAMILY)
    first, second = GroupKeys(FAMILY.content_key, sender.causes), GroupKeys(None, sender.causes)
    senders.named(FAMILY.group, first)
    senders.named(FAMILY.group, second)
    assert name == "family" and senders.keys(FAMILY.group) is first
    senders.joined(FAMILY.group, second)
    assert senders.keys(FAMILY.group) is second
    assert senders.of(FAMILY)[0].causes is sender.causes
    assert repr(senders) == f"<1 groups named, of {tmp_path}>"


def test_a_group_that_an_earlier_run_joined_is_found_in_the_home(tmp_path: Path) -> None:
    senders, _ = senders_at(tmp_path)
    assert FAMILY.content_key is not None
    keyring.add_group(Home.chosen(tmp_path), "family", FAMILY)
    keys = senders.keys(FAMILY.group)
    assert keys.keys == {content_key_id(FAMILY.content_key): FAMILY.content_key}
    assert senders.keys(FAMILY.group) is keys and senders.keys(OPEN.public).keys == {}


def test_a_group_in_which_a_service_takes_part_is_read_as_it_was_published_unless_it_is_joined(tmp_path: Path) -> None:
    """The overlay passes on what is not sealed as well, as a topic's messages are, whatever keys the home has."""
    senders, _ = senders_at(tmp_path)
    keyring.add_group(Home.chosen(tmp_path), "family", FAMILY)
    assert senders.keys(FAMILY.group).keys
    senders.as_published([FAMILY.group])
    assert senders.keys(FAMILY.group).keys == {}
    senders.as_published([], [FAMILY.group])
    assert senders.keys(FAMILY.group).keys
    sender, _ = senders.of(FAMILY)
    senders.joined(FAMILY.group, GroupKeys(FAMILY.content_key, sender.causes))
    senders.as_published([FAMILY.group])
    assert senders.keys(FAMILY.group).keys


def test_published_messages_are_causes_and_the_journal_keeps_them(tmp_path: Path) -> None:
    writer, id = StateWriter(AppState.memory(), lambda: NOW_S), MessageId(b"i" * 32)
    journal = Journal(tmp_path / "journal", writer)
    journal.open()
    journal.keep_heads(FAMILY.group, lambda: [(id, UNTIL_MIN)])
    writer.state.commit(writer.take()[0])
    senders, ordering = senders_at(tmp_path, journal)
    causes: Causes = senders.of(FAMILY)[0].causes
    assert causes.heads.ids(0) == (id,)
    later = MessageId(b"l" * 32)
    causes.published(later, UNTIL_MIN, (), is_head=True)
    assert later in ordering.given.ids
    causes.kept(later, UNTIL_MIN)
    assert not writer.take()[0], "order of arrival waits for nothing"
    ordering.choose(FAMILY.group, "causal", 30.0, is_sealed=True)
    causes.kept(later, UNTIL_MIN)
    assert [key[-32:] for key, _ in writer.take()[0].handled] == [later]
    journal.close()


async def test_found_reads_the_disk_in_a_thread_and_only_what_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop may be a node's, which many groups joined again at its start would hold up."""
    links = [new_group(bytes([at]) * 32, b"c" * 32, f"g{at}") for at in range(1, 6)]
    for link in links:
        keyring.add_group(tmp_path, keyring.name_for(link), link)
    senders, _ = senders_at(tmp_path)
    read, readers = private_file.read, list[threading.Thread]()

    def noted(path: Path, bytes_max: int) -> bytes:
        data = read(path, bytes_max)
        readers.append(threading.current_thread())
        return data

    monkeypatch.setattr(private_file, "read", noted)
    monkeypatch.setattr(keyring, "_GROUPS", KeptFiles(link_in, lambda link: link.group, keyring.NAME_PATTERN))
    for _ in range(2):
        for link in links:
            sender, name = await senders.found(link.group.hex())
            assert (sender.group, name) == (link.group, link.name)
            assert name is not None and senders.of(name)[0].content_key == link.content_key
    assert len(readers) == len(links) and threading.main_thread() not in readers
    stranger = await senders.found(ME.hex())
    assert stranger[0].group == ME and stranger[0].content_key is None
