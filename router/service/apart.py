"""One service in a process of its own: `python -m router.service.apart HOME NAME`.

For `run = "apart"` the node starts it, and holds the other end of its standard input: when that closes, this process
ends. For `run = "by-hand"` a person starts it, with a terminal or nothing at standard input. SIGTERM, SIGHUP and
Ctrl-C end a running service with exit code 0; before it runs they end the process as usual.
"""

from __future__ import annotations

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports below would end with a traceback.

import faulthandler
import logging
import sys

import trio

from router.actors.actor import as_failure
from router.actors.process import end_with_parent, stop_signals
from router.actors.process_log import log_to
from router.core.wire.errors import RouterError, cause_of
from router.service.plugins import load
from router.service.reports import ENDED, Reports
from router.service.running import run
from router.settings import config as configuration
from router.settings import core_dumps
from router.settings.config_services import instances
from router.settings.home import Home


async def serve(home: Home, name: str) -> None:
    """Run the service of that name as the configuration of the home describes it, until a stop signal."""
    try:
        await _serve(home, name)
    except Exception as error:
        await Reports(home, name).at_once(ENDED, cause_of(as_failure(error)))
        raise


async def _serve(home: Home, name: str) -> None:
    config, _ = configuration.load(home.config_path)
    named = {one.name: one for one in instances(config.node.services)}
    if name not in named:
        known = ", ".join(named) or "none"
        raise RouterError(f'node.services in {home.config_path} names no service "{name}"; it names {known}')
    plugin, options = load(named[name].module), config.services.get(name, {})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_until_signalled, nursery.cancel_scope)
        await run(plugin, name, home, options, config)


async def _until_signalled(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(*stop_signals()) as signals:
        async for _ in signals:
            scope.cancel()


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python -m router.service.apart HOME NAME")
    log_to(logging.WARNING, f"{sys.argv[2].replace('%', '%%')}: %(message)s")
    core_dumps.hide_memory()
    faulthandler.enable()  # a crash below Python says where, too
    end_with_parent()
    try:
        trio.run(serve, Home(sys.argv[1]), sys.argv[2])
    except RouterError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
