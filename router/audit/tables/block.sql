-- The ends of a parcel's messages at one recipient, and raw counts of lines. A row stands for 32 messages, one bit each
-- for each end; where every line is about the whole parcel, as most are, the first bit stands for all of its messages.
CREATE TABLE part AS
SELECT DISTINCT line, recipient FROM piece WHERE start < stop AND (start > 0 OR stop < n);

CREATE TABLE block AS
WITH whole AS (
    SELECT line, recipient, n,
        bit_or(1::USMALLINT << enum_code(event))::UINTEGER AS states,
        bool_or(is_flying)::UINTEGER AS flying,
        count(*) FILTER (event = 'delivered') AS deliveries,
        count(*) FILTER (event = 'forwarded') AS forwards,
        count(*) FILTER (event = 'deferred') AS deferred
    FROM piece
    WHERE start < stop
    GROUP BY line, recipient, n
    HAVING bool_and(start = 0 AND stop = n)
)
SELECT
    line, recipient, 0 AS block, n, TRUE AS is_whole,
    (states >> enum_code('delivered'::outward)) & 1 AS delivered,
    (states >> enum_code('acked'::outward)) & 1 AS acked,
    (states >> enum_code('unconfirmed'::outward)) & 1 AS unconfirmed,
    (states >> enum_code('refused'::outward)) & 1 AS refused,
    (states >> enum_code('expired'::outward)) & 1 AS expired,
    (states >> enum_code('dropped'::outward)) & 1 AS dropped,
    (states >> enum_code('evicted'::outward)) & 1 AS evicted,
    (states >> enum_code('forwarded'::outward)) & 1 AS forwarded,
    flying, n * deliveries AS deliveries, n * forwards AS forwards, n * deferred AS deferred
FROM whole
UNION ALL
SELECT
    line, recipient, block, n, FALSE,
    coalesce(bit_or(mask) FILTER (event = 'delivered'), 0),
    coalesce(bit_or(mask) FILTER (event = 'acked'), 0),
    coalesce(bit_or(mask) FILTER (event = 'unconfirmed'), 0),
    coalesce(bit_or(mask) FILTER (event = 'refused'), 0),
    coalesce(bit_or(mask) FILTER (event = 'expired'), 0),
    coalesce(bit_or(mask) FILTER (event = 'dropped'), 0),
    coalesce(bit_or(mask) FILTER (event = 'evicted'), 0),
    coalesce(bit_or(mask) FILTER (event = 'forwarded'), 0),
    coalesce(bit_or(mask) FILTER (is_flying), 0),
    coalesce(sum(bit_count(mask)) FILTER (event = 'delivered'), 0)::BIGINT,
    coalesce(sum(bit_count(mask)) FILTER (event = 'forwarded'), 0)::BIGINT,
    coalesce(sum(bit_count(mask)) FILTER (event = 'deferred'), 0)::BIGINT
FROM (
    SELECT line, recipient, event, is_flying, block, n,
        (bits_below(stop - 32 * block) - bits_below(start - 32 * block))::UINTEGER AS mask
    FROM (
        SELECT *, unnest(range(start >> 5, ((stop - 1) >> 5) + 1))::INTEGER AS block
        FROM piece SEMI JOIN part USING (line, recipient)
        WHERE start < stop
    )
)
GROUP BY line, recipient, block, n;

-- Ends of messages that have no state: outside of their parcel, of a parcel that is not here, or of a recipient that the
-- parcel does not name.
CREATE TABLE stray AS
SELECT router, event, sum(count)::BIGINT AS count
FROM (
    SELECT router, event, count - (stop - start) AS count FROM piece WHERE count > stop - start
    UNION ALL
    SELECT router, event, stop - start
    FROM piece
    SEMI JOIN (SELECT line, recipient FROM block ANTI JOIN owed USING (line, recipient)) USING (line, recipient)
)
GROUP BY router, event
HAVING sum(count) > 0 AND event NOT IN ('forwarded', 'deferred');
