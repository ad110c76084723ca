-- `message_id` for any number of routers; is_unsent: it has yet to be checked.
CREATE TABLE message_id AS
SELECT low, high, sum(within)::BIGINT AS times, count(*) FILTER (within > 0) AS routers, bool_or(ever > 1) AS is_again,
    bool_or(is_brought) AS is_unsent
FROM (
    SELECT low, high, router, count(*) FILTER (NOT is_copy) AS ever,
        count(*) FILTER (is_within AND NOT is_copy) AS within,
        bool_or(brought IS NOT NULL AND is_within) AS is_brought
    FROM accepted_id
    GROUP BY low, high, router
)
GROUP BY low, high;
