-- Copies: of accepted, those that a service of the router sends on to another router, to which alone each is owed.
-- Duplicates: deliveries beyond the first of a unit, and those of an id that the router accepted more than once.
WITH lines AS (
    SELECT router, sum(n)::BIGINT AS accepted, coalesce(sum(n) FILTER (kind = 'copy'), 0)::BIGINT AS copies FROM accepted WHERE is_within GROUP BY router
),
units AS (
    SELECT
    router,
    sum(owed)::BIGINT AS owed,
    sum(delivered)::BIGINT AS delivered, sum(acked)::BIGINT AS acked, sum(unconfirmed)::BIGINT AS unconfirmed,
    sum(refused)::BIGINT AS refused, sum(expired)::BIGINT AS expired, sum(dropped)::BIGINT AS dropped,
    sum(evicted)::BIGINT AS evicted, sum(unknown)::BIGINT AS unknown, sum(pending)::BIGINT AS pending,
    sum(unaccounted)::BIGINT AS unaccounted,
    sum(deliveries)::BIGINT AS deliveries, sum(forwards)::BIGINT AS forwards, sum(forwarded)::BIGINT AS forwarded,
    sum(deferred)::BIGINT AS deferred, sum(contradictions)::BIGINT AS contradictions
    FROM unit
    GROUP BY router
),
strays AS (
    SELECT router, sum(count)::BIGINT AS strays FROM stray GROUP BY router
),
repeats AS (
    SELECT router, sum(repeats)::BIGINT AS repeats FROM repeated_delivery GROUP BY router
)
SELECT
    key AS router,
    coalesce(accepted, 0) AS accepted,
    coalesce(copies, 0) AS copies,
    coalesce(owed, 0) AS owed,
    coalesce(delivered, 0) AS delivered,
    coalesce(acked, 0) AS acked,
    coalesce(unconfirmed, 0) AS unconfirmed,
    coalesce(refused, 0) AS refused,
    coalesce(expired, 0) AS expired,
    coalesce(dropped, 0) AS dropped,
    coalesce(evicted, 0) AS evicted,
    coalesce(unknown, 0) AS unknown,
    coalesce(pending, 0) AS pending,
    coalesce(unaccounted, 0) AS unaccounted,
    coalesce(deliveries, 0) AS deliveries,
    coalesce(deliveries - delivered, 0) + coalesce(repeats, 0) AS duplicates,
    coalesce(forwards, 0) AS forwards,
    coalesce(forwards - forwarded, 0) AS redelivered,
    coalesce(deferred, 0) AS deferred,
    coalesce(contradictions, 0) AS contradictions,
    coalesce(strays, 0) AS strays
FROM routers
SEMI JOIN log_end USING (router)
LEFT JOIN lines USING (router)
LEFT JOIN units USING (router)
LEFT JOIN strays USING (router)
LEFT JOIN repeats USING (router)
ORDER BY key;
