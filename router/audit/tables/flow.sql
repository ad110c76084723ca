-- What the tables of `gold_sql` are made of, with keys for numbers.

-- When each log starts and ends.
CREATE VIEW log_span AS
SELECT key AS router, least(start_ns, getvariable('as_of_ns')) AS start_ns,
    least(end_ns, getvariable('as_of_ns')) AS end_ns
FROM log_end JOIN routers USING (router);

-- Links to neighbours that came up and went down, and starts; before_t: the time of the router's line about itself
-- before that. Links of local apps and sums over several links are left out.
CREATE TABLE link_line AS
SELECT key AS router, seq, least(change.t, getvariable('as_of_ns')) AS t, event,
    CASE WHEN event <> 'start' THEN peer END AS peer, link, before_t
FROM change
JOIN (
    SELECT router, seq, lag(least(t, getvariable('as_of_ns'))) OVER (PARTITION BY router ORDER BY seq) AS before_t
    FROM events
    WHERE recipient IS NULL AND list_contains(getvariable('state_events'), event)
) said USING (router, seq)
JOIN routers USING (router)
WHERE event = 'start'
    OR event IN ('link_up', 'link_down') AND peer IS NOT NULL AND standing IS DISTINCT FROM 'local';

-- How far the clocks of routers jumped, by their own word.
CREATE TABLE clock_step AS
SELECT key AS router, least(t, getvariable('as_of_ns')) AS t, CASE WHEN said[1] = '-' THEN -1 ELSE 1 END * least(seconds, 1_000_000_000) AS by_s
FROM (
    SELECT router, t, fields['by_s'] AS said, number_of_text(ltrim(fields['by_s'], '-')) AS seconds
    FROM events
    WHERE event = 'clock_step' AND recipient IS NULL
) JOIN routers USING (router)
WHERE seconds IS NOT NULL;

-- Messages accepted, by what brought them.
CREATE TABLE arrival AS
SELECT routers.key AS router, hour, kind, groups.key AS group_key, peers.key AS peer, messages, bytes
FROM (
    SELECT router, minute // 60 AS hour, kind, CASE WHEN kind <> 'unicast' THEN signer END AS signer, peer,
        sum(n)::BIGINT AS messages, coalesce(sum(bytes), 0)::BIGINT AS bytes
    FROM accepted
    WHERE is_within
    GROUP BY ALL
) sums
JOIN routers USING (router)
LEFT JOIN keys groups ON groups.id = sums.signer
LEFT JOIN keys peers ON peers.id = sums.peer;

-- Messages written to neighbours, each time that they were.
CREATE TABLE handed AS
WITH linked AS (
    SELECT routers.router, keys.id AS recipient
    FROM (SELECT DISTINCT router, peer FROM link_line WHERE peer IS NOT NULL) pair
    JOIN routers ON routers.key = pair.router
    JOIN keys ON keys.key = pair.peer
),
sized AS NOT MATERIALIZED (
    SELECT written.router, written.recipient, minute // 60 AS hour, accepted.kind, stop - start AS messages,
        CASE WHEN stop - start = accepted.n THEN accepted.bytes ELSE least(accepted.bytes, coalesce(
            list_sum(sizes[start + 1:stop]), (stop - start) * (accepted.bytes // accepted.n)
        ))::BIGINT END AS bytes
    FROM (
        SELECT line, router, recipient, minute, start, stop
        FROM piece SEMI JOIN linked USING (router, recipient)
        WHERE event = 'forwarded' AND start < stop AND is_asked(t)
    ) written
    JOIN (SELECT line, n, kind, bytes FROM accepted) accepted USING (line)
    LEFT JOIN (SELECT line, sizes FROM accepted_line SEMI JOIN part USING (line)) cut USING (line)
)
SELECT routers.key AS router, keys.key AS recipient, hour, messages, bytes, copies
FROM (
    SELECT router, recipient, hour, sum(messages)::BIGINT AS messages, coalesce(sum(bytes), 0)::BIGINT AS bytes,
        coalesce(sum(messages) FILTER (kind = 'copy'), 0)::BIGINT AS copies
    FROM sized
    GROUP BY router, recipient, hour
) sums
JOIN routers USING (router)
JOIN keys ON keys.id = sums.recipient;

CREATE VIEW reason AS
SELECT key AS router, least(t, getvariable('as_of_ns')) // 3_600_000_000_000 AS hour, event, reason,
    recipient IS NULL AND event IN ('refused', 'duplicate') AS at_door, count,
    CASE WHEN at_door THEN coalesce(bytes, 0) END AS bytes, 1 AS lines
FROM events JOIN routers USING (router)
WHERE reason IS NOT NULL AND is_asked(t);

-- The limit of each router's queues, as its last `config` states it.
CREATE VIEW queue_limit AS
SELECT key AS router, number_of_text(arg_max(fields, seq)['queue_messages_max']) AS messages_max
FROM events JOIN routers USING (router)
WHERE event = 'config'
GROUP BY key;

CREATE VIEW served AS
SELECT key AS router, least(t, getvariable('as_of_ns')) // 3_600_000_000_000 AS hour, fields['service'] AS service,
    event, reason, coalesce(count, 1) AS count, 1 AS lines
FROM events JOIN routers USING (router)
WHERE recipient IS NULL AND fields['service'] IS NOT NULL AND is_asked(t);

CREATE VIEW passed_on AS
SELECT routers.key AS router, keys.key AS recipient, accepted.minute // 60 AS hour, acked, followed,
    CASE WHEN is_known THEN acked - followed ELSE 0 END AS broken,
    CASE WHEN is_known THEN 0 ELSE acked - followed END AS unknown
FROM handover
JOIN accepted USING (line)
JOIN routers ON routers.router = handover.router
JOIN keys ON keys.id = handover.recipient;
