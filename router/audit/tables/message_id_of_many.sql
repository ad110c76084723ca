-- `message_id` for any number of routers; is_unsent: it has yet to be checked.
CREATE TABLE message_id AS
SELECT low, high, sum(within)::BIGINT AS times, count(*) FILTER (within > 0) AS routers, bool_or(ever > 1) AS is_again,
    bool_or(is_brought) AS is_unsent, sum(own_brought) < greatest(1, sum(ever)) AS has_origin,
    min(least_fact) <> max(most_fact) OR max(most_size) - min(least_size) NOT IN (0, getvariable('via_bytes')) AS is_unlike
FROM (
    SELECT low, high, router, count(*) FILTER (NOT is_copy) AS ever,
        count(*) FILTER (is_within AND NOT is_copy) AS within,
        bool_or(brought IS NOT NULL AND is_within) AS is_brought,
        count(*) FILTER (NOT is_copy AND brought IS NOT NULL) AS own_brought,
        min(fact) AS least_fact, max(fact) AS most_fact, min(size) AS least_size, max(size) AS most_size
    FROM accepted_id
    GROUP BY low, high, router
)
GROUP BY low, high;
