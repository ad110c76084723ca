-- Messages of services, as far as their events say by the field `handover` what became of them (cddl/segment.cddl):
-- each with each recipient that it was owed to, and its state there. A message is known by its number.
CREATE TABLE service_line AS
SELECT
    router, signer, fields['service'] AS service, seq, t, fields['handover'] AS handover, reason,
    CASE WHEN fields['handover'] = 'owed'
        THEN list_filter(string_split(coalesce(fields['recipients'], ''), ','), lambda one: one <> '')
        ELSE [fields['recipient']] END AS recipients,
    list_transform(
        string_split(fields['each_number'], ','), lambda one, i: {
            'number': number_of_text(one), 'due_s': number_of_text(string_split(fields['each_due'], ',')[i])
        }
    ) AS messages
FROM events
WHERE fields['handover'] IN ('owed', 'done', 'ended') AND signer IS NOT NULL;

-- recipient NULL: of whoever it is still owed to; number NULL: all that is owed to the recipient.
CREATE TABLE service_step AS
SELECT router, signer, service, seq, t, handover, reason, recipient, one.number AS number, one.due_s AS due_s
FROM (
    SELECT * EXCLUDE (messages, recipients), unnest(recipients) AS recipient, messages FROM service_line
)
LEFT JOIN LATERAL (SELECT unnest(messages) AS one) ON TRUE;

CREATE TABLE service_unit AS
WITH owed AS (
    SELECT router, signer, min(service) AS service, number, recipient,
        max(seq) AS seq, min(t) AS t, max(due_s) AS due_s
    FROM service_step
    WHERE handover = 'owed' AND number IS NOT NULL AND recipient IS NOT NULL
    GROUP BY router, signer, number, recipient
),
done AS (
    SELECT router, signer, number, recipient, count(*) AS times
    FROM service_step
    WHERE handover = 'done'
    GROUP BY router, signer, number, recipient
),
ended AS (
    SELECT router, signer, number, recipient, max(seq) AS seq, arg_max(reason, seq) AS reason
    FROM service_step
    WHERE handover = 'ended'
    GROUP BY router, signer, number, recipient
),
holes AS (
    SELECT router, max(last_seq) AS last_seq FROM holes_ahead GROUP BY router
)
SELECT
    owed.router, owed.signer, owed.service, owed.number, owed.recipient,
    coalesce(done.times, 0) AS times,
    CASE
        WHEN done.times > 0 THEN 'done'
        WHEN own.seq > owed.seq OR gone.seq > owed.seq OR everybody.seq > owed.seq THEN 'ended'
        WHEN holes.last_seq > owed.seq THEN 'unknown'
        WHEN due_s * 1_000_000_000 + getvariable('grace_ns') <= end_ns THEN 'unaccounted'
        ELSE 'pending'
    END AS state,
    CASE
        WHEN own.seq > owed.seq THEN own.reason
        WHEN gone.seq > owed.seq THEN gone.reason
        WHEN everybody.seq > owed.seq THEN everybody.reason
    END AS reason
FROM owed
JOIN log_end ON log_end.router = owed.router
LEFT JOIN done
    ON done.router = owed.router AND done.signer = owed.signer AND done.number = owed.number
        AND done.recipient = owed.recipient
LEFT JOIN ended own
    ON own.router = owed.router AND own.signer = owed.signer AND own.number = owed.number
        AND own.recipient = owed.recipient
LEFT JOIN ended everybody
    ON everybody.router = owed.router AND everybody.signer = owed.signer AND everybody.number = owed.number
        AND everybody.recipient IS NULL
LEFT JOIN ended gone
    ON gone.router = owed.router AND gone.signer = owed.signer AND gone.number IS NULL
        AND gone.recipient = owed.recipient
LEFT JOIN holes ON holes.router = owed.router
WHERE is_asked(owed.t);
