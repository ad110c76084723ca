"""Draw the tables of protocols for the documents."""

from __future__ import annotations

from math import inf

from router.core.link.machine import Agency, Table


def mermaid(table: Table) -> str:
    """Return the state diagram for the documents, drawn from the table itself."""
    lines = ["stateDiagram-v2", f"    [*] --> {next(iter(table)).value}"]
    for state, row in table.items():
        lines += [
            f"    {state.value} --> {to.value} : {row.agency.value}: {message.__name__}"
            for message, to in row.on.items()
        ]
        if row.agency is Agency.NOBODY:
            lines.append(f"    {state.value} --> [*]")
        limits = [
            f"{limit:.7g} {unit}" for limit, unit in ((row.timeout_s, "s"), (row.bytes_max, "bytes")) if limit < inf
        ]
        if limits:
            lines.append(f"    note right of {state.value} : at most {', '.join(limits)}")
    return "\n".join(lines) + "\n"
