"""Groups by their names: an answer never waits for the disk, and tells what was read last."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing

from router.core.wire.list_page import ListPage
from router.node.group_names import NAMES_S, GroupNames
from router.node.questions.groups import GroupQuestions
from router.node.questions.question import CycleView

GROUP = b"g" * 32


def asked(questions: GroupQuestions) -> Any:
    one = SimpleNamespace(group=GROUP, subscriber=b"s" * 32, local=True)
    other = SimpleNamespace(group=b"h" * 32, subscriber=b"s" * 32, local=False)
    view = SimpleNamespace(router=SimpleNamespace(groups=[one, other]))
    return cast(ListPage, questions.answers()["groups"](cast(CycleView, view), "")).rows


class Disk:
    """Names in a folder, each read of which is noted with its thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.threads: list[int] = []
        self.names = GroupNames(folder, self.read)
        self.change()

    def read(self) -> dict[bytes, str]:
        self.threads.append(threading.get_ident())
        return {GROUP: f"friends {len(self.threads)}"}

    def change(self) -> None:
        os.utime(self.folder, ns=(0, 1_000_000_000 + len(self.threads)))


def test_group_without_a_name_is_listed_by_its_key() -> None:
    assert asked(GroupQuestions())[0] == {
        "group": "67" * 32,
        "name": "",
        "subscriber": "73" * 32,
        "subscriber_name": "",
        "local": True,
    }


def test_question_about_groups_reads_no_name_from_the_disk(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    questions = GroupQuestions(disk.names.known)

    async def main() -> None:
        await disk.names.look()
        disk.change()
        assert [row["name"] for row in asked(questions)] == ["friends 1", ""]
        assert len(disk.threads) == 1 and threading.get_ident() not in disk.threads

    trio.run(main)


def test_names_are_read_again_when_the_folder_has_changed_or_after_a_time(tmp_path: Path) -> None:
    disk = Disk(tmp_path)

    async def main() -> None:
        for _ in range(3):
            await disk.names.look()
        assert len(disk.threads) == 1
        disk.change()
        await disk.names.look()
        assert disk.names.known() == {GROUP: "friends 2"}
        await trio.sleep(NAMES_S)
        await disk.names.look()
        assert disk.names.known() == {GROUP: "friends 3"}

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_question_has_the_names_looked_for_afterwards(tmp_path: Path) -> None:
    disk = Disk(tmp_path)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(disk.names.run)
            assert disk.names.known() == {GROUP: "friends 1"}
            disk.change()
            while disk.names.known() != {GROUP: "friends 2"}:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_group_lists_subscribers_by_the_names_of_kept_keys() -> None:
    rows = asked(GroupQuestions(dict, lambda: {b"s" * 32: "listener"}))
    assert [row["subscriber_name"] for row in rows] == ["listener", "listener"]
