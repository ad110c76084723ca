-- The recipient of an acked message is the next router; local recipients are taken together.
SELECT routers.key AS router, CASE WHEN event = 'acked' THEN keys.key END AS recipient, event, bucket,
    sum(count)::BIGINT AS count, max(max_ns) AS max_ns
FROM wait JOIN routers USING (router) JOIN keys ON keys.id = wait.recipient
GROUP BY ALL
ORDER BY ALL;
