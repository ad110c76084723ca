-- What became of 32 messages of a parcel at one recipient: one bit a message for each end, and raw counts.
CREATE TABLE block AS
SELECT
    line, recipient, block, n,
    coalesce(bit_or(mask) FILTER (event = 'delivered'), 0) AS delivered,
    coalesce(bit_or(mask) FILTER (event = 'acked'), 0) AS acked,
    coalesce(bit_or(mask) FILTER (event = 'unconfirmed'), 0) AS unconfirmed,
    coalesce(bit_or(mask) FILTER (event = 'refused'), 0) AS refused,
    coalesce(bit_or(mask) FILTER (event = 'expired'), 0) AS expired,
    coalesce(bit_or(mask) FILTER (event = 'dropped'), 0) AS dropped,
    coalesce(bit_or(mask) FILTER (event = 'evicted'), 0) AS evicted,
    coalesce(bit_or(mask) FILTER (event = 'forwarded'), 0) AS forwarded,
    coalesce(bit_or(mask) FILTER (is_flying), 0) AS flying,
    coalesce(sum(bit_count(mask)) FILTER (event = 'delivered'), 0)::BIGINT AS deliveries,
    coalesce(sum(bit_count(mask)) FILTER (event = 'forwarded'), 0)::BIGINT AS forwards,
    coalesce(sum(bit_count(mask)) FILTER (event = 'deferred'), 0)::BIGINT AS deferred
FROM (
    SELECT line, recipient, event, is_flying, block, n,
        bits_below(stop - 32 * block) - bits_below(start - 32 * block) AS mask
    FROM (
        SELECT *, unnest(range(start >> 5, ((stop - 1) >> 5) + 1)) AS block
        FROM piece
        WHERE start < stop
    )
)
GROUP BY line, recipient, block, n;

-- Messages of outward lines that are in no state: outside of their parcel, of a parcel that is not here, or of a
-- recipient that the parcel does not name.
CREATE TABLE stray AS
SELECT router, event, sum(count)::BIGINT AS count
FROM (
    SELECT router, event, count - (stop - start) AS count FROM piece
    UNION ALL
    SELECT router, event, stop - start FROM piece ANTI JOIN owed USING (line, recipient)
)
GROUP BY router, event
HAVING sum(count) > 0;
