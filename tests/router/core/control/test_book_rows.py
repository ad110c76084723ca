"""Each kind of row of the book is what cddl/store.cddl says, and the page names each kind."""

from __future__ import annotations

import re
from pathlib import Path

import cbor2
import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from samples.core import ALICE, BOB, GROUP, RENEWAL, SUCCESSION, WHEREABOUTS
from test_core_hints import FAR, UP, gives, hint, house, say

from router.core.control import hints, neighbour_lives, node_copies
from router.core.neighbours import agreements, book, invitations, successors, whereabouts
from router.core.neighbours.advertisements import Entry
from router.core.neighbours.agreements import Agreements
from router.core.neighbours.book import Book, Granted, Learned
from router.core.neighbours.successors import Successor
from router.core.routing import disorder
from router.core.wire.advert import Advertisement
from router.core.wire.control import Join
from router.core.wire.crypto import Signature
from router.core.wire.link_items import Run
from router.core.wire.run_claim import RunPlace, claim_run

PAGE = Path(__file__).parents[4] / "cddl" / "store.cddl"
SERVICE, OTHER = bytes(ALICE.public), bytes(BOB.public)
LATER_S = 2_000_000_000


def rows() -> dict[bytes, bytes]:
    """Return a row of each kind that the code of the router makes."""
    one, met, at_home = Book(8), Agreements(8), house()
    advert = Advertisement(
        BOB.public, (FAR,), {"discovery": ALICE.public}, (), 5, 9, 9, Signature(bytes(64)), b"signed"
    )
    guest = invitations.Guest("laptop", invitations.BEGUN, b"d" * 32)
    invited = invitations.IssuedInvitation(
        b"i" * 32, frozenset({"join"}), 3, LATER_S, "friends", 0, False, {BOB.public: guest}
    )  # fmt: skip
    met.agree(SERVICE, OTHER, [bytes(GROUP.public)], LATER_S, 0, lan=True)
    at_home.router.copies.begin(b"tag....8", at_home.now())
    restored = claim_run(UP, RunPlace(7, 1, b"tag....9"))
    at_home.link(UP.public, role="router", run=Run(7, 1), claim=restored)
    alice = at_home.link(ALICE.public)
    assert say(at_home, alice, ALICE, Join(GROUP.public, False)) == gives(at_home, alice, ALICE, hint(FAR)) == []
    made = [
        one.learn(Learned(SERVICE, OTHER, "core", (FAR.url,), LATER_S, "lan"), 0),
        one.grant(Granted(SERVICE, OTHER, frozenset({"join", "store"}), LATER_S, None), 0),
        one.grant(Granted(SERVICE, SERVICE, frozenset({"join"}), LATER_S, 2), 0),
        one.note(SERVICE, b"e" * 16, 7),
        one.next_revision(1_700_000_000_000)[1],
        (book.ADVERTISED + SERVICE + OTHER, Entry(SERVICE, advert, LATER_S).encoded()),
        (invitations.INVITED + invited.id, invitations.to_row(invited)),
        (disorder.DISORDERED + OTHER, b""),
        one.whereabouts.put(WHEREABOUTS),
        Successor.of(RENEWAL, 7).row(),
        Successor.of(SUCCESSION, 7).row(),
        (node_copies.COPY, node_copies.FoundCopy(RunPlace(0, 1_700_000_000_000, b"tag....8"), LATER_S, True).row()),
        *met.rows(at_home.now()).items(),
        *at_home.disk.book.items(),
    ]
    return {key: value for key, value in made if value is not None}


RULES = {
    book.LEARNED: ("learned", 65), book.GRANTED: ("granted", 65), book.NOTED: ("noted", 33),
    book.REVISION: ("revision", 1), book.ADVERTISED: ("advertised", 65), invitations.INVITED: ("invitation", 33),
    hints.HINTS: ("hints", 33), agreements.AGREED: ("agreed", 65), disorder.DISORDERED: ("", 33),
    successors.RENEWED: ("renewed", 33), successors.SUCCEEDED: ("renewed", 33),
    whereabouts.WHEREABOUTS: ("whereabouts", 33),
    node_copies.COPY: ("copied", 1), node_copies.RUNS: ("run", 1), neighbour_lives.LIVES: ("life-claim", 33),
}  # fmt: skip


def test_each_kind_of_row_is_valid() -> None:
    found, page = rows(), Validator(PAGE)
    assert {key[:1] for key in found} == set(RULES)
    for key, value in found.items():
        rule, size = RULES[key[:1]]
        assert len(key) == size, key[:1]
        assert page.validate(value, rule).valid if rule else not value, (key[:1], cbor2.loads(value))


def test_the_page_names_each_kind() -> None:
    assert {letter.encode() for letter in re.findall(r'^;   "(.)"', PAGE.read_text(), re.M)} == set(RULES)


@pytest.mark.parametrize("kind", [kind for kind, (rule, _) in RULES.items() if rule])
def test_a_row_with_another_part_is_not_valid(kind: bytes) -> None:
    value = cbor2.loads(next(value for key, value in rows().items() if key[:1] == kind))
    wrong = [*value, 1.5] if isinstance(value, list) else {"x": 1.5} if isinstance(value, dict) else -1
    assert not Validator(PAGE).validate(cbor2.dumps(wrong), RULES[kind][0]).valid
