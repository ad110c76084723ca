-- Messages that another router took over (acked), where that router's log is given too: is their acceptance in it?
-- What was for that router itself is at its goal, and accepted nowhere.
CREATE TABLE taker AS
SELECT id AS recipient, router AS taker FROM keys JOIN routers USING (key);

CREATE TABLE taken AS
SELECT line, recipient, taker, block, acked & (~delivered) AS mask
FROM block
JOIN taker USING (recipient)
JOIN accepted USING (line)
JOIN owed USING (line, recipient)
WHERE acked & (~delivered) <> 0 AND is_within AND destination IS DISTINCT FROM recipient;

-- When a taker accepted a message first.
CREATE TABLE accepted_there AS
SELECT router, id_low(ids, i) AS low, id_high(ids, i) AS high, min(t) AS t
FROM (
    SELECT router, ids, t, unnest(range(n)) AS i
    FROM accepted_line
    WHERE router IN (SELECT taker FROM taken)
)
GROUP BY ALL;

-- acked_t: when the parcel's last message was acknowledged.
CREATE TABLE handover AS
WITH acks AS (
    SELECT line, recipient, max(t) AS acked_t
    FROM piece
    WHERE event = 'acked' AND start < stop
    GROUP BY line, recipient
),
messages AS (
    SELECT line, router, recipient, taker, t, i, id_low(ids, i) AS low, id_high(ids, i) AS high
    FROM (
        SELECT *, 32 * block + bit AS i
        FROM (
            SELECT line, accepted_line.router, recipient, taker, t, ids, block, mask, unnest(range(32)) AS bit
            FROM accepted_line JOIN taken USING (line)
        )
        WHERE (mask >> bit::INTEGER) & 1 = 1
    )
),
met AS (
    SELECT here.*, acked_t, there.t AS there_t
    FROM messages here
    JOIN acks USING (line, recipient)
    LEFT JOIN accepted_there there
        ON there.router = here.taker AND there.low = here.low AND there.high = here.high
),
-- The taker's clock minus the router's: it accepted after the router did, and before the router heard so.
clock AS (
    SELECT router, recipient, max(there_t - acked_t) AS lower_ns, min(there_t - t) AS upper_ns
    FROM met
    GROUP BY router, recipient
)
SELECT
    line, met.router, met.recipient, i, met.t, acked_t, there_t, lower_ns, upper_ns,
    CASE
        WHEN there_t IS NOT NULL THEN 'followed'
        -- Its log is whole and goes, by its own clock, from before the acceptance here to after the acknowledgement.
        WHEN is_whole AND end_ns >= acked_t::HUGEINT + coalesce(greatest(lower_ns, upper_ns), 0)
            AND (pruned_to = 0 OR start_ns <= met.t::HUGEINT + coalesce(least(lower_ns, upper_ns), 0)) THEN 'broken'
        ELSE 'unknown'
    END AS custody
FROM met
JOIN clock USING (router, recipient)
JOIN routers taker ON taker.router = met.taker
LEFT JOIN log_end ON log_end.router = met.taker;

-- The recipient's clock minus the router's lies between lower_ns and upper_ns.
CREATE TABLE custody AS
SELECT
    routers.key AS router, keys.key AS recipient,
    count(*) AS acked,
    count(*) FILTER (custody = 'followed') AS followed,
    count(*) FILTER (custody = 'broken') AS broken,
    count(*) FILTER (custody = 'unknown') AS unknown,
    any_value(lower_ns) AS lower_ns,
    any_value(upper_ns) AS upper_ns
FROM handover JOIN routers USING (router) JOIN keys ON keys.id = handover.recipient
GROUP BY routers.key, keys.key;
