-- Access tokens. Only the SHA-256 of a token is kept: this table lets no reader use one.
--
-- The token of a login belongs to an account and may do what the account may do at that moment, so its role and
-- organisations are read there. It expires, and is deleted with its account or its session.
CREATE TABLE access_token (
    id uuid PRIMARY KEY,
    hash bytea NOT NULL CONSTRAINT token_hash_is_unique UNIQUE CONSTRAINT token_hash_is_sha256 CHECK (length(hash) = 32),
    name text NOT NULL,
    role text NOT NULL
        CONSTRAINT role_is_known CHECK (role IN ('superadmin', 'admin', 'user', 'connector', 'viewer', 'warehouse')),
    organisation_id uuid REFERENCES organisation,
    eshop_id uuid REFERENCES eshop,
    wms_id uuid REFERENCES wms,
    admin_id uuid REFERENCES admin ON DELETE CASCADE,
    business_user_id uuid REFERENCES business_user ON DELETE CASCADE,
    session_id uuid REFERENCES session ON DELETE CASCADE,
    created_by text NOT NULL,
    created_by_type text,
    -- No foreign keys: a token is revoked before its maker is deleted, and stays, since it leads to what it did.
    made_by_admin_id uuid,
    made_by_token_id uuid,
    expires_at timestamptz,
    revoked_at timestamptz,
    -- of the token of a program; that of a login ends with its account or session
    revoked_by text,
    revoked_by_type text,
    revoked_by_id uuid,
    last_used_at timestamptz,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT a_scoped_role_has_an_organisation CHECK (
        CASE WHEN admin_id IS NOT NULL THEN organisation_id IS NULL
             ELSE (role IN ('superadmin', 'viewer')) = (organisation_id IS NULL) END),
    CONSTRAINT only_a_connector_is_bound_to_an_eshop CHECK (eshop_id IS NULL OR role = 'connector'),
    CONSTRAINT a_warehouse_is_the_program_of_a_wms CHECK ((role = 'warehouse') = (wms_id IS NOT NULL)),
    CONSTRAINT a_token_stands_for_one_account CHECK (num_nonnulls(admin_id, business_user_id) <= 1),
    CONSTRAINT the_token_of_a_login_ends
        CHECK (num_nonnulls(admin_id, business_user_id) = 0 OR expires_at IS NOT NULL),
    CONSTRAINT a_token_has_one_maker CHECK (num_nonnulls(made_by_admin_id, made_by_token_id) <= 1)
);
CREATE INDEX access_token_by_organisation ON access_token (organisation_id);
CREATE INDEX access_token_by_eshop ON access_token (eshop_id);
CREATE INDEX access_token_by_wms ON access_token (wms_id) WHERE wms_id IS NOT NULL;
CREATE INDEX access_token_by_admin ON access_token (admin_id);
CREATE INDEX access_token_by_business_user ON access_token (business_user_id);
CREATE INDEX access_token_by_session ON access_token (session_id);
CREATE INDEX access_token_by_making_admin ON access_token (made_by_admin_id) WHERE made_by_admin_id IS NOT NULL;
CREATE INDEX access_token_by_making_token ON access_token (made_by_token_id) WHERE made_by_token_id IS NOT NULL;
CREATE INDEX access_token_by_creation ON access_token (created_at, id);
CREATE INDEX access_token_by_change ON access_token (changed_at, id);
CREATE INDEX access_token_by_revocation ON access_token (revoked_at)
    WHERE revoked_at IS NOT NULL AND num_nonnulls(admin_id, business_user_id) = 0;
CREATE INDEX access_token_by_expiry ON access_token (expires_at) WHERE num_nonnulls(admin_id, business_user_id) = 1;
