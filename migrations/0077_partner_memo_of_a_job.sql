-- What a partner wants to get with the next request holds only while the rows of that answer are the last that were stored: rows of
-- another answer void it until all of them are stored, too. `acceptance` is that of the last job that stored rows; an earlier one that
-- is retried and ends after it says nothing.
ALTER TABLE partner_memo
    ALTER COLUMN memo DROP NOT NULL,
    ADD COLUMN acceptance bigint NOT NULL DEFAULT 0;
