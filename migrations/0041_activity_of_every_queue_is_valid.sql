-- Nothing else was ever counted.
ALTER TABLE activity VALIDATE CONSTRAINT subject_has_a_queue;
