-- Ids, one after the other, as the payload of a chunk (shared/domain/src/job/payload.rs): a frame of zstd (RFC 8878) that stores
-- them as they are, in its one block, which has at most 128 KiB.
CREATE OR REPLACE FUNCTION packed_ids(ids bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN set_byte(set_byte(set_byte(set_byte(set_byte(set_byte(
    -- the magic number; one segment, whose size has four bytes; that size; the head of the block: the last one, raw, of that size
    '\x28b52ffda000000000000000'::bytea,
    5, length(ids) & 255), 6, length(ids) >> 8 & 255), 7, length(ids) >> 16 & 255),
    9, (length(ids) << 3 | 1) & 255), 10, length(ids) >> 5 & 255), 11, length(ids) >> 13 & 255) || ids;
