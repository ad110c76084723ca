-- Each parcel and recipient: how many of its messages are in which state.
-- A message with several ends has the first of: delivered acked unconfirmed refused expired dropped evicted.
CREATE TEMP TABLE unit AS
WITH states AS (
    SELECT
        line, recipient,
        sum(bit_count(delivered)) AS delivered,
        sum(bit_count(acked & (~delivered))) AS acked,
        sum(bit_count(unconfirmed & (~(delivered | acked)))) AS unconfirmed,
        sum(bit_count(refused & (~(delivered | acked | unconfirmed)))) AS refused,
        sum(bit_count(expired & (~(delivered | acked | unconfirmed | refused)))) AS expired,
        sum(bit_count(dropped & (~(delivered | acked | unconfirmed | refused | expired)))) AS dropped,
        sum(bit_count(evicted & (~(delivered | acked | unconfirmed | refused | expired | dropped)))) AS evicted,
        sum(bit_count(delivered | acked | unconfirmed | refused | expired | dropped | evicted)) AS ended,
        sum(bit_count(
            (delivered & acked)
            | ((delivered | acked) & unconfirmed)
            | ((delivered | acked | unconfirmed) & refused)
            | ((delivered | acked | unconfirmed | refused) & expired)
            | ((delivered | acked | unconfirmed | refused | expired) & dropped)
            | ((delivered | acked | unconfirmed | refused | expired | dropped) & evicted)
        )) AS contradictions,
        sum(bit_count(forwarded)) AS forwarded,
        sum(deliveries) AS deliveries,
        sum(forwards) AS forwards,
        sum(deferred) AS deferred
    FROM block
    GROUP BY line, recipient
)
SELECT
    line, router, recipient, minute,
    n AS owed,
    coalesce(delivered, 0)::INTEGER AS delivered,
    coalesce(acked, 0)::INTEGER AS acked,
    coalesce(unconfirmed, 0)::INTEGER AS unconfirmed,
    coalesce(refused, 0)::INTEGER AS refused,
    coalesce(expired, 0)::INTEGER AS expired,
    coalesce(dropped, 0)::INTEGER AS dropped,
    coalesce(evicted, 0)::INTEGER AS evicted,
    CASE WHEN hole_first IS NOT NULL THEN n - coalesce(ended, 0) ELSE 0 END::INTEGER AS unknown,
    CASE WHEN hole_first IS NULL AND NOT is_over THEN n - coalesce(ended, 0) ELSE 0 END::INTEGER AS pending,
    CASE WHEN hole_first IS NULL AND is_over THEN n - coalesce(ended, 0) ELSE 0 END::INTEGER AS unaccounted,
    coalesce(deliveries, 0)::BIGINT AS deliveries,
    coalesce(forwards, 0)::BIGINT AS forwards,
    coalesce(forwarded, 0)::INTEGER AS forwarded,
    coalesce(deferred, 0)::BIGINT AS deferred,
    coalesce(contradictions, 0)::INTEGER AS contradictions
FROM owed
JOIN accepted USING (line)
LEFT JOIN states USING (line, recipient)
WHERE accepted.is_within;

CREATE TEMP VIEW delivery AS
SELECT
    routers.key AS router, accepted.parcel, recipients.key AS recipient,
    seq, t, accepted.minute, kind, signers.key AS signer, destinations.key AS destination, peers.key AS peer,
    owed, delivered, acked, unconfirmed, refused, expired, dropped, evicted, unknown, pending, unaccounted,
    deliveries, forwards, forwarded, deferred, contradictions,
    due_ns, hole_first
FROM unit
JOIN accepted USING (line)
JOIN routers ON routers.router = accepted.router
JOIN keys recipients ON recipients.id = unit.recipient
LEFT JOIN keys signers ON signers.id = accepted.signer
LEFT JOIN keys destinations ON destinations.id = accepted.destination
LEFT JOIN keys peers ON peers.id = accepted.peer;
