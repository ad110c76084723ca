-- Deliveries of an id that the same recipient had from the same router under another arrival number.
INSERT INTO repeated_delivery
WITH again AS (
    SELECT router, low, high
    FROM accepted_id
    WHERE is_within
    GROUP BY router, low, high
    HAVING count(*) > 1
),
delivered AS (
    SELECT router, recipient, low, high, count(*) AS times
    FROM (SELECT * FROM accepted_id WHERE is_within)
    SEMI JOIN again USING (router, low, high)
    JOIN block USING (line)
    JOIN owed USING (line, recipient)
    WHERE is_of(i, block, is_whole) AND has(delivered, i, is_whole)
    GROUP BY router, recipient, low, high
)
SELECT router, sum(times - 1)::BIGINT AS repeats
FROM delivered
GROUP BY router
HAVING sum(times - 1) > 0;
