-- The items that hold pieces of a stock, the newest order first, until they are as many as it holds. Items of cancelled
-- orders stay for ever, and are many after years: a statement that reads all of them takes a second for a product that
-- sells well.
CREATE OR REPLACE FUNCTION holders(of_product uuid, of_warehouse uuid, of_wms uuid, held bigint)
RETURNS TABLE (expedition_id uuid, quantity integer)
LANGUAGE plpgsql STABLE ROWS 100
-- in the order of the index, whatever the statistics say: only the first rows may be read
SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    missing bigint := held;
    -- not a query in the loop: its rows would be fetched by tens, and few hold pieces
    items CURSOR FOR
        SELECT i.expedition_id AS id, i.quantity AS pieces FROM expedition_item i
        CROSS JOIN LATERAL (
            SELECT FROM expedition e
            WHERE e.id = ANY (ARRAY[i.expedition_id]) AND e.warehouse_id = of_warehouse AND e.wms_id = of_wms
              AND is_booked(e.status) OFFSET 0
        ) AS booked
        WHERE i.product_id = of_product AND i.expedited IS NULL ORDER BY i.expedition_id DESC;
BEGIN
    IF missing <= 0 THEN
        RETURN;
    END IF;
    FOR item IN items
    LOOP
        expedition_id := item.id;
        quantity := item.pieces;
        RETURN NEXT;
        missing := missing - item.pieces;
        EXIT WHEN missing <= 0;
    END LOOP;
END $$;
