"""What is counted of a run beside GossipSub."""

from __future__ import annotations

from math import isnan, nan

from scale.beside_gossipsub import Figures, Ledger, Owed, table


def test_ledger_counts_others_messages_of_a_time_alone() -> None:
    ledger = Ledger()
    ledger.sent = [(0.0, 1, "before"), (1.0, 1, "one"), (2.0, 2, "own"), (3.0, 1, "two"), (9.0, 1, "after")]
    ledger.got = [(1.5, 2, "one", 0.5), (3.5, 3, "two", 0.25), (9.5, 2, "after", 0.125)]
    missing, owed = ledger.missing(1.0, 9.0, [2])
    assert (missing, owed) == ([Owed(2.0, 1, 2, "two")], 2)
    assert ledger.share(1.0, 9.0, [2]) == 0.5
    assert isnan(ledger.share(1.0, 9.0, []))
    assert ledger.delays_s(1.0, 9.0) == [0.5, 0.25]


def test_table_has_both_columns_with_ratios_and_goals() -> None:
    ours = Figures(10.0, 0.1, 0.2, 4_000.0, 70.0, 26.0, 1.0, 1.0, 3.0)
    theirs = Figures(2.0, 0.05, 0.1, 8_000.0, 35.0, 0.0, 1.0, 0.75, 4.0)
    lines = table(ours, theirs)
    assert [line.split()[-5:-2] for line in lines[1:3]] == [["10", "2", "5.00"], ["0.1", "0.05", "2.00"]]
    assert lines[1].endswith("2.5 x") and lines[5].endswith("50 MB")
    assert len(table(ours, None)) == len(lines) and "nan" in table(ours._replace(p50_s=nan), None)[2]
