-- Orders, which the API calls expeditions.
--
-- What changes with a transition is in `expedition`, a narrow row: its indexes are what a transition costs. What a body says is
-- in `expedition_detail`. Whether the pieces of an item are booked or missing follows from the status, so items are written when
-- a body changes them and when they are packed, and never by a booking.
CREATE TABLE expedition (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    eshop_id uuid NOT NULL REFERENCES eshop,
    warehouse_id uuid NOT NULL REFERENCES warehouse,
    wms_id uuid NOT NULL REFERENCES wms,
    status text NOT NULL,
    status_since timestamptz NOT NULL DEFAULT now(),
    -- while a cancel waits for the warehouse: the status that it goes back to if the warehouse refuses
    canceling_from text CONSTRAINT a_cancel_that_waits_remembers_the_status
        CHECK ((status = 'waiting_for_cancel') = (canceling_from IS NOT NULL)
               AND canceling_from IN ('awaiting_processing', 'take_out', 'completion')),
    -- the turn: the higher priority first, then the earlier creation
    priority integer NOT NULL CONSTRAINT priority_is_0_to_1000 CHECK (priority BETWEEN 0 AND 1000),
    wait_before_processing boolean,
    count_of_items integer NOT NULL CONSTRAINT count_of_items_is_positive CHECK (count_of_items >= 1),
    count_of_sku integer NOT NULL CONSTRAINT count_of_sku_is_positive CHECK (count_of_sku BETWEEN 1 AND count_of_items),
    sum_of_quantity bigint NOT NULL CONSTRAINT sum_of_quantity_is_positive CHECK (sum_of_quantity >= count_of_items),
    reservation_paused boolean NOT NULL DEFAULT false,
    -- the stock that has too little, or that is marked, and what the order needs of it
    waits_for_id uuid,
    waits_quantity bigint,
    errors jsonb,
    address_validation_executed boolean NOT NULL DEFAULT false,
    expedited_completely boolean,
    packed_at timestamptz,
    sent_at timestamptz,
    delivered_at timestamptz,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- as of products: when the row was inserted, not when its transaction began
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT an_order_that_waits_says_for_what CHECK ((waits_for_id IS NULL) = (waits_quantity IS NULL)),
    CONSTRAINT only_a_sent_order_waits CHECK (CASE status
        WHEN 'waiting_for_goods' THEN waits_for_id IS NOT NULL AND NOT reservation_paused
        WHEN 'awaiting_reservation' THEN (waits_for_id IS NULL) = reservation_paused
        ELSE waits_for_id IS NULL AND NOT reservation_paused END),
    CONSTRAINT packed_before_sent_before_delivered CHECK (packed_at <= sent_at AND sent_at <= delivered_at)
) WITH (fillfactor = 70);
CREATE INDEX expedition_by_creation ON expedition (organisation_id, created_at, id);
CREATE INDEX expedition_by_change ON expedition (organisation_id, changed_at, id);
CREATE INDEX expedition_by_status ON expedition (organisation_id, status, status_since, id);
-- for callers who see several organisations, as for products
CREATE INDEX expedition_by_creation_of_all ON expedition (created_at, id);
CREATE INDEX expedition_by_change_of_all ON expedition (changed_at, id);
CREATE INDEX expedition_by_eshop ON expedition (eshop_id, created_at, id);
-- those that are packed have a receipt
CREATE INDEX expedition_by_packing ON expedition (organisation_id, packed_at, id) WHERE packed_at IS NOT NULL;
-- those that may be heard of no more
CREATE INDEX expedition_on_its_way ON expedition (status_since, id) WHERE status IN ('carrier_picked_up', 'ready_to_takeover');
-- those that wait for a stock, in turn
CREATE INDEX expedition_by_turn ON expedition (waits_for_id, priority DESC, created_at, id) WHERE waits_for_id IS NOT NULL;

-- Each pair of statuses that an order may go from and to; `new` stands for none.
CREATE TABLE expedition_transition (
    from_status text NOT NULL,
    to_status text NOT NULL,
    PRIMARY KEY (from_status, to_status)
);
REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON expedition_transition FROM longshore_service;
INSERT INTO expedition_transition (from_status, to_status)
-- created; sent
SELECT f, t FROM unnest(ARRAY['new', 'on_hold', 'incorrect']) AS f,
    unnest(ARRAY['on_hold', 'incorrect', 'awaiting_reservation', 'waiting_for_goods', 'stock_ok', 'awaiting_processing']) AS t
WHERE f <> t
UNION
-- looked at by the allocator; rebooked, unbooked
SELECT f, t FROM unnest(ARRAY['awaiting_reservation', 'waiting_for_goods']) AS f,
    unnest(ARRAY['awaiting_reservation', 'waiting_for_goods', 'stock_ok', 'awaiting_processing']) AS t
WHERE f <> t
UNION
VALUES ('stock_ok', 'awaiting_processing'), ('stock_ok', 'awaiting_reservation'), ('stock_ok', 'waiting_for_goods'),
    -- taken back after a count
    ('awaiting_processing', 'waiting_for_goods')
UNION
-- rolled back, cancelled
SELECT f, t FROM unnest(ARRAY['on_hold', 'incorrect', 'awaiting_reservation', 'waiting_for_goods', 'stock_ok',
                              'awaiting_processing']) AS f, unnest(ARRAY['on_hold', 'canceled']) AS t
WHERE f <> t
UNION
-- the line: to any later status of it
SELECT f.status, t.status
FROM unnest(ARRAY['awaiting_processing', 'take_out', 'completion', 'waiting_for_the_carrier', 'carrier_picked_up',
                  'ready_to_takeover', 'delivered']) WITH ORDINALITY AS f (status, place)
JOIN unnest(ARRAY['awaiting_processing', 'take_out', 'completion', 'waiting_for_the_carrier', 'carrier_picked_up',
                  'ready_to_takeover', 'delivered']) WITH ORDINALITY AS t (status, place) ON t.place > f.place
UNION
-- the warehouse cannot do it
VALUES ('awaiting_processing', 'incorrect'), ('take_out', 'incorrect'), ('completion', 'incorrect'),
    -- nothing more is heard; or it is, later
    ('carrier_picked_up', 'probably_delivered'), ('ready_to_takeover', 'probably_delivered'),
    ('probably_delivered', 'ready_to_takeover'), ('probably_delivered', 'delivered')
UNION
-- a cancel that the warehouse is asked for, and its answers
SELECT f, 'waiting_for_cancel' FROM unnest(ARRAY['awaiting_processing', 'take_out', 'completion']) AS f
UNION
SELECT 'waiting_for_cancel', t
FROM unnest(ARRAY['canceled', 'incorrect', 'awaiting_processing', 'take_out', 'completion', 'waiting_for_the_carrier',
                  'carrier_picked_up', 'ready_to_takeover', 'delivered']) AS t;

-- What a body says of an order; never changed by a transition.
CREATE TABLE expedition_detail (
    id uuid PRIMARY KEY REFERENCES expedition ON DELETE CASCADE,
    eshop_id uuid NOT NULL,
    order_number text NOT NULL CONSTRAINT order_number_is_spelt_right CHECK (order_number ~ '^[A-Za-z0-9_/.#-]{1,32}$'),
    external_id text CONSTRAINT external_id_has_a_length CHECK (char_length(external_id) BETWEEN 1 AND 255),
    -- who created it, and, of one that was imported, SHA-256 of the row that was last taken
    user_id uuid,
    digest bytea,
    value numeric(11, 4) NOT NULL CONSTRAINT value_is_0_to_1000000 CHECK (value BETWEEN 0 AND 1000000),
    currency text NOT NULL CONSTRAINT currency_is_three_letters CHECK (currency ~ '^[A-Z]{3}$'),
    carrier_id uuid,
    carrier_service_id uuid,
    -- the preference that the carrier was chosen by, and when; null where it was given
    carrier_preference_id uuid,
    carrier_chosen_at timestamptz,
    delivery_method text,
    carrier_pickup_place uuid,
    carrier_pickup_place_code text,
    external_carrier_pickup_place uuid,
    external_carrier_pickup_place_code text,
    billing_first_name text,
    billing_last_name text,
    billing_degree text,
    billing_company text,
    billing_street text,
    billing_house_nr text,
    billing_zip text,
    billing_city text,
    billing_country text,
    billing_state text,
    billing_email text,
    billing_phone text,
    billing_registration_number text,
    billing_vat_number text,
    different_delivery_address boolean NOT NULL,
    delivery_first_name text,
    delivery_last_name text,
    delivery_degree text,
    delivery_company text,
    delivery_street text,
    delivery_house_nr text,
    delivery_zip text,
    delivery_city text,
    delivery_country text,
    delivery_state text,
    delivery_email text,
    delivery_phone text,
    cod boolean NOT NULL,
    cod_value numeric(11, 4) CONSTRAINT cod_value_is_0_to_1000000 CHECK (cod_value BETWEEN 0 AND 1000000),
    cod_currency text,
    cod_variable_symbol text,
    required_expedition_date date,
    eshop_order_date timestamptz,
    edit_before_processing boolean,
    ignore_address_validation boolean NOT NULL,
    fragile boolean NOT NULL,
    b2b boolean,
    delivery_cost numeric(11, 4) CONSTRAINT delivery_cost_is_0_to_1000000 CHECK (delivery_cost BETWEEN 0 AND 1000000),
    delivery_cost_currency text,
    note text,
    carrier_note text,
    customer_group text,
    invoice_number text,
    ref1 text,
    ref2 text,
    ref3 text,
    carrier_options jsonb,
    services uuid[] NOT NULL,
    partner uuid,
    tracking_number text,
    tracking_url text,
    generic_tracking_url text,
    external_tracking_number text,
    external_package_number text,
    packages_count integer CONSTRAINT packages_count_is_0_to_999 CHECK (packages_count BETWEEN 0 AND 999),
    removed_virtual_products jsonb NOT NULL,
    modified_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT a_chosen_carrier_says_by_what_and_when CHECK (
        (carrier_preference_id IS NULL) = (carrier_chosen_at IS NULL)
        AND (carrier_preference_id IS NULL OR carrier_id IS NOT NULL)),
    CONSTRAINT order_number_is_unique_in_the_eshop UNIQUE (eshop_id, order_number)
);
CREATE UNIQUE INDEX external_id_is_unique_in_the_eshop ON expedition_detail (eshop_id, external_id)
    WHERE external_id IS NOT NULL;
CREATE INDEX expedition_detail_by_number ON expedition_detail (order_number);
CREATE INDEX expedition_detail_by_external_id ON expedition_detail (external_id) WHERE external_id IS NOT NULL;
CREATE INDEX expedition_detail_by_tracking_number ON expedition_detail (tracking_number) WHERE tracking_number IS NOT NULL;

-- The bundles that were ordered; their parts are items.
CREATE TABLE expedition_bundle (
    expedition_id uuid NOT NULL REFERENCES expedition ON DELETE CASCADE,
    position integer NOT NULL,
    product_id uuid NOT NULL,
    quantity integer NOT NULL CONSTRAINT quantity_is_positive CHECK (quantity >= 1),
    PRIMARY KEY (expedition_id, position)
);

-- No foreign key to a product or a stock: its locks would wait for product syncs, and deadlock with them. A product of an order
-- that is sent stays physical by its stock, which is not zero.
CREATE TABLE expedition_item (
    id uuid PRIMARY KEY,
    expedition_id uuid NOT NULL REFERENCES expedition ON DELETE CASCADE,
    position integer NOT NULL,
    product_id uuid NOT NULL,
    quantity integer NOT NULL CONSTRAINT quantity_is_1_to_1000000 CHECK (quantity BETWEEN 1 AND 1000000),
    -- what of it was packed; null until then
    expedited integer CONSTRAINT no_more_leaves_than_was_ordered CHECK (expedited BETWEEN 0 AND quantity),
    -- the lot that the warehouse took it from, and the serial numbers of its pieces
    assigned_lot text,
    serial_numbers text[],
    bundle_position integer,
    product_value numeric(11, 4),
    product_value_currency text,
    product_label text,
    lot text,
    lifo boolean NOT NULL,
    ref1 text,
    ref2 text,
    ref3 text,
    book integer,
    book_limit integer,
    book_stock_advices jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT an_item_of_an_order_has_a_place UNIQUE (expedition_id, position),
    CONSTRAINT a_part_of_a_bundle_names_it
        FOREIGN KEY (expedition_id, bundle_position) REFERENCES expedition_bundle (expedition_id, position) ON DELETE CASCADE
);
CREATE INDEX expedition_item_by_product ON expedition_item (product_id, expedition_id) WHERE expedited IS NULL;

CREATE TABLE expedition_parcel (
    id uuid PRIMARY KEY,
    expedition_id uuid NOT NULL REFERENCES expedition ON DELETE CASCADE,
    ext_package_number text NOT NULL,
    ext_package_tracking_number text,
    ext_carrier_tracking_number text,
    tracking_url text,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT a_parcel_has_a_number_of_its_own UNIQUE (expedition_id, ext_package_number)
);
CREATE INDEX expedition_parcel_by_tracking_number ON expedition_parcel (ext_package_tracking_number)
    WHERE ext_package_tracking_number IS NOT NULL;
-- a customer on the phone has the number of the carrier, if the parcel has both (shared/operate/src/order/search.rs)
CREATE INDEX expedition_parcel_by_carrier_number ON expedition_parcel (ext_carrier_tracking_number)
    WHERE ext_carrier_tracking_number IS NOT NULL;

-- The items with which an order was handed over, where a body has replaced them since. A warehouse that packs it under that number
-- nevertheless took these out of the stock (shared/domain/src/expedition/news/fold.rs).
CREATE TABLE expedition_former_item (
    expedition_id uuid NOT NULL REFERENCES expedition ON DELETE CASCADE,
    -- the last number of a hand-over that had them
    number integer NOT NULL,
    position integer NOT NULL,
    id uuid NOT NULL,
    product_id uuid NOT NULL,
    quantity integer NOT NULL,
    PRIMARY KEY (expedition_id, number, position)
);
