"""For all tests: hypothesis looks for wrong values, not for slow ones; and the one Spark session."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:  # As under nohup; children inherit it.
        signal.signal(number, default)

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from spark_analytics.session import local_session

    session = local_session(2, "2g", str(tmp_path_factory.mktemp("spark")), log_bytes=0)
    yield session
    session.stop()
