"""`router dmq`: run and use a node of the Decentralized Message Queue. Each command has a file of its own."""

from __future__ import annotations

import click

from router.cli.command import CommandGroup
from services.dmq.bench_command import bench
from services.dmq.client_commands import submit, watch
from services.dmq.conform_command import conform
from services.dmq.demo_command import demo
from services.dmq.doctor_command import doctor
from services.dmq.node_commands import again, mempool, peers, reload, status
from services.dmq.serve_command import serve
from services.dmq.signing_commands import keygen, sign
from services.dmq.verify_command import verify

COMMANDS = {
    "dmq": "Run and use nodes of Cardano's Decentralized Message Queue.",
}


@click.group(cls=CommandGroup)
def dmq() -> None:
    """Run and use nodes of Cardano's Decentralized Message Queue (CIP-137)."""


for _command in (
    serve,
    status,
    peers,
    mempool,
    reload,
    again,
    demo,
    verify,
    keygen,
    sign,
    submit,
    watch,
    conform,
    doctor,
    bench,
):
    dmq.add_command(_command)
