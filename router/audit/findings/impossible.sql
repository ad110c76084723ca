-- Messages that ended by an event and for a reason that do not go together: no router ends a message so that it has
-- accepted. By router and recipient: the count, and the first event with the acceptance it names. `impossible_end`: see
-- spark_analytics/judgement/impossible_ends.py.
SELECT 'no-such-end' AS claim, routers.key AS router, e.recipient AS peer, sum(e.count)::BIGINT AS count,
    min({
        'seq': e.seq, 'accepted_seq': line.seq,
        'id': id_of(line.ids, line.parcel, line.n, e.range_first)
    }) AS first
FROM impossible_end
JOIN routers ON routers.key = impossible_end.key
JOIN events e ON e.router = routers.router AND e.event = impossible_end.event AND e.reason = impossible_end.reason
JOIN accepted_line line ON line.router = e.router AND line.parcel = e.parcel
WHERE e.recipient IS NOT NULL AND is_asked(line.t)
GROUP BY routers.key, e.recipient
ORDER BY ALL;
