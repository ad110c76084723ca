-- Each parcel and recipient: how many of its messages are in which state.
-- A message with several ends has the first of: delivered acked unconfirmed refused expired dropped evicted.
CREATE TABLE unit AS
WITH counts AS NOT MATERIALIZED (
    SELECT
        line, recipient, n,
        bit_count(delivered) AS delivered,
        bit_count(acked & (~delivered)) AS acked,
        bit_count(unconfirmed & (~(delivered | acked))) AS unconfirmed,
        bit_count(refused & (~(delivered | acked | unconfirmed))) AS refused,
        bit_count(expired & (~(delivered | acked | unconfirmed | refused))) AS expired,
        bit_count(dropped & (~(delivered | acked | unconfirmed | refused | expired))) AS dropped,
        bit_count(evicted & (~(delivered | acked | unconfirmed | refused | expired | dropped))) AS evicted,
        bit_count(delivered | acked | unconfirmed | refused | expired | dropped | evicted) AS ended,
        bit_count(
            (delivered & acked)
            | ((delivered | acked) & unconfirmed)
            | ((delivered | acked | unconfirmed) & refused)
            | ((delivered | acked | unconfirmed | refused) & expired)
            | ((delivered | acked | unconfirmed | refused | expired) & dropped)
            | ((delivered | acked | unconfirmed | refused | expired | dropped) & evicted)
        ) AS contradictions,
        bit_count(
            flying & (~(delivered | acked | unconfirmed | refused | expired | dropped | evicted))
        ) AS flying,
        bit_count(forwarded) AS forwarded,
        deliveries, forwards, deferred
    FROM block
),
states AS NOT MATERIALIZED (
    -- Most parcels are one block.
    SELECT * EXCLUDE (n) FROM counts WHERE n <= 32
    UNION ALL
    SELECT line, recipient, sum(COLUMNS(* EXCLUDE (line, recipient, n)))::BIGINT
    FROM counts
    WHERE n > 32
    GROUP BY line, recipient
)
SELECT
    line, router, recipient, minute,
    accepted.n AS owed,
    coalesce(delivered, 0)::INTEGER AS delivered,
    coalesce(acked, 0)::INTEGER AS acked,
    coalesce(unconfirmed, 0)::INTEGER AS unconfirmed,
    coalesce(refused, 0)::INTEGER AS refused,
    coalesce(expired, 0)::INTEGER AS expired,
    coalesce(dropped, 0)::INTEGER AS dropped,
    coalesce(evicted, 0)::INTEGER AS evicted,
    CASE WHEN hole_first IS NOT NULL THEN accepted.n - coalesce(ended, 0) ELSE 0 END::INTEGER AS unknown,
    CASE WHEN hole_first IS NOT NULL THEN 0 WHEN is_over THEN coalesce(flying, 0)
        ELSE accepted.n - coalesce(ended, 0) END::INTEGER AS pending,
    CASE WHEN hole_first IS NULL AND is_over
        THEN accepted.n - coalesce(ended + flying, 0) ELSE 0 END::INTEGER AS unaccounted,
    coalesce(deliveries, 0)::BIGINT AS deliveries,
    coalesce(forwards, 0)::BIGINT AS forwards,
    coalesce(forwarded, 0)::INTEGER AS forwarded,
    coalesce(deferred, 0)::BIGINT AS deferred,
    coalesce(contradictions, 0)::INTEGER AS contradictions
FROM states
RIGHT JOIN owed USING (line, recipient)
JOIN accepted USING (line)
WHERE accepted.is_within;

CREATE VIEW delivery AS
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
