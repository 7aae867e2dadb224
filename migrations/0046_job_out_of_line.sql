-- A job that waits for its partner (a block, a long wait between attempts) and has nothing else to do steps out of the line
-- of its organisation's syncs: an e-shop's partner that lets nobody in for hours holds up no other. When its time has come it
-- joins the line at its end, with a new acceptance number.
ALTER TABLE job ADD COLUMN out_of_line_until timestamptz;
