"""The reader of tables, with CIP-137's local message submission and a table in which either side may speak."""

from __future__ import annotations

from enum import Enum
from math import inf

import pytest
from rigs.mermaid import mermaid
from rigs.tables import check_every_step, check_reachable, check_spec

from router.core.link.machine import (
    Agency,
    LocalProtocolError,
    Machine,
    RemoteProtocolError,
    Row,
    Table,
    with_limits,
)
from router.core.wire.reasons import Reason


class MsgSubmit: ...


class MsgAccept: ...


class MsgReject: ...


class MsgDone: ...


class St(Enum):
    IDLE = "StIdle"
    BUSY = "StBusy"
    DONE = "StDone"


SUBMISSION: Table = {
    St.IDLE: Row(Agency.INITIATOR, {MsgSubmit: St.BUSY, MsgDone: St.DONE}),
    St.BUSY: Row(Agency.RESPONDER, {MsgAccept: St.IDLE, MsgReject: St.IDLE}, 20.0, 5760),
    St.DONE: Row(Agency.NOBODY),
}
TALK: Table = {
    St.IDLE: Row(Agency.EITHER, {MsgSubmit: St.IDLE, MsgDone: St.DONE}, 5.0),
    St.DONE: Row(Agency.NOBODY),
}
SPEC = """
    StIdle initiator     MsgSubmit -> StBusy  MsgDone -> StDone
    StBusy responder 20s 5760B MsgAccept -> StIdle  MsgReject -> StIdle
    StDone nobody
"""


def test_the_table_is_the_specification() -> None:
    check_spec(SUBMISSION, SPEC)
    with pytest.raises(AssertionError):
        check_spec(SUBMISSION, SPEC.replace("20s", "10s"))
    with pytest.raises(AssertionError):
        check_spec(SUBMISSION, SPEC.replace("5760B", ""))
    with pytest.raises(AssertionError):
        check_spec(SUBMISSION, SPEC.replace("MsgDone -> StDone", ""))


@pytest.mark.parametrize("table", [SUBMISSION, TALK], ids=["submission", "talk"])
def test_every_step(table: Table) -> None:
    check_every_step(table)


@pytest.mark.parametrize("table", [SUBMISSION, TALK], ids=["submission", "talk"])
def test_every_state_is_reachable(table: Table) -> None:
    check_reachable(table)


def test_the_checks_catch_a_bad_table() -> None:
    with pytest.raises(AssertionError, match="not connected"):
        check_reachable({St.IDLE: Row(Agency.INITIATOR, {MsgSubmit: St.IDLE}), St.DONE: Row(Agency.NOBODY)})
    with pytest.raises(AssertionError, match="dead end"):
        check_reachable({St.IDLE: Row(Agency.INITIATOR)})
    with pytest.raises(AssertionError, match="nothing can keep"):
        check_reachable(with_limits(TALK, {St.IDLE: {"bytes_max": 0}}))


def test_a_message_stands_for_its_class() -> None:
    machine = Machine(SUBMISSION)
    assert machine.step(Agency.INITIATOR, MsgSubmit()) is St.BUSY
    assert machine.step(Agency.RESPONDER, MsgReject) is St.IDLE


def test_it_says_whose_turn_it_is() -> None:
    machine = Machine(SUBMISSION, we=Agency.RESPONDER)
    assert (machine.agency, machine.timeout_s, machine.bytes_max) == (Agency.INITIATOR, inf, inf)
    machine.step(Agency.INITIATOR, MsgSubmit)
    assert (machine.agency, machine.timeout_s, machine.bytes_max) == (Agency.RESPONDER, 20.0, 5760)
    assert repr(machine) == "<Machine of the responder in StBusy: responder may speak>"
    machine.step(Agency.RESPONDER, MsgAccept)
    machine.step(Agency.INITIATOR, MsgDone)
    assert machine.done


def test_errors_name_the_state_and_what_was_allowed() -> None:
    with pytest.raises(RemoteProtocolError) as remote:
        Machine(SUBMISSION, we=Agency.RESPONDER).step(Agency.INITIATOR, MsgAccept())
    assert remote.value.reason is Reason.MALFORMED
    assert remote.value.text == "initiator sent MsgAccept in StIdle, which allows MsgSubmit, MsgDone"
    assert str(remote.value) == f"malformed: {remote.value.text}"
    with pytest.raises(
        LocalProtocolError, match="responder sent MsgAccept in StIdle, where it is the turn of initiator"
    ):
        Machine(SUBMISSION, we=Agency.RESPONDER).step(Agency.RESPONDER, MsgAccept())


def test_a_configuration_says_the_limits_of_a_row_otherwise() -> None:
    table = with_limits(SUBMISSION, {St.BUSY: {"timeout_s": 3.0}, St.IDLE: {"bytes_max": 100}})
    assert (table[St.BUSY].timeout_s, table[St.BUSY].bytes_max) == (3.0, 5760)
    assert (table[St.IDLE].timeout_s, table[St.IDLE].bytes_max) == (inf, 100)
    check_every_step(table)
    assert SUBMISSION[St.BUSY].timeout_s == 20.0, "the table itself stays as it is"
    with pytest.raises(AssertionError, match="no row of the table"):
        with_limits(TALK, {St.BUSY: {"timeout_s": 3.0}})


def test_mermaid_draws_the_table() -> None:
    assert mermaid(SUBMISSION) == (
        "stateDiagram-v2\n"
        "    [*] --> StIdle\n"
        "    StIdle --> StBusy : initiator: MsgSubmit\n"
        "    StIdle --> StDone : initiator: MsgDone\n"
        "    StBusy --> StIdle : responder: MsgAccept\n"
        "    StBusy --> StIdle : responder: MsgReject\n"
        "    note right of StBusy : at most 20 s, 5760 bytes\n"
        "    StDone --> [*]\n"
    )
