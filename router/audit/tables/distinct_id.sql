-- Messages, and how many acceptances are not the first of that id at that router (at most 63 routers: a bit each).
CREATE TABLE distinct_id AS
SELECT count(*) AS messages, coalesce(sum(times - bit_count(there)), 0)::BIGINT AS accepted_again
FROM (
    SELECT low, high, count(*) AS times, bit_or(1::BIGINT << router) AS there
    FROM accepted_id
    WHERE is_within
    GROUP BY low, high
);
