-- Access tokens (decisions, section 3). Only the SHA-256 of a token is kept: whoever reads this table can use none.
CREATE TABLE access_token (
    id uuid PRIMARY KEY,
    hash bytea NOT NULL CONSTRAINT token_hash_is_unique UNIQUE CONSTRAINT token_hash_is_sha256 CHECK (length(hash) = 32),
    name text NOT NULL,
    role text NOT NULL
        CONSTRAINT role_is_known CHECK (role IN ('superadmin', 'admin', 'user', 'connector', 'viewer')),
    organisation_id uuid REFERENCES organisation,
    eshop_id uuid REFERENCES eshop,
    created_by text NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT a_scoped_role_has_an_organisation
        CHECK ((role IN ('superadmin', 'viewer')) = (organisation_id IS NULL)),
    CONSTRAINT only_a_connector_is_bound_to_an_eshop CHECK (eshop_id IS NULL OR role = 'connector')
);
CREATE INDEX access_token_by_organisation ON access_token (organisation_id);
CREATE INDEX access_token_by_eshop ON access_token (eshop_id);
