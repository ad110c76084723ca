"""The scenarios of `router simulate` about pub/sub: how far messages spread, in how many copies, and how fast."""

from __future__ import annotations

import os
from pathlib import Path

import click

from router.cli.command import Command, json_option
from router.cli.output import columns, hint, say, say_json
from router.cli.streams import DASH, beside
from services.pubsub.simulation.comparing import BASELINES
from services.pubsub.simulation.drawing import draw
from services.pubsub.simulation.figures import Row, Scenario, measure
from services.pubsub.simulation.guessing import PRIVACY
from services.pubsub.simulation.hub import HUB
from services.pubsub.simulation.keeping import BOOTSTRAP, CHURN, HEALING
from services.pubsub.simulation.many import MANY
from services.pubsub.simulation.reconciling import RECONCILE
from services.pubsub.simulation.rendezvous import RENDEZVOUS
from services.pubsub.simulation.spreading import CATASTROPHE, DROPPERS, LOSS, STATIC
from services.pubsub.simulation.topics import TOPICS
from services.pubsub.simulation.withholding import WITHHOLDING

SCENARIOS = {
    "static": "Nothing fails: how far messages come, in how many copies, over how many hops.",
    "bootstrap": "Nodes that all know one of them find their places on the ring.",
    "hub": "Nodes that come at once by a link that names one of them, within the limits of meetings.",
    "catastrophe": "Half of all nodes die, or 70 %, and a message is published before anybody knows.",
    "healing": "Half of all nodes die: how soon all are reached again, and the ring is right.",
    "churn": "Nodes die and join in each cycle, and messages are published.",
    "loss": "Links lose 5 % of all copies; who misses a message learns of it from later ones.",
    "droppers": "Some nodes take custody of every message and forward none.",
    "withholding": "Nodes that take messages and pass none on lose their places; honest ones, however slow, do not.",
    "topics": "Many topics, of which each node wants a few: rings by hints or filters, and the number of neighbours.",
    "many": "Two services that want thousands of groups each find those that both want.",
    "rendezvous": "Two routers of a group, without a hint, find each other among many, some of which lie.",
    "privacy": "How well somebody who knows a topic guesses from a filter whether its owner wants it.",
    "reconcile": "Nodes compare what they have: the bytes it costs, and how soon all have all.",
    "baselines": "This protocol beside random gossip, HyParView and Plumtree, and GossipSub; and Cyclon as published.",
}

_HEADS = ("SETTING", "FIGURE", "GOAL", "MEAN", "SPREAD", "MET")


NODES_MAX, MANY_NODES_MAX = 100_000, 20_000
"""Most nodes of a scenario; of `many` as many as have the groups that a service compares at once."""


def _command(name: str, scenario: Scenario, about: str, nodes_max: int = NODES_MAX) -> click.Command:
    """Return the command that runs a scenario. `about`: what its help says."""

    @click.command(name, cls=Command, help=about)
    @click.option(
        "--nodes", type=click.IntRange(20, nodes_max), default=1_000, show_default=True, help="How many nodes."
    )
    @click.option("--seeds", type=click.IntRange(1, 1_000), default=1, show_default=True, help="How many runs.")
    @click.option("--seed", type=int, default=1, show_default=True, help="The seed of the first run.")
    @click.option(
        "--fanout", type=click.IntRange(2, 10), default=3, show_default=True, help="F: the copies that a node sends."
    )
    @click.option(
        "--svg",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        callback=_in_a_folder,
        help="Draw the first run's course to FILE (`-`: standard output).",
    )
    @json_option
    def command(nodes: int, seeds: int, seed: int, fanout: int, svg: Path | None, as_json: bool) -> None:
        rows = measure(name, scenario, nodes, fanout, range(seed, seed + seeds), hint)
        title = f"{name}: {nodes:,} nodes, F = {fanout}"
        if svg is not None:
            drawn = draw(f"{title}, seed {seed}", scenario.axes, [(row.label, row.curve) for row in rows])
            if svg == DASH:
                say(drawn)
            else:
                svg.write_text(drawn, encoding="utf-8")
        with beside(svg):
            if as_json:
                say_json([row.record() for row in rows])
            else:
                _print(f"{title}, {seeds} seed{'s' if seeds > 1 else ''}", rows)

    return command


def _in_a_folder(ctx: click.Context, parameter: click.Parameter, file: Path | None) -> Path | None:
    """Refuse a file that could not be written at the end of the run."""
    if file is not None and not (file.parent.is_dir() and os.access(file.parent, os.W_OK)):
        raise click.BadParameter(f"nothing can be written to the directory '{file.parent}'; make it, or name another")
    return file


def _print(title: str, rows: list[Row]) -> None:
    say(title)
    cells = [list(line) for row in rows for line in row.cells()]
    for above, line in zip(reversed(cells[:-1]), reversed(cells[1:]), strict=True):
        if line[0] == above[0]:
            line[0] = ""
    columns(_HEADS, cells, "nothing was measured")


static = _command(
    "static",
    STATIC,
    """Simulate messages while nothing fails.

    Rings are whole, and ten messages go out, one after the other; then ten where all links are equally long, since
    else a copy over more hops may overtake one over fewer; then ten of 16 KiB, which go along the ring, and of which
    random links get the ids.
    """,
)
bootstrap = _command(
    "bootstrap",
    BOOTSTRAP,
    """Simulate nodes that all know one of them, until each knows its two neighbours on the ring.

    Of the cycles the first 30 last a second, the others ten. 10,000 nodes take minutes.
    """,
)
hub = _command(
    "hub",
    HUB,
    """Simulate nodes that come within a second by a link that names one of them.

    They meet within the limits of a node: how many partners it has, how many it answers, whose signatures it verifies,
    and how many connections it dials at once. Of 30 cycles each lasts a second. 2,000 nodes take minutes.
    """,
)
catastrophe = _command(
    "catastrophe",
    CATASTROPHE,
    """Simulate the first message after half of all nodes, or 70 %, died at once.

    No ring is mended yet: a node learns that a neighbour is dead only because it does not take a copy within 3 s.
    """,
)
healing = _command(
    "healing",
    HEALING,
    """Simulate a network of which half dies, until its ring is right again.

    A message goes out in each cycle of 10 s. Cycles: how many passed until a message, and all after it, reached every
    node that lives within 30 s; and until each knew its two neighbours on the ring. Hit: of the tenth message.
    """,
)
churn = _command(
    "churn",
    CHURN,
    """Simulate nodes that die and join: 0.2 %, then 1 % of all in each cycle of 10 s.

    One that joins knows one other. A message goes out in each cycle; the share is of nodes that lived before it and
    live at the end, within 30 s.
    """,
)
loss = _command(
    "loss",
    LOSS,
    """Simulate links that lose 5 % of all copies.

    The copies are acknowledged first, so nobody sends them again: only what later messages name brings them back. The
    figures are those at once, two and eight messages later, one each 30 s.
    """,
)
droppers = _command(
    "droppers",
    DROPPERS,
    """Simulate nodes that take custody of every message and forward none: 10 %, then 20 % with F greater by one.

    The figures are of the other nodes: at once, two and eight messages later, one each 30 s.
    """,
)
withholding = _command(
    "withholding",
    WITHHOLDING,
    """Simulate nodes that judge each other by what they hold, for 80 minutes with a message each 20 s.

    A tenth or a third take every copy and hold none, or hold it and pass none on. Of the honest ones a tenth is slow, a
    fifth freezes, restarts, takes nothing for some minutes, or has little room for history; and a third of all is cut
    off for six minutes near the end. Hit, and the share of copies that go to droppers: of the first ten minutes, and of
    ten minutes after 50, when the first bars still last. 1,000 nodes take some minutes.
    """,
)
topics = _command(
    "topics",
    TOPICS,
    """Simulate as many topics as nodes, of which each node wants ten: the n-th topic in proportion to 1/n.

    Each node begins with two hints for a topic, random members that came before it; then again with none, so that
    nodes find each other by filters. Of the cycles the first 30 last a second, the others ten. Then messages are
    published in some topics. Distinct neighbours: on the rings of all topics of a node, with 10 and with 100 topics.
    1,000 nodes take some minutes.
    """,
)
many = _command(
    "many",
    MANY,
    """Simulate two services that agree by ranges on the groups that both want.

    Each wants ten groups for each of --nodes: half of them in common, all, all but ten, or none. Bytes are those of
    both sides, without the meeting before; an id is one group of one side.
    """,
    MANY_NODES_MAX,
)
rendezvous = _command(
    "rendezvous",
    RENDEZVOUS,
    """Simulate points of rendezvous, which the service does not have: records of a group at the routers nearest to it.

    Groups of two routers among --nodes, half of which begin together, half minutes apart. A fifth of all routers lie,
    each in one of four ways: they tell of liars alone and of no record, tell of routers that do not exist, return
    records that they made, or write down what they see. Then all is compared with records at random routers, and keys
    are ground for the point of a group by who knows it. Bytes are those of a day in which a record is left twice,
    divided by 24. 10,000 nodes take minutes.
    """,
)
privacy = _command(
    "privacy",
    PRIVACY,
    """Simulate guesses from filters whether their owners want a topic whose key is known.

    Advantage: the share of those who want it that the best rule finds, less the share of others that it takes for
    such; 0 is chance, 1 is certainty.
    """,
)
reconcile = _command(
    "reconcile",
    RECONCILE,
    """Simulate nodes that compare what they have.

    Two sets of 100,000 ids: none missing, the newest 20,000, 100 at random. Then a network in which each node missed a
    tenth of 200 messages: every 5 minutes each compares with a random other.
    """,
)
baselines = _command(
    "baselines",
    BASELINES,
    """Simulate this protocol beside others.

    Random gossip with and without a retry at the dead, a tree of HyParView and Plumtree, and a GossipSub mesh: with all
    nodes alive, and right after half or 70 % died. Cyclon's figures are published, and check the simulator; its time
    is counted in rounds, so it is not drawn.
    """,
)
