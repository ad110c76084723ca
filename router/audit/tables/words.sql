-- Types and functions that the tables share. Everything is a whole number.

CREATE TYPE outward AS ENUM (
    'forwarded', 'deferred', 'delivered', 'acked', 'unconfirmed', 'refused', 'expired', 'dropped', 'evicted'
);

-- The bits 0 .. k-1 of a block of 32 messages, in which the i-th bit stands for message i.
CREATE MACRO bits_below(k) AS (1::BIGINT << greatest(0, least(32, k))::INTEGER) - 1;

-- The place of the highest bit of v >= 1. The logarithm may round up just below a power of two.
CREATE MACRO high_bit(v) AS
    floor(log2(v))::INTEGER - CASE WHEN v >> floor(log2(v))::INTEGER = 0 THEN 1 ELSE 0 END;

-- The bucket of a latency, equal to that of spark_analytics/judgement/latency.py.
CREATE MACRO bucket(v) AS
    CASE WHEN v < 256 THEN v ELSE 128 * (high_bit(v) - 7) + (v >> (high_bit(v) - 7)) END;

-- Two halves of a message's id, hashed: 128 bits in which ids are compared without keeping their text.
CREATE MACRO id_low(ids, i) AS hash(substr(ids, 64 * i + 1, 32));
CREATE MACRO id_high(ids, i) AS hash(substr(ids, 64 * i + 33, 32));
CREATE MACRO id_text(ids, i) AS substr(ids, 64 * i + 1, 64);

-- The id of a message, by its arrival number, among the `n` of a parcel; null if it has none with that number.
CREATE MACRO id_of(ids, parcel, n, number) AS
    CASE WHEN number BETWEEN parcel AND parcel + n - 1 THEN id_text(ids, number - parcel) END;

-- The lesser of both, but null for null: `least` would return the greatest.
CREATE MACRO at_most(value, most) AS CASE WHEN value > most THEN most ELSE value END;

-- The whole number in a text field of digits alone.
CREATE MACRO number_of_text(said) AS
    CASE WHEN length(said) < 19 AND translate(said, '0123456789', '') = '' THEN try_cast(said AS BIGINT) END;

-- The minute of an event since 1970, but never later than the audit's now.
CREATE MACRO minute_of(t) AS (least(t, getvariable('as_of_ns')) // 60_000_000_000)::INTEGER;

-- Whether a time is in the audit's time span.
CREATE MACRO is_asked(t) AS least(t, getvariable('as_of_ns')) >= getvariable('since_ns')
    AND least(t, getvariable('as_of_ns')) < getvariable('until_ns');

-- For a row of `block`: whether message i of the parcel is in it, all its messages, the bit of one, whether it is set.
CREATE MACRO is_of(i, block, is_whole) AS is_whole OR i >> 5 = block;
CREATE MACRO messages_of(block, n, is_whole) AS
    range(CASE WHEN is_whole THEN 0 ELSE 32 * block END, CASE WHEN is_whole THEN n ELSE least(n, 32 * block + 32) END);
CREATE MACRO bit_of(i, is_whole) AS (CASE WHEN is_whole THEN 0 ELSE i & 31 END)::UINTEGER;
CREATE MACRO has(mask, i, is_whole) AS (mask >> bit_of(i, is_whole)) & 1 = 1;

-- Functions of Spark by their names there, for the texts that both engines read.
CREATE MACRO explode(list) AS unnest(list);
CREATE MACRO sequence(first, last) AS generate_series(first, last);
