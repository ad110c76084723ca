-- Keys (and boots) as numbers that sort as their text does; the large tables hold these.
CREATE TABLE keys AS
WITH texts AS (
    SELECT recipient AS key FROM events
    UNION SELECT unnest(recipients) FROM events WHERE recipients IS NOT NULL
    UNION SELECT peer FROM events
    UNION SELECT signer FROM events
    UNION SELECT destination FROM events
    UNION SELECT boot FROM events
    UNION SELECT key FROM routers
)
SELECT row_number() OVER (ORDER BY key)::INTEGER AS id, key FROM texts WHERE key IS NOT NULL;
