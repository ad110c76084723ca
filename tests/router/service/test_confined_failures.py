"""Failures that stop only themselves: each kind is told of at once, then counted, and told of again with its count."""

from __future__ import annotations

import trio

from router.core.wire.errors import RouterError
from router.service.confined_failures import SAY_AGAIN_S, ConfinedFailures


async def test_a_flood_of_one_kind_is_counted_and_another_kind_is_told_of_at_once(autojump_clock: object) -> None:
    logged: list[Exception] = []
    warned: list[str] = []
    failures = ConfinedFailures(lambda text, error: logged.append(error), warned.append)
    first = ValueError("no")
    failures.tell("desk", "failed at the desk", first)
    for _ in range(3):
        failures.tell("desk", "failed at the desk", ValueError("again"))
    failures.tell("question", "failed on a question", RouterError("it is too hard; ask another one"))
    assert warned == [
        "it failed at the desk: ValueError('no')", "it failed on a question: it is too hard; ask another one",
    ]  # fmt: skip
    assert logged[0] is first and len(logged) == 2
    await trio.sleep(SAY_AGAIN_S)
    failures.tell("desk", "failed at the desk", ValueError("at last"))
    assert warned[2:] == [
        "it failed at the desk: ValueError('at last') (and 3 times more since the last such sentence)"
    ]
    failures.tell("desk", "failed at the desk", first)
    await trio.sleep(SAY_AGAIN_S)
    failures.tell("desk", "failed at the desk", first)
    assert warned[3:] == ["it failed at the desk: ValueError('no') (and 1 time more since the last such sentence)"]


async def test_a_function_of_the_service_that_fails_is_told_of_and_another_value_stands_for_its_own() -> None:
    warned: list[str] = []
    failures = ConfinedFailures(lambda text, error: None, warned.append)

    def admits(number: int) -> bool:
        if number == 1:
            raise SystemExit(3)
        if number == 0:
            raise ValueError("none")
        return 6 // number > 2

    guarded = failures.guarded("admits", admits, False)
    assert [guarded(number) for number in (0, 1, 2, 3)] == [False, False, True, False]
    assert warned == ["it failed in admits, and goes on: ValueError('none')"]
