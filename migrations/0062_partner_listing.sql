-- What has been read of the list of a partner's inventory, and how far (shared/src/partner/send_out/listing.rs): that some of
-- its items are known does not say that all are. Nothing is taken over from before: a list that had broken off looks like one
-- that was whole, so each is read once more.
CREATE TABLE partner_listing (
    eshop_id uuid NOT NULL REFERENCES eshop ON DELETE CASCADE,
    inventory text NOT NULL,
    -- when the reading began that is under way, or was the last
    began_at timestamptz NOT NULL,
    -- where its next page begins, in the partner's words; null: at the beginning
    cursor text,
    -- when the last reading that came to its end began; null: none has
    whole_since timestamptz,
    -- when its last page came
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (eshop_id, inventory),
    CONSTRAINT what_has_ended_goes_on_nowhere CHECK (cursor IS NULL OR whole_since IS DISTINCT FROM began_at)
);
