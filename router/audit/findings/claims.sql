-- What a router signed that cannot be: never-linked, messages acknowledged by a neighbour with which the log, whole from
-- its first event on, tells of no link; before-accepted, an end that by the monotonic clock of one boot, or by its
-- place in the log, lies before the acceptance. By router and peer: the count, and the first event with the acceptance it names. A log that names no
-- neighbour of any link is not judged by links.
-- Where a key was followed by another, what was owed to it is told of by its name: a link with a later one is one with it.
WITH RECURSIVE linked AS (
    SELECT router, peer FROM change WHERE event = 'link_up' AND peer IS NOT NULL
    UNION
    SELECT linked.router, old_key
    FROM linked JOIN change ON change.router = linked.router AND change.event = 'renewal' AND change.new_key = linked.peer
    WHERE old_key IS NOT NULL
),
never AS (
    SELECT acked.router, keys.key AS peer
    FROM (SELECT DISTINCT router, recipient FROM wait WHERE event = 'acked') acked
    JOIN (SELECT router FROM routers WHERE is_whole AND pruned_to = 0) whole USING (router)
    SEMI JOIN linked USING (router)
    JOIN keys ON keys.id = acked.recipient
    ANTI JOIN linked ON linked.router = acked.router AND linked.peer = keys.key
),
early AS (
    SELECT DISTINCT line FROM piece WHERE wait_ns < 0
),
claim AS (
    SELECT 'never-linked' AS claim, e.router, e.recipient AS peer, e.count, e.seq, line.seq AS accepted_seq,
        id_of(line.ids, line.parcel, line.n, e.range_first) AS id
    FROM events e
    SEMI JOIN never ON never.router = e.router AND never.peer = e.recipient
    JOIN accepted_line line ON line.router = e.router AND line.parcel = e.parcel
    WHERE e.event = 'acked' AND is_asked(line.t)
    UNION ALL
    SELECT 'before-accepted', e.router, e.recipient, e.count, e.seq, line.seq,
        id_of(line.ids, line.parcel, line.n, e.range_first)
    FROM events e
    JOIN (SELECT * FROM accepted_line SEMI JOIN early USING (line)) line
        ON line.router = e.router AND line.parcel = e.parcel
    WHERE e.event IN ('delivered', 'acked') AND (e.boot = line.boot AND e.mono < line.mono OR e.seq < line.seq) AND is_asked(line.t)
)
SELECT claim, routers.key AS router, peer, sum(count)::BIGINT AS count,
    min({'seq': seq, 'accepted_seq': accepted_seq, 'id': id}) AS first
FROM claim JOIN routers USING (router)
GROUP BY ALL
ORDER BY ALL;
