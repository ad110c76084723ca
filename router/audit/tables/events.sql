-- Every line of good files and tails, once; the router is the one that signed the file. Keys are hex, times
-- nanoseconds. ids: of an accepted line, or of what was asked for as history. The first range of an outward line has columns of its own, because few lines have another. n: messages
-- of an accepted line, or of that range. parcel: the arrival number of the parcel's first message, also of an accepted
-- line. ttl_s: the longest of its messages; due_ns: when the last of an accepted line's messages is due; lives: when
-- each is, if that differs; bytes: of all messages of an accepted line, or of those that a line counts; sizes: of each
-- message of an accepted line, if they differ; expiry: the latest; ttls, expiries: of each, if lives are. There are few columns, because each costs a thirtieth of the reading, even an empty one.
-- Numbers are stored uncompressed, because compressing them costs more than the disk space gains.
CREATE TABLE events (
    router INTEGER USING COMPRESSION uncompressed,
    file INTEGER USING COMPRESSION uncompressed,
    seq BIGINT USING COMPRESSION uncompressed,
    n BIGINT USING COMPRESSION uncompressed,
    t BIGINT USING COMPRESSION uncompressed,
    mono BIGINT USING COMPRESSION uncompressed,
    boot VARCHAR,
    event VARCHAR,
    kind VARCHAR,
    signer VARCHAR,
    destination VARCHAR,
    peer VARCHAR,
    count BIGINT USING COMPRESSION uncompressed,
    ids VARCHAR USING COMPRESSION uncompressed,
    recipients VARCHAR[],
    due_ns BIGINT USING COMPRESSION uncompressed,
    ttl_s BIGINT USING COMPRESSION uncompressed,
    lives BIGINT[],
    recipient VARCHAR,
    parcel BIGINT USING COMPRESSION uncompressed,
    range_first BIGINT USING COMPRESSION uncompressed,
    more_ranges BIGINT[][],
    reason VARCHAR,
    link BIGINT USING COMPRESSION uncompressed,
    depth BIGINT USING COMPRESSION uncompressed,
    bytes BIGINT USING COMPRESSION uncompressed,
    sizes BIGINT[],
    expiry BIGINT USING COMPRESSION uncompressed,
    ttls BIGINT[],
    expiries BIGINT[],
    fields MAP(VARCHAR, VARCHAR)
);
