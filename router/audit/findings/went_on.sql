-- Messages that expired on the way to a neighbour which, by its own log, accepted them from this router: an
-- acknowledgement was lost, and they went on.
SELECT routers.key AS router, takers.key AS recipient, count(*) AS count
FROM gone_there
JOIN routers USING (router)
JOIN routers takers ON takers.router = gone_there.taker
WHERE is_expired
GROUP BY ALL
ORDER BY ALL;
