"""`router why` shows events that a service committed just before its node was killed and that the log does not have."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from router.core.why.fate import Trace
from router.core.why.id_prefix import parse_prefix
from router.core.why.report import noted_json
from router.disk.log.search import FoundEvents
from router.disk.state.service_state import Batch, State
from router.service.running import key_of
from router.settings.home import Home
from router.why.waiting import with_waiting

FIRST, SECOND, THIRD, FOURTH = (bytes([n]) * 32 for n in range(1, 5))
NOTHING = FoundEvents(None, (), 0, 0, 0, 0)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "home")
    found.create()
    key_of(found, "bell")
    with closing(State(found.path / "services" / "bell")) as state:
        noted = [{"event": "bell_rung", "message": one.hex(), "fields": {"times": 1}} for one in (FIRST, SECOND)]
        state.commit(Batch(events=[*noted, {"event": "bell_rung"}]), 0)
    return found


def test_a_message_is_known_by_what_waits_for_the_log(home: Home) -> None:
    trace = with_waiting(NOTHING, home, parse_prefix(FIRST.hex())).trace
    assert trace is not None and trace.identity == FIRST
    [line] = trace.noted
    assert (line.event, line.fields) == ("bell_rung", {"service": "bell", "times": 1})
    assert line.signer == key_of(home, "bell").public.hex() and line.t > 0


def test_a_message_is_known_by_an_event_about_several(home: Home) -> None:
    with closing(State(home.path / "services" / "bell")) as state:
        about = {"event": "bell_rung", "message": (THIRD + FOURTH).hex(), "fields": {"each_tone": "a,b"}}
        state.commit(Batch(events=[about]), 0)
    trace = with_waiting(NOTHING, home, parse_prefix(FOURTH.hex())).trace
    assert trace is not None and trace.identity == FOURTH
    assert noted_json(trace)[0]["fields"] == {"service": "bell", "tone": "b"}


def test_what_the_log_has_is_not_told_twice(home: Home) -> None:
    once = with_waiting(FoundEvents(Trace(FIRST), (), 0, 0, 0, 0), home, parse_prefix(FIRST.hex()))
    assert once.trace is not None and len(once.trace.noted) == 1
    assert with_waiting(once, home, parse_prefix(FIRST.hex())) == once


def test_without_such_events_nothing_changes(home: Home) -> None:
    assert with_waiting(NOTHING, home, parse_prefix("77" * 32)) is NOTHING
    (home.path / "services" / "bell" / "data.mdb").write_bytes(b"no database")
    assert with_waiting(NOTHING, home, parse_prefix(FIRST.hex())) is NOTHING
