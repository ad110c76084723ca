"""Completion of commands, options and names in a shell."""

from __future__ import annotations

import click

from router.cli.command import Command
from router.cli.output import say

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_ROUTER_COMPLETE"
"""The environment variable by which a script asks the program: click reads it."""


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in SHELL.

    \b
    bash:  router completion bash > ~/.local/share/bash-completion/completions/router
    zsh:   router completion zsh > "${fpath[1]}/_router"
    fish:  router completion fish > ~/.config/fish/completions/router.fish

    It takes effect in the next shell.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    root = click.get_current_context().find_root().command
    instance = kind(root, {}, "router", VARIABLE)
    say((instance.source_template % instance.source_vars()).strip())
