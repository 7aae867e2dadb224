-- When the last attempt of a job began: when it started, or went on after a wait in which nothing of it ran. `started_at` is its first
-- start: between the two it may have waited for minutes for its partner, or for days for an operator who retries it. Null: not yet, and of
-- jobs that started before this column.
ALTER TABLE job ADD COLUMN attempt_started_at timestamptz;
