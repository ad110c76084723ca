-- Deliveries of an id that the same recipient got from the same router under another arrival number.
CREATE TABLE repeated_delivery AS
WITH accepted_again AS (
    SELECT line, router, i, low, high
    FROM accepted_id SEMI JOIN (SELECT * FROM message_id WHERE is_again) again USING (low, high)
    WHERE is_within
),
delivered AS (
    SELECT router, recipient, low, high, count(*) AS times
    FROM owed JOIN (
        SELECT line, recipient, router, low, high
        FROM block JOIN accepted_again USING (line)
        WHERE is_of(i, block, is_whole) AND has(delivered, i, is_whole)
    ) USING (line, recipient)
    GROUP BY router, recipient, low, high
)
SELECT router, sum(times - 1)::BIGINT AS repeats
FROM delivered
GROUP BY router
HAVING sum(times - 1) > 0;
