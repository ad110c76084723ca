-- Messages that expired on the way to a neighbour, or are said to have been refused there, and which by its own log it
-- accepted from this router: they went on.
SELECT routers.key AS router, takers.key AS recipient, CASE WHEN is_expired THEN 'expired' ELSE 'refused' END AS event,
    count(*) AS count
FROM gone_there
JOIN routers USING (router)
JOIN routers takers ON takers.router = gone_there.taker
GROUP BY ALL
ORDER BY ALL;
