-- Messages that ended as unconfirmed although their ttl asks for an answer: only one of 0 asks for none. By router and
-- recipient: the count, and the first event with the acceptance it names.
SELECT 'answer-owed' AS claim, routers.key AS router, e.recipient AS peer, sum(e.count)::BIGINT AS count,
    min({
        'seq': e.seq, 'accepted_seq': line.seq,
        'id': id_of(line.ids, line.parcel, line.n, e.range_first)
    }) AS first
FROM events e
JOIN accepted_line line ON line.router = e.router AND line.parcel = e.parcel
JOIN routers ON routers.router = e.router
WHERE e.event = 'unconfirmed' AND line.due_ns > line.t AND is_asked(line.t)
GROUP BY routers.key, e.recipient
ORDER BY ALL;
