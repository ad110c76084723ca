"""Accepted messages that are owed to nobody, or not to whom they are addressed, by logs written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samples.audit_logs import APP, OTHER_APP, Log, audited, message_id
from samples.one_log import claimed, down, linked, then
from samples.two_logs import Case, begun, said

ROUTER = message_id("router")
MARK = {
    "group_percent": 50, "group_messages_max": 200, "group_bytes_max": 1 << 30, "neighbour_messages_max": 200,
    "neighbour_bytes_max": 1 << 30, "met_percent": 20,
}  # fmt: skip


def marked(log: Log) -> None:
    begun(log, **MARK)


def accepted(*recipients: str, kind: str = "unicast", destination: str = APP) -> Case:
    """Accept two messages and deliver them to whom they are owed."""

    def write(log: Log) -> None:
        columns: dict[str, Any] = {"group": None, "source": message_id("group"), "destination": destination}
        log.accepted(
            1,
            [f"{log.key.public.hex()} {one}" for one in range(2)],
            recipients,
            3,
            kind=kind,
            **(columns if kind == "unicast" else {}),
        )
        for one in recipients:
            log.outward("forwarded", [(1, 2)], 3, recipient=one)
            log.outward("delivered", [(1, 2)], 4, recipient=one)

    return write


def test_messages_owed_to_nobody_or_to_others_than_the_app_they_are_for_are_told(tmp_path: Path) -> None:
    told = {
        "nobody": then(marked, accepted()),
        "a copy for nobody": then(marked, accepted(kind="copy")),
        "a multicast for nobody": then(marked, accepted(kind="multicast")),
        "to another app": then(marked, linked, accepted(OTHER_APP)),
        "to a router": then(marked, linked, accepted(ROUTER)),
        "a copy for an app": then(marked, linked, accepted(APP, kind="copy")),
    }
    quiet = {
        "to the app": then(marked, linked, accepted(APP)),
        "by the router to which an app elsewhere is": then(marked, accepted(ROUTER)),
        "an app that has gone": then(marked, linked, down, accepted(ROUTER)),
        "an app of the run before": then(marked, linked, said("start", 2), accepted(ROUTER)),
        "a client": then(marked, lambda log: linked(log, standing="client"), accepted(ROUTER)),
        "a copy for a router": then(marked, linked, accepted(ROUTER, kind="copy")),
        "the next key of the app": then(
            marked, linked, said("renewal", 1, old=APP, new=OTHER_APP, service="router"), accepted(OTHER_APP)
        ),
        "older": then(begun, accepted()),
    }
    found = claimed({**told, **quiet}, tmp_path)
    of_it = {case: [one for one in rows if one[0] == "owed-wrongly"] for case, rows in found.items()}
    assert of_it == {**{case: [("owed-wrongly", 2)] for case in told}, **{case: [] for case in quiet}}


def test_the_link_that_is_named_is_that_of_the_first_message(tmp_path: Path) -> None:
    """Of messages owed to nobody no link is named, also where the same router owed others wrongly later."""
    log = Log()
    for step in (marked, linked):
        step(log)
    log.accepted(1, ["nobody's"], [], 3)
    log.accepted(2, ["another's"], [OTHER_APP], 4, kind="copy")
    log.accepted(3, ["an app's"], [APP], 5, kind="copy")
    [told] = (row for row in audited(log.write(tmp_path))["claims"] if row["claim"] == "owed-wrongly")
    assert (told["count"], told["seq"], told["accepted_seq"]) == (2, 4, None)
