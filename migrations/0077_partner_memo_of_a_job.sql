-- What a partner wants to get with the next request holds only while the rows of that answer are the last that were stored: rows of
-- another answer delete it (shared/domain/src/job/fetching.rs), and so does a retry, whose rows are written over later ones. What a job
-- that was retried has read is never what is stored as a whole.
ALTER TABLE partner_fetch ADD COLUMN keeps_memo boolean NOT NULL DEFAULT true;
-- Those of before may be of rows that others were written over: each feed is read once more.
ALTER TABLE partner_memo ADD COLUMN is_current boolean NOT NULL DEFAULT false;
