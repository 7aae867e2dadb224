-- Invoices of orders. The bytes are in the object store under `expedition-invoice/<id>`, their description is here. An order has
-- one at most; another one takes its place.
CREATE TABLE expedition_invoice (
    expedition_id uuid PRIMARY KEY REFERENCES expedition ON DELETE CASCADE,
    id uuid NOT NULL,
    original_name text NOT NULL
        CONSTRAINT original_name_has_a_length CHECK (char_length(original_name) BETWEEN 1 AND 255),
    mime_type text NOT NULL CONSTRAINT mime_type_is_that_of_a_pdf CHECK (mime_type = 'application/pdf'),
    size integer NOT NULL CONSTRAINT size_is_1_to_10485760_bytes CHECK (size BETWEEN 1 AND 10485760),
    sha256 bytea NOT NULL CONSTRAINT sha256_has_32_bytes CHECK (length(sha256) = 32),
    created_at timestamptz NOT NULL DEFAULT now()
);
