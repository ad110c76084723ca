"""Groups by their names: the disk is read now and then, however often one asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from router.node.questions.groups import GroupQuestions
from router.node.questions.kept_names import NAMES_S, KeptNames
from router.node.questions.question import CycleView


def test_group_questions_read_names_now_and_then() -> None:
    read: list[int] = []

    def names() -> dict[bytes, str]:
        read.append(1)
        return {b"g" * 32: f"friends {len(read)}"}

    one = SimpleNamespace(group=b"g" * 32, subscriber=b"s" * 32, local=True)
    other = SimpleNamespace(group=b"h" * 32, subscriber=b"s" * 32, local=False)
    router = SimpleNamespace(groups=[one, other])
    ask = GroupQuestions(KeptNames(names), KeptNames(lambda: {b"s" * 32: "listener"})).answers()["groups"]

    def asked(mono_s: float) -> Any:
        return ask(cast(CycleView, SimpleNamespace(router=router, now=lambda: SimpleNamespace(mono_s=mono_s))), "")

    assert [row["name"] for row in asked(5.0)] == ["friends 1", ""]
    assert {row["subscriber_name"] for row in asked(5.0)} == {"listener"}
    assert asked(4.9 + NAMES_S) == asked(5.0)
    assert [row["name"] for row in asked(5.0 + NAMES_S)] == ["friends 2", ""] and len(read) == 2
    assert GroupQuestions(KeptNames(), KeptNames()).answers()["groups"](
        cast(CycleView, SimpleNamespace(router=router, now=lambda: SimpleNamespace(mono_s=0.0))), ""
    )[0] == {"group": "67" * 32, "name": "", "subscriber": "73" * 32, "subscriber_name": "", "local": True}
