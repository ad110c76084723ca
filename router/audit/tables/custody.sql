-- Messages that another router took over (acked), where that router's log is given too: whether their acceptance is in
-- it. A message for that router itself has arrived, and is accepted nowhere.
CREATE TABLE taker AS
SELECT id AS recipient, router AS taker FROM keys JOIN routers USING (key);

CREATE TABLE taken AS
SELECT line, recipient, router, taker, t, block.n, block, is_whole, acked & (~delivered) AS mask
FROM block
JOIN taker USING (recipient)
JOIN accepted USING (line)
JOIN owed USING (line, recipient)
WHERE acked & (~delivered) <> 0 AND is_within AND destination IS DISTINCT FROM recipient;

CREATE VIEW taken_message AS
SELECT taken.line, recipient, taken.router, taker, taken.t, i, low, high
FROM accepted_id JOIN taken USING (line)
WHERE is_of(i, block, is_whole) AND has(mask, i, is_whole);

-- By parcel and taker: acked_t: when its last message was acknowledged. upper_ns, lower_ns: bounds of the taker's clock
-- minus the router's, because the taker accepted after the router did, and before the router got the acknowledgement.
CREATE TABLE handover AS
WITH acks AS (
    SELECT line, recipient, max(t) AS acked_t
    FROM piece
    WHERE event = 'acked' AND start < stop
    GROUP BY line, recipient
),
there AS (
    -- The time when a taker accepted a message first: few are accepted more than once.
    SELECT router, low, high, t
    FROM accepted_id ANTI JOIN (SELECT * FROM message_id WHERE is_again) again USING (low, high)
    UNION ALL
    SELECT router, low, high, min(t)
    FROM accepted_id SEMI JOIN (SELECT * FROM message_id WHERE is_again) again USING (low, high)
    GROUP BY router, low, high
),
met AS (
    SELECT line, recipient, here.router, taker, here.t,
        count(*) AS acked, count(there.t) AS followed, min(there.t) AS first_there_t, max(there.t) AS last_there_t
    FROM taken_message here
    LEFT JOIN there ON there.router = here.taker AND there.low = here.low AND there.high = here.high
    GROUP BY ALL
),
clock AS (
    SELECT router, recipient, max(last_there_t - acked_t) AS lower_ns, min(first_there_t - t) AS upper_ns
    FROM met JOIN acks USING (line, recipient)
    GROUP BY router, recipient
)
SELECT
    line, met.router, met.recipient, taker, acked, followed, lower_ns, upper_ns,
    -- Its log is whole and goes, by its own clock, from before the acceptance here to after the acknowledgement.
    coalesce(
        is_whole AND end_ns >= acked_t::HUGEINT + coalesce(greatest(lower_ns, upper_ns), 0)
            AND (pruned_to = 0 OR start_ns <= met.t::HUGEINT + coalesce(least(lower_ns, upper_ns), 0)),
        FALSE
    ) AS is_known
FROM met
JOIN acks USING (line, recipient)
JOIN clock USING (router, recipient)
JOIN routers taker ON taker.router = met.taker
LEFT JOIN log_end ON log_end.router = met.taker;

-- The messages that the taker is known not to have accepted.
CREATE TABLE broken_handover AS
WITH lacking AS (
    SELECT line, recipient, taker FROM handover WHERE is_known AND followed < acked
)
SELECT line, router, recipient, i
FROM (SELECT * FROM taken_message SEMI JOIN lacking USING (line, recipient)) here
ANTI JOIN (
    SELECT router AS taker, low, high FROM accepted_id WHERE router IN (SELECT taker FROM lacking)
) there USING (taker, low, high);

-- The recipient's clock minus the router's lies between lower_ns and upper_ns.
CREATE TABLE custody AS
SELECT
    routers.key AS router, keys.key AS recipient,
    sum(acked)::BIGINT AS acked,
    sum(followed)::BIGINT AS followed,
    coalesce(sum(acked - followed) FILTER (is_known), 0)::BIGINT AS broken,
    coalesce(sum(acked - followed) FILTER (NOT is_known), 0)::BIGINT AS unknown,
    any_value(lower_ns) AS lower_ns,
    any_value(upper_ns) AS upper_ns
FROM handover JOIN routers USING (router) JOIN keys ON keys.id = handover.recipient
GROUP BY routers.key, keys.key;
