"""Hours of a router of which nothing is sure by its wall clock, because the clock jumped across them.

Part of the texts of `gold_sql`, read by both engines. `clock_step`: each line by which a router says that its clock
jumped: router, t (the time after it), by_s (the seconds, negative if it was set back).
"""

from __future__ import annotations

HOUR_NS = 3600 * 10**9
SECONDS_MAX = 10**9
"""The longest jump that is followed, in seconds: 31 years; a longer one counts as so long."""
STEPS_MAX = 1000
"""The most different jumps of a router that are followed, by the hours in which they begin and end."""
HOURS_MAX = 7 * 24
"""The most hours at the beginning and at the end of a jump."""
SPOILT = f"""
jump AS (
    SELECT router, first, last, row_number() OVER (PARTITION BY router ORDER BY first, last) AS place
    FROM (
        SELECT DISTINCT router,
            CAST(floor(CAST(least(t, t - by_s * 1000000000) AS DOUBLE) / {HOUR_NS}) AS BIGINT) AS first,
            CAST(floor(CAST(greatest(t, t - by_s * 1000000000) AS DOUBLE) / {HOUR_NS}) AS BIGINT) AS last
        FROM {{clock_step}}
        WHERE by_s <> 0
    ) edges
),
spoilt AS (
    SELECT DISTINCT router, hour
    FROM (
        SELECT router, explode(sequence(first, least(last, first + {HOURS_MAX}))) AS hour
        FROM jump WHERE place <= {STEPS_MAX}
        UNION ALL
        SELECT router, explode(sequence(greatest(first, last - {HOURS_MAX}), last))
        FROM jump WHERE place <= {STEPS_MAX}
    ) hours
)"""
"""Two tables for a `WITH`; the second, `spoilt`, has the key (router, hour)."""
