-- The same of any number of routers.
CREATE TABLE message_id AS
SELECT low, high, sum(within)::BIGINT AS times, count(*) FILTER (within > 0) AS routers, bool_or(ever > 1) AS is_again
FROM (
    SELECT low, high, router, count(*) AS ever, count(*) FILTER (is_within) AS within
    FROM accepted_id
    GROUP BY low, high, router
)
GROUP BY low, high;
