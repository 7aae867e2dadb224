-- Partner calls, hand-overs and tasks of the upkeep are counted by the minute, too (shared/kernel/src/activity.rs). The next migration
-- validates the constraint.
ALTER TABLE activity DROP CONSTRAINT subject_is_known;
ALTER TABLE activity ADD CONSTRAINT subject_has_a_queue
    CHECK (subject IN ('job', 'delivery', 'partner', 'handover', 'upkeep')) NOT VALID;
