-- Orders whose calls failed become due twice: at once, and after every call has ended that was under way then. A test that finds a system
-- working asks for it as well as a setting that is stored, so the second moment follows from the first, and not from the setting.
ALTER TABLE wms_setting ADD COLUMN wakes_again boolean NOT NULL DEFAULT true;
