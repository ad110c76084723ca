"""Print what comes to a group, up to one text: `python -m rigs.blocking_reader GROUP NAME TEXT`."""

from __future__ import annotations

import sys

import router


def main(group: str, name: str, last: str) -> None:
    journal = router.Home.chosen().path / f"{name}.journal"
    with router.connect_blocking(as_name=name, journal=journal) as node:
        for message in node.join(group):
            print(message.body.decode(), flush=True)
            if message.body == last.encode():
                message.settle()
                break


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        pass
