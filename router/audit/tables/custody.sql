-- Messages that another router took over, where that router's log is given too: whether their acceptance is in it.
-- Acknowledged or delivered: whichever word its log has for a router's end, the other one must know the message. A message
-- for that router itself has arrived, and is accepted nowhere.
CREATE TABLE taker AS
SELECT id AS recipient, router AS taker FROM keys JOIN routers USING (key);

CREATE TABLE taken AS
SELECT line, recipient, router, taker, kind, t, block.n, block, is_whole, acked | delivered AS mask
FROM block
JOIN taker USING (recipient)
JOIN accepted USING (line)
JOIN owed USING (line, recipient)
WHERE acked | delivered <> 0 AND taker <> router AND is_within AND destination IS DISTINCT FROM recipient;

CREATE VIEW taken_message AS
SELECT taken.line, recipient, taken.router, taker, kind, taken.t, i, low, high
FROM accepted_id JOIN taken USING (line)
WHERE is_of(i, block, is_whole) AND has(mask, i, is_whole);

-- By parcel and taker: acked_t: when its last message was acknowledged. upper_ns, lower_ns: bounds of the taker's clock
-- minus the router's: the taker accepted before the router got the acknowledgement, and after the router did if this
-- router was the first to bring it the message. In a mesh it may have had it from elsewhere before. What a restored router
-- accepts it may have accepted before already, which its log does not tell any more: its acceptances bound nothing.
CREATE TABLE handover AS
WITH acks AS (
    SELECT line, recipient, max(t) AS acked_t
    FROM piece SEMI JOIN taker USING (recipient)
    WHERE event IN ('acked', 'delivered') AND start < stop
    GROUP BY line, recipient
),
there AS (
    -- When a router accepted a message first, and who brought it then: few are accepted more than once. A copy that it
    -- sends on itself is accepted later.
    SELECT router, low, high, t, coalesce(brought, -1) AS brought
    FROM accepted_id ANTI JOIN (SELECT * FROM message_id WHERE is_again) again USING (low, high)
    WHERE NOT is_copy
    UNION ALL
    SELECT router, low, high, first.t, first.brought
    FROM (
        SELECT router, low, high, min({'t': t, 'brought': coalesce(brought, -1)}) AS first
        FROM accepted_id SEMI JOIN (SELECT * FROM message_id WHERE is_again) again USING (low, high)
        WHERE NOT is_copy
        GROUP BY router, low, high
    )
),
original AS (
    -- When the router accepted a message first of which it sends copies on: it may have brought it before the copy.
    SELECT router, low, high, min(t) AS t
    FROM accepted_id SEMI JOIN (SELECT router, low, high FROM accepted_id WHERE is_copy) copy USING (router, low, high)
    WHERE NOT is_copy
    GROUP BY router, low, high
),
met AS (
    SELECT line, recipient, here.router, taker, here.kind, here.t,
        count(*) AS acked, count(there.t) AS followed,
        max(there.t) AS last_there_t,
        min(there.t - CASE WHEN here.kind = 'copy' THEN original.t ELSE here.t END)
            FILTER (there.brought = here.router) AS most_ns
    FROM taken_message here
    LEFT JOIN there ON there.router = here.taker AND there.low = here.low AND there.high = here.high
    LEFT JOIN original ON original.router = CASE WHEN here.kind = 'copy' THEN here.router END
        AND original.low = here.low AND original.high = here.high
    GROUP BY ALL
),
clock AS (
    SELECT met.router, recipient,
        max(last_there_t - acked_t) FILTER (NOT there.is_restored) AS lower_ns,
        min(most_ns) FILTER (NOT here.is_restored) AS upper_ns,
        coalesce(any_value(here_move.ns), 0) + coalesce(any_value(there_move.ns), 0) AS moved_ns
    FROM met JOIN acks USING (line, recipient)
    JOIN routers here ON here.router = met.router
    JOIN routers there ON there.router = met.taker
    LEFT JOIN clock_move here_move ON here_move.router = met.router
    LEFT JOIN clock_move there_move ON there_move.router = met.taker
    GROUP BY met.router, recipient
)
SELECT
    line, met.router, met.recipient, taker, acked, followed, lower_ns, upper_ns,
    -- Its log is whole and goes, by its own clock, from before the acceptance here to after the acknowledgement, by as
    -- much longer as either clock was set; for a day longer where it is not known how far that clock may be ahead, and
    -- for `grace_ns` where nothing was followed that could tell. Where its beginning is pruned, only a unicast must be in it: a multicast may have come from
    -- elsewhere before.
    coalesce(
        is_whole AND end_ns >= acked_t::HUGEINT + greatest(lower_ns, coalesce(upper_ns, 0)) + moved_ns
            + CASE
                WHEN lower_ns IS NULL THEN getvariable('grace_ns')
                WHEN upper_ns IS NULL THEN getvariable('slack_ns')
                ELSE 0
            END
            AND (
                pruned_to = 0
                OR kind = 'unicast' AND start_ns <= met.t::HUGEINT + least(coalesce(lower_ns, 0), upper_ns) - moved_ns
            ),
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
    SELECT router AS taker, low, high FROM accepted_id WHERE NOT is_copy AND router IN (SELECT taker FROM lacking)
) there USING (taker, low, high);

-- The recipient's clock minus the router's lies between lower_ns and upper_ns, as far as they are known.
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
