-- How long messages took from their acceptance to the end of their hop, in buckets; `count` messages each.
CREATE TABLE wait AS
SELECT router, recipient, event, accepted_minute AS minute, bucket(wait_ns) AS bucket,
    sum(count)::BIGINT AS count, max(wait_ns) AS max_ns
FROM piece
WHERE wait_ns >= 0 AND is_within
GROUP BY ALL;

CREATE VIEW hop_latency AS
SELECT wait.* REPLACE (routers.key AS router, keys.key AS recipient)
FROM wait JOIN routers USING (router) JOIN keys ON keys.id = wait.recipient;
