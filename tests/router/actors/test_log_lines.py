"""A record of the log is one line without what a terminal would obey, and so is each line of its traceback."""

from __future__ import annotations

import io
import logging

from router.actors.log_lines import OneLine


def test_a_record_and_its_traceback_hold_nothing_that_a_terminal_would_obey() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(OneLine("%(levelname)s %(message)s"))
    log = logging.Logger("of-this-test")
    log.addHandler(handler)
    try:
        raise ValueError("red: \x1b[31m\x07")
    except ValueError:
        log.exception("said %s", "one\n\x1b[2Jtwo\u202e")
    first, *trace = written.getvalue().splitlines()
    assert first == "ERROR said one  [2Jtwo "
    assert trace[-1] == "ValueError: red:  [31m " and trace[0].startswith("Traceback")
