-- What services owe, and what became of it. messages: also those that are owed to nobody.
WITH messages AS (
    SELECT router, signer, min(service) AS service, count(DISTINCT one.number) AS messages
    FROM (SELECT router, signer, service, unnest(messages) AS one FROM service_line WHERE handover = 'owed' AND is_asked(t))
    GROUP BY router, signer
),
units AS (
    SELECT
        router, signer, count(*) AS owed,
        count(*) FILTER (state = 'done') AS done,
        count(*) FILTER (state = 'ended') AS ended,
        count(*) FILTER (state = 'pending') AS pending,
        count(*) FILTER (state = 'unknown') AS unknown,
        count(*) FILTER (state = 'unaccounted') AS unaccounted,
        sum(greatest(times - 1, 0))::BIGINT AS doubled
    FROM service_unit
    GROUP BY router, signer
)
SELECT
    key AS router, service, messages, coalesce(owed, 0) AS owed, coalesce(done, 0) AS done,
    coalesce(ended, 0) AS ended, coalesce(pending, 0) AS pending, coalesce(unknown, 0) AS unknown,
    coalesce(unaccounted, 0) AS unaccounted, coalesce(doubled, 0) AS doubled
FROM messages
JOIN routers ON routers.router = messages.router
LEFT JOIN units ON units.router = messages.router AND units.signer = messages.signer
ORDER BY key, service;
