SELECT
    key AS router,
    minute // getvariable('step') * getvariable('step') AS "window",
    sum(owed)::BIGINT AS owed,
    sum(delivered)::BIGINT AS delivered, sum(acked)::BIGINT AS acked, sum(unconfirmed)::BIGINT AS unconfirmed,
    sum(refused)::BIGINT AS refused, sum(expired)::BIGINT AS expired, sum(dropped)::BIGINT AS dropped,
    sum(evicted)::BIGINT AS evicted, sum(unknown)::BIGINT AS unknown, sum(pending)::BIGINT AS pending,
    sum(unaccounted)::BIGINT AS unaccounted
FROM unit JOIN routers USING (router)
GROUP BY ALL
ORDER BY ALL;
