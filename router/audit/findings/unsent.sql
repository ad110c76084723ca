-- The messages of `unsent` that the neighbour's log, which is whole, must hold: accepted before a later message from
-- there that is known to be followed, where the router was not restored before it, as it may have accepted that one a
-- second time; after the beginning of that log, and, where it is pruned, so long after it that the neighbour cannot have
-- had the message earlier, unless its clock was set or doubted. carriers: messages for the
-- router itself that the neighbour had: each may have held a multicast that is accepted at its goal alone.
WITH pair AS (
    SELECT DISTINCT router, brought FROM unsent
),
acceptance AS (
    SELECT accepted_id.router, brought, low, high, seq
    FROM accepted_id SEMI JOIN pair USING (router, brought) JOIN accepted USING (line)
    WHERE seq < getvariable('leap_min')
),
taken_over AS (
    SELECT taken_message.router AS brought, taker AS router, low, high
    FROM taken_message SEMI JOIN pair ON pair.router = taken_message.taker AND pair.brought = taken_message.router
),
followed AS (
    SELECT router, brought, max(seq) AS last_seq
    FROM taken_over JOIN acceptance USING (router, brought, low, high)
    GROUP BY router, brought
),
clock AS (
    -- Unknown where nothing bounds it from above, or both bounds contradict each other: a clock was set, or the router
    -- accepted again what it had in a store before this one.
    SELECT router AS brought, taker AS router, max(greatest(lower_ns, upper_ns)) AS apart_ns
    FROM handover
    WHERE upper_ns IS NOT NULL AND coalesce(lower_ns <= upper_ns, TRUE)
    GROUP BY ALL
),
carrier AS (
    SELECT accepted.router AS brought, taker AS router, sum(n)::BIGINT AS carriers
    FROM accepted JOIN taker ON taker.recipient = accepted.destination
    GROUP BY ALL
),
known AS (
    SELECT unsent.*, line.kind, line.seq, id_text(line.ids, i) AS id
    FROM unsent
    JOIN (SELECT line, kind, seq, t, ttl_s, ids FROM accepted_line) line USING (line)
    JOIN followed USING (router, brought)
    JOIN clock USING (router, brought)
    JOIN routers there ON there.router = unsent.brought
    JOIN log_end ON log_end.router = unsent.brought
    LEFT JOIN (SELECT DISTINCT router FROM events WHERE event = 'clock_step') stepped ON stepped.router = unsent.brought
    WHERE there.is_whole AND line.seq < followed.last_seq AND line.t - start_ns >= apart_ns AND (
        pruned_to = 0
        OR (line.kind = 'unicast' AND stepped.router IS NULL AND line.t - start_ns - apart_ns >= (ttl_s::HUGEINT + 86_400) * 1_000_000_000)
    )
)
SELECT routers.key AS router, neighbours.key AS peer, kind, count(*) AS count,
    coalesce(any_value(carriers), 0) AS carriers, min({'seq': seq, 'i': i, 'id': id}) AS first
FROM known LEFT JOIN carrier USING (router, brought)
JOIN routers ON routers.router = known.router JOIN routers neighbours ON neighbours.router = known.brought
GROUP BY ALL
ORDER BY routers.key, neighbours.key, kind;
