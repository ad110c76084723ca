"""`router simulate sampling`: the figures of peer sampling, of many nodes in one process."""

from __future__ import annotations

import click
from msgspec.structs import asdict

from router.cli.command import Command, json_option
from router.cli.output import columns, hint, say, say_json
from services.discovery.simulation.measures import GOALS, Figures, measure

SCENARIOS = {"sampling": "Peer sampling: how even and connected the views are, how they heal, what attackers gain."}

_HEADS = (
    "SEED",
    "IN-DEGREE DEVIATION",
    "COMPONENTS",
    "DEAD ENTRIES",
    "GAIN OF ONE",
    "GAIN OF 50",
    "GAIN OF 50 APART",
)


_ABSENT = {
    "--fanout": "peer sampling forwards nothing, so there is no --fanout",
    "--svg": "peer sampling draws no picture, as its figures are numbers; --json prints them for programs",
}


def _refuse(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Refuse an option of other scenarios that this one does not have."""
    if value is not None:
        raise click.UsageError(f"{_ABSENT[param.opts[0]]}.", ctx)


@click.command(cls=Command)
@click.option("--fanout", hidden=True, expose_value=False, callback=_refuse)
@click.option("--svg", hidden=True, expose_value=False, callback=_refuse)
@click.option("--nodes", type=click.IntRange(20, 100_000), default=1_000, show_default=True, help="How many nodes.")
@click.option("--seeds", type=click.IntRange(1, 1_000), default=1, show_default=True, help="How many runs.")
@click.option(
    "--cycles", type=click.IntRange(2, 10_000), default=40, show_default=True, help="Periods before measuring."
)
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of the first run.")
@json_option
def sampling(nodes: int, seeds: int, cycles: int, seed: int, as_json: bool) -> None:
    """Simulate peer sampling with the code that ships.

    In-degree deviation: how unevenly nodes stand in the views of others. Components: into how many parts the views
    fall after 80 % of the nodes vanish. Dead entries: their share of all views 30 periods after half vanish. Gain:
    attackers' share of what is announced, as a multiple of the fair one; of one identity that asks without end, of 50
    in one public network that send 80 % of the questions, and of 50 in 50 networks that attack a network that runs.

    1,000 nodes take some minutes for each seed, 10,000 ten times as long.
    """
    runs = list[Figures]()
    for number in range(seed, seed + seeds):
        hint(f"seed {number} …")
        runs.append(measure(nodes, cycles, number))
    met = {name: all(getattr(one, name) <= most for one in runs) for name, most in GOALS.items()}
    if as_json:
        unmeasured = dict.fromkeys(("fanout", "hit", "copies", "last_hop", "p99_s"))  # nothing is forwarded
        say_json(
            {"scenario": "sampling", "nodes": nodes, "seeds": seeds, "cycles": cycles, **unmeasured}
            | {"runs": [asdict(one) for one in runs], "goals": GOALS, "met": met}
        )
        return
    names = list(asdict(runs[0]))[1:]
    goals = [f"{GOALS[name]:g}" if name in GOALS else "" for name in names]
    marks = [("yes" if met[name] else "no") if name in met else "" for name in names]
    figures = [[str(one.seed), *(f"{getattr(one, name):.4g}" for name in names)] for one in runs]
    say(f"{nodes:,} nodes, {cycles} periods")
    columns(_HEADS, [*figures, ["at most", *goals], ["met", *marks]], "no runs")
