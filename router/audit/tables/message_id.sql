-- Each message by its id: how often it was accepted in the audit's time span, at how many routers then, and whether any
-- router accepted it more than once at all, copies that it sent on left aside; is_unsent: a router is said to have brought it that did not accept it; is_unlike:
-- acceptances tell different facts of it; has_origin: some router had it from nobody whose log is given, or none but
-- copies are told of. For
-- at most 63 routers, with a bit each.
CREATE TABLE message_id AS
SELECT low, high, times, bit_count(there) AS routers, ever > bit_count(own_ever) AS is_again,
    brought & (~there_ever) <> 0 AS is_unsent, is_unlike, own_brought < greatest(1, ever) AS has_origin
FROM (
    SELECT low, high, bit_or(1::BIGINT << router) AS there_ever,
        count(*) FILTER (NOT is_copy) AS ever,
        coalesce(bit_or(1::BIGINT << router) FILTER (NOT is_copy), 0) AS own_ever,
        count(*) FILTER (is_within AND NOT is_copy) AS times,
        coalesce(bit_or(1::BIGINT << router) FILTER (is_within AND NOT is_copy), 0) AS there,
        coalesce(bit_or(1::BIGINT << brought) FILTER (is_within), 0) AS brought,
        count(*) FILTER (NOT is_copy AND brought IS NOT NULL) AS own_brought,
        min(fact) <> max(fact) OR max(size) - min(size) NOT IN (0, getvariable('via_bytes')) AS is_unlike
    FROM accepted_id
    GROUP BY low, high
);
