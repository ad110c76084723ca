-- What a router signed that cannot be: never-linked, messages delivered or acknowledged over a link of `unlinked` while it
-- was not up;
-- before-accepted, an end that by the monotonic clock of one boot, or by its place in the log, lies before the
-- acceptance. By router and peer: the count, and the first event with the acceptance it names.
WITH early AS (
    SELECT DISTINCT line FROM piece WHERE wait_ns < 0
),
claim AS (
    SELECT 'never-linked' AS claim, e.router, e.recipient AS peer, e.count, e.seq, line.seq AS accepted_seq,
        id_of(line.ids, line.parcel, line.n, e.range_first) AS id
    FROM events e
    JOIN unlinked ON unlinked.router = e.router AND unlinked.boot = e.boot AND unlinked.link = e.link
        AND unlinked.recipient = e.recipient AND (e.seq < coalesce(linked_seq, e.seq + 1) OR e.seq > coalesce(down_seq, e.seq))
    JOIN accepted_line line ON line.router = e.router AND line.parcel = e.parcel
    WHERE e.event IN ('delivered', 'acked') AND is_asked(line.t)
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
