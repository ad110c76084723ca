-- Messages that ended for a reason that the router did not have: the header of the segment, which names all that may stand
-- there beside those of all routers, does not name it. By router and recipient: the count, and the first event with the
-- acceptance it names. `telling`, `named_reason`, `asked_reason`: see spark_analytics/judgement/unnamed_reasons.py.
SELECT 'unknown-reason' AS claim, routers.key AS router, e.recipient AS peer, sum(e.count)::BIGINT AS count,
    min({
        'seq': e.seq, 'accepted_seq': line.seq,
        'id': id_of(line.ids, line.parcel, line.n, e.range_first)
    }) AS first
FROM (SELECT * FROM events SEMI JOIN asked_reason USING (reason)) e
JOIN telling ON telling.router = e.router AND e.seq BETWEEN telling.first_seq AND telling.last_seq
LEFT JOIN named_reason named ON named.number = telling.number AND named.reason = e.reason
JOIN accepted_line line ON line.router = e.router AND line.parcel = e.parcel
JOIN routers ON routers.router = e.router
WHERE named.reason IS NULL AND e.event IN ('delivered', 'acked', 'unconfirmed', 'refused', 'expired', 'dropped', 'evicted')
    AND e.recipient IS NOT NULL AND is_asked(line.t)
GROUP BY routers.key, e.recipient
ORDER BY ALL;
