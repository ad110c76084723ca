-- One row for each range of an outward line: messages start .. stop-1 of the parcel `line`, counted from its first. A
-- range outside the parcel, or without one, has start = stop: the rest of `count` are strays.
CREATE TABLE piece AS
WITH outward_line AS NOT MATERIALIZED (
    SELECT * FROM events WHERE recipient IS NOT NULL AND try_cast(event AS outward) IS NOT NULL
),
ranges AS NOT MATERIALIZED (
    SELECT router, seq, t, mono, boot, event, recipient, parcel, link, depth,
        range_first AS first, n AS count
    FROM outward_line
    WHERE n > 0
    UNION ALL
    SELECT router, seq, t, mono, boot, event, recipient, parcel, link, depth, range[1], range[2]
    FROM (SELECT *, unnest(more_ranges) AS range FROM outward_line WHERE more_ranges IS NOT NULL)
    WHERE range[2] > 0
),
placed AS NOT MATERIALIZED (
    SELECT * FROM ranges WHERE parcel IS NOT NULL
    UNION ALL BY NAME
    -- Lines of older routers do not name the parcel, which is the last one that begins before the range.
    SELECT ranges.* REPLACE (accepted.parcel AS parcel)
    FROM (SELECT * FROM ranges WHERE parcel IS NULL) ranges
    ASOF LEFT JOIN accepted ON accepted.router = ranges.router AND accepted.parcel <= ranges.first
)
SELECT
    accepted.line, accepted.n, placed.router, recipients.id AS recipient, event::outward AS event,
    CASE WHEN accepted.n IS NULL THEN 0 ELSE greatest(0, least(accepted.n, placed.first - placed.parcel)) END::INTEGER AS start,
    CASE WHEN accepted.n IS NULL THEN 0
        ELSE greatest(0, least(accepted.n, placed.first - placed.parcel + count::HUGEINT)) END::INTEGER AS stop,
    count, depth, placed.t,
    event = 'forwarded' AND open_link.link IS NOT NULL AND placed.seq > run_seq AS is_flying,
    minute_of(placed.t) AS minute,
    accepted.minute AS accepted_minute,
    accepted.is_within,
    CASE WHEN event IN ('delivered', 'acked') THEN
        CASE WHEN boots.id = accepted.boot AND placed.mono IS NOT NULL AND accepted.mono IS NOT NULL
            THEN placed.mono - accepted.mono ELSE placed.t - accepted.t END
    END AS wait_ns
FROM placed
JOIN keys recipients ON recipients.key = placed.recipient
LEFT JOIN keys boots ON boots.key = placed.boot
LEFT JOIN accepted ON accepted.router = placed.router AND accepted.parcel = placed.parcel
LEFT JOIN open_link ON open_link.router = placed.router AND open_link.link = placed.link
JOIN log_end ON log_end.router = placed.router;
