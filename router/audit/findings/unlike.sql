-- Messages of which logs tell facts that belong to the id in two ways: kind, sender (source or group), destination,
-- expiry, ttl, and size, which VIA alone may change. What most routers tell counts, each by its first acceptance of the
-- message; if as many tell otherwise, what the first of them in order of keys tells. Compared with that is all that a
-- router tells, be it of a copy that it sends on, which may have VIA or not.
-- By the first fact that differs, router and peer, which is the first router that tells what most do, maybe the same.
WITH acceptance AS (
    SELECT low, high, router, fact, size, min({'seq': seq, 'line': line, 'i': i}) AS first
    FROM accepted_id
    SEMI JOIN (SELECT * FROM message_id WHERE is_unlike) odd USING (low, high)
    JOIN (SELECT line, seq FROM accepted WHERE is_within) within USING (line)
    GROUP BY low, high, router, fact, size
),
told AS (
    SELECT low, high, acceptance.router, first.seq AS seq, id_text(ids, first.i) AS id,
        row_number() OVER (PARTITION BY low, high, acceptance.router ORDER BY first) AS place,
        kind = 'unicast' AS is_unicast, signer, destination,
        coalesce(expiries[first.i + 1], expiry) AS expiry, coalesce(ttls[first.i + 1], ttl_s) AS ttl_s,
        coalesce(sizes[first.i + 1], bytes // n) AS size
    FROM acceptance JOIN accepted_line line ON line.line = first.line
),
said AS (
    SELECT * FROM told WHERE place = 1
),
agreed AS (
    SELECT low, high, said.router, count(*) AS routers, min(other.router) AS peer
    FROM said JOIN said other USING (low, high)
    WHERE said.is_unicast IS NOT DISTINCT FROM other.is_unicast AND said.signer IS NOT DISTINCT FROM other.signer
        AND said.destination IS NOT DISTINCT FROM other.destination AND said.expiry IS NOT DISTINCT FROM other.expiry
        AND said.ttl_s IS NOT DISTINCT FROM other.ttl_s AND other.size - said.size IN (0, getvariable('via_bytes'))
    GROUP BY low, high, said.router
),
most AS (
    SELECT low, high, min({'others': -routers, 'router': router, 'peer': peer}) AS of_most FROM agreed GROUP BY low, high
),
reference AS (
    SELECT said.* REPLACE (peers.router AS router, peers.seq AS seq)
    FROM most
    JOIN said ON said.low = most.low AND said.high = most.high AND said.router = of_most.router
    JOIN said peers ON peers.low = most.low AND peers.high = most.high AND peers.router = of_most.peer
),
pair AS (
    SELECT said.router, reference.router AS peer, said.seq, reference.seq AS accepted_seq, said.id,
        CASE WHEN said.is_unicast IS DISTINCT FROM reference.is_unicast THEN 'other-kind'
            WHEN said.signer IS DISTINCT FROM reference.signer THEN 'other-sender'
            WHEN said.destination IS DISTINCT FROM reference.destination THEN 'other-destination'
            WHEN said.expiry IS DISTINCT FROM reference.expiry THEN 'other-expiry'
            WHEN said.ttl_s IS DISTINCT FROM reference.ttl_s THEN 'other-ttl'
            WHEN CASE WHEN said.place = 1 THEN said.size - reference.size ELSE abs(said.size - reference.size) END
                NOT IN (0, getvariable('via_bytes')) THEN 'other-size'
        END AS claim
    FROM told said JOIN reference USING (low, high)
)
SELECT claim, routers.key AS router, peers.key AS peer, count(DISTINCT id) AS count,
    min({'seq': seq, 'accepted_seq': accepted_seq, 'id': id}) AS first
FROM pair JOIN routers ON routers.router = pair.router JOIN routers peers ON peers.router = pair.peer
WHERE claim IS NOT NULL
GROUP BY ALL
ORDER BY ALL;
