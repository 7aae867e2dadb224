-- no-transaction
-- A customer on the phone has the number of the carrier, if the parcel has both (shared/operate/src/order/search.rs).
CREATE INDEX CONCURRENTLY IF NOT EXISTS expedition_parcel_by_carrier_number ON expedition_parcel (ext_carrier_tracking_number)
    WHERE ext_carrier_tracking_number IS NOT NULL;
