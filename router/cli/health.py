"""`router health`: one question, one exit code, for supervisors and containers."""

from __future__ import annotations

from typing import Any

import click

from router.cli.ask import ask
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit
from router.cli.output import for_this_home, say, say_json
from router.cli.spans import Seconds
from router.core.wire.text import clean

TIMEOUT_S = 5.0


@click.command(cls=Command)
@click.option(
    "--timeout", type=Seconds(0.1, 600), default=TIMEOUT_S, show_default="5 s", help="How long the node may take."
)
@json_option
def health(timeout: float, as_json: bool) -> None:
    """Ask the node whether it does all that it is there for: code 0; 1 with the reasons; 3 if it does not run."""
    found: dict[str, Any] = ask(invocation().home, "metrics", timeout_s=timeout)
    reasons = found["unready"]
    if as_json:
        say_json({"ready": not reasons, "reasons": [{"reason": word, "text": text} for word, text in reasons]})
    else:
        for line in [f"{word}: {clean(text, 1000)}" for word, text in reasons] or ["ready"]:
            say(for_this_home(line))
    if reasons:
        raise SystemExit(Exit.FAILED)
