-- Changes of an e-shop, not of a stock, after which its partner must be sent other counts: a product came to the e-shop or left it, say.
-- A trigger writes them in the transaction of the change, one row a statement and e-shop, and the dispatcher takes them
-- (shared/domain/src/partner/send_out/changes.rs). Rows are only added: a writer waits for no other, and none is lost.
CREATE TABLE eshop_stock_change (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    eshop_id uuid NOT NULL,
    -- null: any product of the e-shop may be concerned
    products uuid[]
);
CREATE INDEX eshop_stock_change_of_all ON eshop_stock_change (id) WHERE products IS NULL;

-- SKUs whose product has left the e-shop: its partner is to have none of them, and keeps its last count otherwise. A row remains
-- until the partner has taken zero (shared/domain/src/partner/send_out/withdrawn.rs).
CREATE TABLE stock_withdrawn (
    eshop_id uuid NOT NULL REFERENCES eshop ON DELETE CASCADE,
    product_sku text NOT NULL,
    withdrawn_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (eshop_id, product_sku)
);

CREATE FUNCTION partner_is_sent_stocks(eshop uuid) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (
    SELECT FROM integration_setting s
    WHERE s.eshop_id = eshop AND s.active AND s.stock_sync_enabled
      AND EXISTS (SELECT FROM integration_warehouse m WHERE m.setting_id = s.id));

-- Whether a count of an SKU was sent to the partner, or read from it, at any time: sending may be switched off now.
CREATE FUNCTION partner_has_a_count(eshop uuid, sku text) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (
    SELECT FROM partner_item i
    JOIN partner_stock t ON t.eshop_id = i.eshop_id AND t.inventory = i.inventory AND t.item = i.item
    WHERE i.eshop_id = eshop AND i.product_sku = sku);

CREATE FUNCTION product_was_attached() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO eshop_stock_change (eshop_id, products)
    SELECT eshop_id, array_agg(product_id) FROM added
    GROUP BY eshop_id HAVING partner_is_sent_stocks(eshop_id);
    RETURN NULL;
END
$$;
CREATE TRIGGER product_was_attached AFTER INSERT ON product_eshop REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION product_was_attached();

CREATE FUNCTION product_was_detached() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO stock_withdrawn (eshop_id, product_sku)
    SELECT r.eshop_id, p.product_sku
    FROM removed r JOIN product p ON p.id = ANY (ARRAY[r.product_id])
    -- what was never physical has no stock of ours at the partner
    WHERE p.type = 'physical' AND (partner_is_sent_stocks(r.eshop_id) OR partner_has_a_count(r.eshop_id, p.product_sku))
    ORDER BY r.eshop_id, p.product_sku
    ON CONFLICT (eshop_id, product_sku) DO UPDATE SET withdrawn_at = excluded.withdrawn_at;
    INSERT INTO eshop_stock_change (eshop_id, products)
    SELECT eshop_id, array_agg(product_id) FROM removed
    GROUP BY eshop_id HAVING partner_is_sent_stocks(eshop_id);
    RETURN NULL;
END
$$;
CREATE TRIGGER product_was_detached AFTER DELETE ON product_eshop REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION product_was_detached();
