-- The same of any number of routers.
CREATE TABLE distinct_id AS
SELECT count(*) AS messages, coalesce(sum(again), 0)::BIGINT AS accepted_again
FROM (
    SELECT low, high, sum(times - 1) AS again
    FROM (
        SELECT low, high, router, count(*) AS times
        FROM accepted_id
        WHERE is_within
        GROUP BY low, high, router
    )
    GROUP BY low, high
);
