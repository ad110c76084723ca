-- One row for each range of an outward line: messages start .. stop-1 of the parcel `line`, counted from its first. A
-- range outside the parcel, or of none, has start = stop: the rest of `count` are strays. is_away: a copy that ended
-- because the next router was away, which may be before its time.
CREATE TABLE piece AS
WITH outward_line AS NOT MATERIALIZED (
    SELECT * FROM events WHERE recipient IS NOT NULL AND try_cast(event AS outward) IS NOT NULL
),
ranges AS NOT MATERIALIZED (
    SELECT router, seq, t, mono, boot, event, recipient, parcel, link, depth, reason,
        range_first AS first, n AS count
    FROM outward_line
    WHERE n > 0
    UNION ALL
    SELECT router, seq, t, mono, boot, event, recipient, parcel, link, depth, reason, range[1], range[2]
    FROM (SELECT *, unnest(more_ranges) AS range FROM outward_line WHERE more_ranges IS NOT NULL)
    WHERE range[2] > 0
)
SELECT
    accepted.line, accepted.n, ranges.router, recipients.id AS recipient, event::outward AS event,
    CASE WHEN accepted.n IS NULL THEN 0 ELSE greatest(0, least(accepted.n, ranges.first - ranges.parcel)) END::INTEGER AS start,
    CASE WHEN accepted.n IS NULL THEN 0
        ELSE greatest(0, least(accepted.n, ranges.first - ranges.parcel + count::HUGEINT)) END::INTEGER AS stop,
    count, depth, ranges.t,
    event = 'forwarded' AND open_link.link IS NOT NULL AND ranges.seq > run_seq AS is_flying,
    minute_of(ranges.t) AS minute,
    accepted.minute AS accepted_minute,
    accepted.is_within,
    event = 'expired' AND reason = 'next-away' AND accepted.kind = 'copy' AS is_away,
    CASE WHEN event IN ('delivered', 'acked') THEN
        CASE WHEN ranges.seq < accepted.seq THEN -1
            WHEN boots.id = accepted.boot AND ranges.mono IS NOT NULL AND accepted.mono IS NOT NULL
            THEN ranges.mono - accepted.mono
            WHEN accepted.seq < last_step_seq AND ranges.seq > first_step_seq THEN getvariable('over_step_ns')
            ELSE ranges.t - accepted.t END
    END AS wait_ns
FROM ranges
JOIN keys recipients ON recipients.key = ranges.recipient
LEFT JOIN keys boots ON boots.key = ranges.boot
LEFT JOIN accepted ON accepted.router = ranges.router AND accepted.parcel = ranges.parcel
LEFT JOIN open_link ON open_link.router = ranges.router AND open_link.link = ranges.link
JOIN log_end ON log_end.router = ranges.router;
