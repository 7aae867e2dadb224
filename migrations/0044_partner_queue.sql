-- Chunks that call a partner have a queue of their own: a partner that answers slowly holds up no bulk and no push.
ALTER TABLE queue DROP CONSTRAINT name_is_known,
    ADD CONSTRAINT name_is_known CHECK (name IN ('chunk', 'partner', 'lane', 'upkeep'));
INSERT INTO queue (id, name) VALUES (uuid_v7(), 'partner');
