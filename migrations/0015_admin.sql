-- Admins: the accounts of people who run the service or some of its organisations. Only the
-- Argon2id hash of a password is kept.
CREATE TABLE admin (
    id uuid PRIMARY KEY,
    email text NOT NULL,
    first_name text NOT NULL,
    last_name text NOT NULL,
    phone text,
    role text NOT NULL CONSTRAINT admin_role_is_known CHECK (role IN ('admin', 'superadmin', 'viewer')),
    -- an admin without one cannot log in
    password_hash text,
    active boolean NOT NULL,
    -- the acceptance number of the last switch: an older one never undoes a newer one
    active_acceptance bigint NOT NULL,
    preferences jsonb NOT NULL DEFAULT '{}'
        CONSTRAINT preferences_are_an_object CHECK (jsonb_typeof(preferences) = 'object'),
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
-- an address is the same in upper and in lower case
CREATE UNIQUE INDEX admin_email_is_unique ON admin (lower(email));
CREATE INDEX admin_by_creation ON admin (created_at, id);
CREATE INDEX admin_by_change ON admin (changed_at, id);

CREATE TABLE admin_organisation (
    admin_id uuid NOT NULL REFERENCES admin ON DELETE CASCADE,
    organisation_id uuid NOT NULL REFERENCES organisation,
    PRIMARY KEY (admin_id, organisation_id)
);
CREATE INDEX admin_organisation_by_organisation ON admin_organisation (organisation_id);

-- Second factors of admins: a secret for time-based one-time passwords (RFC 6238), sealed as
-- credentials are. A factor is active once its owner has entered one of its codes.
CREATE TABLE second_factor (
    admin_id uuid PRIMARY KEY REFERENCES admin ON DELETE CASCADE,
    secret bytea NOT NULL,
    active boolean NOT NULL DEFAULT false,
    -- the newest time step whose code was used: no code is accepted twice
    last_step bigint NOT NULL DEFAULT 0,
    -- SHA-256 of the recovery codes that are left
    recovery_codes bytea[] NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT only_an_active_factor_has_recovery_codes CHECK (active OR recovery_codes = '{}')
);
