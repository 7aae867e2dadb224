-- Readers: those who cannot be called read events in their order (docs/reference/event-readers.md#reader). A reader is a name for a
-- cursor in the events: what a change costs does not depend on their number.
CREATE TABLE event_reader (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    -- null: it hears of all e-shops of its organisation, and of the organisation itself
    eshop_id uuid REFERENCES eshop,
    -- what it hears of: the one, or the other
    source_id uuid NOT NULL GENERATED ALWAYS AS (coalesce(eshop_id, organisation_id)) STORED,
    name text NOT NULL,
    -- these columns are as those of a webhook
    events text[] NOT NULL CONSTRAINT events_are_1_to_20 CHECK (cardinality(events) BETWEEN 1 AND 20),
    event text CONSTRAINT event_says_the_same CHECK (event = '*' OR events = ARRAY[event]),
    criteria jsonb,
    matches jsonpath CONSTRAINT criteria_are_judged_by CHECK ((criteria IS NULL) = (matches IS NULL)),
    selected text[],
    created_by text,
    created_by_type text,
    created_by_id uuid,
    made_by uuid,
    bound boolean NOT NULL DEFAULT false,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT only_a_reader_of_an_eshop_is_bound CHECK (NOT bound OR eshop_id IS NOT NULL)
);
CREATE INDEX event_reader_by_creation ON event_reader (organisation_id, created_at, id);
CREATE INDEX event_reader_by_change ON event_reader (changed_at, id);
CREATE INDEX event_reader_by_source ON event_reader (source_id);
CREATE INDEX event_reader_by_maker ON event_reader (made_by) WHERE made_by IS NOT NULL;

-- Where readers are.
CREATE TABLE event_reader_position (
    reader_id uuid PRIMARY KEY REFERENCES event_reader ON DELETE CASCADE,
    -- Whether every transaction that may not know what the reader hears of has ended. Until then it is starting.
    settled boolean NOT NULL DEFAULT false,
    -- these transactions; null: it was not looked for them yet
    writers text[],
    -- where it begins, in which epoch (`pulse`); null: it never did
    epoch integer,
    -- and in which cluster, whose transactions are counted: a planned move by dump is no set-back
    cluster bigint,
    beginning text,
    began_at timestamptz,
    -- where it said that it is, as a cursor, and the moment of that
    position text,
    position_at timestamptz,
    -- when it was last read, about a minute exact; up to which moment; and how many events a second lately, which fades with time
    read_at timestamptz,
    read_to timestamptz,
    read_rate real NOT NULL DEFAULT 0,
    CONSTRAINT a_beginning_is_whole CHECK (num_nulls(epoch, cluster, beginning, began_at) IN (0, 4)),
    CONSTRAINT a_position_has_a_moment CHECK ((position IS NULL) = (position_at IS NULL))
);

-- Moments of the events of an organisation: what each shows has ended, and each shows all that those before it show. Events are read
-- from one to the next: all between two of them is committed, so it never becomes more.
CREATE TABLE event_tick (
    organisation_id uuid NOT NULL,
    n bigint NOT NULL,
    at timestamptz NOT NULL,
    snapshot pg_snapshot NOT NULL,
    -- in which epoch, and in which cluster: its transactions are those of that one
    epoch integer NOT NULL,
    cluster bigint NOT NULL,
    PRIMARY KEY (organisation_id, n)
);
CREATE INDEX event_tick_by_age ON event_tick (at);
