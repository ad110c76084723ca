-- The acceptances of messages that every router had first from another one that had it: none had it from an app or a
-- service, or from a router of which no log is given. carriers: how many messages for the router itself the one that
-- brought it had accepted, each of which may have held a multicast that is accepted at its goal alone.
WITH acceptance AS (
    SELECT low, high, accepted_id.router, min({'seq': seq, 'line': line, 'i': i, 'brought': brought}) AS first
    FROM accepted_id
    SEMI JOIN (SELECT * FROM message_id WHERE NOT has_origin) rootless USING (low, high)
    JOIN (SELECT line, seq FROM accepted) line USING (line)
    WHERE NOT is_copy
    GROUP BY low, high, accepted_id.router
),
elsewhere AS (
    SELECT low, high
    FROM (SELECT low, high, first.brought AS router FROM acceptance) said
    ANTI JOIN (SELECT low, high, router FROM acceptance) had USING (low, high, router)
),
edge AS (
    SELECT router, first.brought AS brought, first.line AS line, first.i AS i, first.seq AS seq
    FROM acceptance ANTI JOIN elsewhere USING (low, high)
),
carrier AS (
    SELECT line.router AS brought, there.router AS router, sum(n)::BIGINT AS carriers
    FROM accepted_line line JOIN routers there ON there.key = line.destination
    GROUP BY ALL
)
SELECT id_text(line.ids, edge.i) AS id, routers.key AS router, neighbours.key AS brought, edge.seq,
    line.kind <> 'unicast' AS is_multicast, is_asked(line.t) AS is_within, coalesce(carriers, 0) AS carriers
FROM edge
JOIN (SELECT line, ids, kind, t FROM accepted_line) line USING (line)
JOIN routers ON routers.router = edge.router
JOIN routers neighbours ON neighbours.router = edge.brought
LEFT JOIN carrier ON carrier.router = edge.router AND carrier.brought = edge.brought
ORDER BY id, routers.key
LIMIT getvariable('edges_max');
