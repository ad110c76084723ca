-- How many messages and bytes went over the links between routers, each way? again: received, but known already.
-- limit: number = 20; how many rows to return
SELECT router, neighbour,
    CAST(sum(sent) AS BIGINT) AS sent,
    CAST(sum(sent_bytes) AS BIGINT) AS bytes_sent,
    CAST(sum(received) AS BIGINT) AS received,
    CAST(sum(received_bytes) AS BIGINT) AS bytes_received,
    CAST(sum(duplicates) AS BIGINT) AS again
FROM link_hour
GROUP BY router, neighbour
ORDER BY bytes_sent DESC, bytes_received DESC, router, neighbour
LIMIT $limit
