-- Each parcel and recipient: how many of its messages are in which state. A message with several ends has the first of:
-- delivered acked unconfirmed refused expired dropped evicted.
CREATE VIEW each_unit AS
WITH counts AS NOT MATERIALIZED (
    SELECT
        line, recipient, is_whole OR n <= 32 AS is_one,
        each * bit_count(delivered) AS delivered,
        each * bit_count(acked & (~delivered)) AS acked,
        each * bit_count(unconfirmed & (~(delivered | acked))) AS unconfirmed,
        each * bit_count(refused & (~(delivered | acked | unconfirmed))) AS refused,
        each * bit_count(expired & (~(delivered | acked | unconfirmed | refused))) AS expired,
        each * bit_count(dropped & (~(delivered | acked | unconfirmed | refused | expired))) AS dropped,
        each * bit_count(evicted & (~(delivered | acked | unconfirmed | refused | expired | dropped))) AS evicted,
        each * bit_count(delivered | acked | unconfirmed | refused | expired | dropped | evicted) AS ended,
        each * bit_count(
            (delivered & acked)
            | ((delivered | acked) & unconfirmed)
            | ((delivered | acked | unconfirmed) & refused)
            | ((delivered | acked | unconfirmed | refused) & expired)
            | ((delivered | acked | unconfirmed | refused | expired) & dropped)
            | ((delivered | acked | unconfirmed | refused | expired | dropped) & evicted)
        ) AS contradictions,
        each * bit_count(
            flying & (~(delivered | acked | unconfirmed | refused | expired | dropped | evicted))
        ) AS flying,
        each * bit_count(forwarded) AS forwarded,
        deliveries, forwards, deferred
    FROM (SELECT *, CASE WHEN is_whole THEN n ELSE 1 END AS each FROM block)
),
states AS NOT MATERIALIZED (
    SELECT * EXCLUDE (is_one) FROM counts WHERE is_one
    UNION ALL
    SELECT line, recipient, sum(COLUMNS(* EXCLUDE (line, recipient, is_one)))::BIGINT
    FROM counts
    WHERE NOT is_one
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

-- `delivery` with the rows in which every message has its end summed by minute: only the other rows have `line` and
-- `recipient`.
CREATE TABLE unit AS
SELECT router, minute, line, recipient, sum(COLUMNS(* EXCLUDE (router, minute, line, recipient, is_open)))::BIGINT
FROM (
    SELECT * REPLACE (CASE WHEN is_open THEN line END AS line, CASE WHEN is_open THEN recipient END AS recipient)
    FROM (SELECT *, unknown > 0 OR pending > 0 OR unaccounted > 0 AS is_open FROM each_unit)
)
GROUP BY router, minute, line, recipient;

CREATE VIEW delivery AS
SELECT
    routers.key AS router, accepted.parcel, recipients.key AS recipient,
    seq, t, accepted.minute, kind, signers.key AS signer, destinations.key AS destination, peers.key AS peer,
    owed, delivered, acked, unconfirmed, refused, expired, dropped, evicted, unknown, pending, unaccounted,
    deliveries, forwards, forwarded, deferred, contradictions,
    due_ns, hole_first, bytes
FROM each_unit unit
JOIN accepted USING (line)
JOIN routers ON routers.router = accepted.router
JOIN keys recipients ON recipients.id = unit.recipient
LEFT JOIN keys signers ON signers.id = accepted.signer
LEFT JOIN keys destinations ON destinations.id = accepted.destination
LEFT JOIN keys peers ON peers.id = accepted.peer;
