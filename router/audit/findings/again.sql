-- Arrival numbers that accepted lines give more than once, by router: their count, the least, and the first two events
-- that give it.
WITH given AS (
    SELECT router, seq, parcel, parcel + n AS stop
    FROM events
    WHERE event = 'accepted' AND parcel BETWEEN 0 AND 9_223_372_036_854_775_807 - n AND n > 0
),
next_to AS (
    SELECT router FROM (
        SELECT router, parcel, lag(stop) OVER (PARTITION BY router ORDER BY parcel) AS before FROM given
    )
    WHERE parcel < before
    GROUP BY router
),
reached AS (
    SELECT router, parcel, stop, max(stop) OVER (
        PARTITION BY router ORDER BY parcel, seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS before
    FROM given SEMI JOIN next_to USING (router)
),
twice AS (
    SELECT router, sum(least(stop, before) - parcel)::BIGINT AS count, min(parcel) AS arrival
    FROM reached
    WHERE parcel < before
    GROUP BY router
),
told AS (
    SELECT twice.router, count, arrival, list(seq ORDER BY seq) AS seqs
    FROM twice JOIN given ON given.router = twice.router AND arrival >= parcel AND arrival < stop
    GROUP BY ALL
)
SELECT key AS router, count, arrival, seqs[1] AS first_seq, seqs[2] AS seq
FROM told JOIN routers USING (router)
ORDER BY key;
