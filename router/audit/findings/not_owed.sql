-- Messages that ended for a recipient that the router, when it accepted them, did not name among those to whom it owes
-- them, in a log that is whole. By router and recipient: the count, and the first event with the acceptance it names.
SELECT 'not-owed' AS claim, routers.key AS router, e.recipient AS peer, sum(e.count)::BIGINT AS count,
    min({
        'seq': e.seq, 'accepted_seq': line.seq,
        'id': id_of(line.ids, line.parcel, line.n, e.range_first)
    }) AS first
FROM events e
JOIN accepted_line line ON line.router = e.router AND line.parcel = e.parcel
JOIN routers ON routers.router = e.router
WHERE e.event IN ('delivered', 'acked', 'unconfirmed', 'refused', 'expired', 'dropped', 'evicted')
    AND e.recipient IS NOT NULL AND is_whole AND is_asked(line.t) AND NOT list_contains(line.recipients, e.recipient)
GROUP BY routers.key, e.recipient
ORDER BY ALL;
