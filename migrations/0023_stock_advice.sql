-- Stock advices: goods on their way to a warehouse.
CREATE TABLE stock_advice (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    warehouse_id uuid NOT NULL REFERENCES warehouse,
    wms_id uuid NOT NULL REFERENCES wms,
    supplier_id uuid NOT NULL REFERENCES supplier,
    packaging_unit text,
    count_of_units integer CONSTRAINT count_of_units_is_not_negative CHECK (count_of_units >= 0),
    note text,
    internal_id text NOT NULL CONSTRAINT internal_id_has_a_length CHECK (char_length(internal_id) BETWEEN 1 AND 255),
    expected_at timestamptz NOT NULL,
    ref1 text,
    ref2 text,
    ref3 text,
    status text NOT NULL CONSTRAINT status_is_known CHECK (status IN ('new', 'receiving', 'closed', 'cancelled')),
    count_of_items integer NOT NULL CONSTRAINT an_advice_has_items CHECK (count_of_items >= 1),
    count_of_sku integer NOT NULL
        CONSTRAINT there_are_no_more_skus_than_items CHECK (count_of_sku BETWEEN 1 AND count_of_items),
    sum_of_quantity bigint NOT NULL
        CONSTRAINT every_item_has_a_quantity CHECK (sum_of_quantity >= count_of_items),
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT internal_id_is_unique_in_the_organisation UNIQUE (organisation_id, internal_id)
);
CREATE INDEX stock_advice_by_creation ON stock_advice (organisation_id, created_at, id);
CREATE INDEX stock_advice_by_change ON stock_advice (organisation_id, changed_at, id);
CREATE INDEX stock_advice_by_warehouse ON stock_advice (warehouse_id);
CREATE INDEX stock_advice_by_wms ON stock_advice (wms_id);
CREATE INDEX stock_advice_by_supplier ON stock_advice (supplier_id);
-- open ones, by when they were expected: those that are not closed in time are closed
CREATE INDEX stock_advice_open ON stock_advice (expected_at, id) WHERE status IN ('new', 'receiving');

-- A product may be in several items: on two pallets, say.
CREATE TABLE stock_advice_item (
    id uuid PRIMARY KEY,
    stock_advice_id uuid NOT NULL REFERENCES stock_advice ON DELETE CASCADE,
    position integer NOT NULL,
    product_id uuid NOT NULL REFERENCES product,
    quantity integer NOT NULL CONSTRAINT quantity_is_positive CHECK (quantity >= 1),
    -- may exceed `quantity`: what arrived is in the warehouse, announced or not
    received integer NOT NULL DEFAULT 0 CONSTRAINT received_is_not_negative CHECK (received >= 0),
    CONSTRAINT an_item_has_a_place_of_its_own UNIQUE (stock_advice_id, position)
);
CREATE INDEX stock_advice_item_by_product ON stock_advice_item (product_id);

-- What came at once of an advice.
CREATE TABLE inbound_receipt (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    stock_advice_id uuid NOT NULL REFERENCES stock_advice ON DELETE CASCADE,
    warehouse_id uuid NOT NULL REFERENCES warehouse,
    wms_id uuid NOT NULL REFERENCES wms,
    count_of_items integer NOT NULL CONSTRAINT a_receipt_has_items CHECK (count_of_items >= 1),
    count_of_sku integer NOT NULL
        CONSTRAINT a_receipt_has_no_more_skus_than_items CHECK (count_of_sku BETWEEN 1 AND count_of_items),
    sum_of_quantity bigint NOT NULL
        CONSTRAINT every_item_of_a_receipt_has_a_quantity CHECK (sum_of_quantity >= count_of_items),
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX inbound_receipt_by_creation ON inbound_receipt (organisation_id, created_at, id);
CREATE INDEX inbound_receipt_by_advice ON inbound_receipt (stock_advice_id);
CREATE INDEX inbound_receipt_by_warehouse ON inbound_receipt (warehouse_id);
CREATE INDEX inbound_receipt_by_wms ON inbound_receipt (wms_id);
