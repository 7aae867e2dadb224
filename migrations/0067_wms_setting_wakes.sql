-- A setting that was stored anew: orders whose calls failed under the former one wait for up to 15 minutes, and are called again soon.
-- Workers make them due from `wakes_at` on, step by step (shared/domain/src/expedition/handover/wake.rs); null: nothing is left to do.
ALTER TABLE wms_setting ADD COLUMN wakes_at timestamptz;
