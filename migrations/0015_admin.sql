-- Admins (decisions, sections 3 and 4): the accounts of those who run the service or some of its organisations. Only the
-- Argon2id hash of a password is kept.
CREATE TABLE admin (
    id uuid PRIMARY KEY,
    email text NOT NULL,
    first_name text NOT NULL,
    last_name text NOT NULL,
    phone text,
    role text NOT NULL CONSTRAINT admin_role_is_known CHECK (role IN ('admin', 'superadmin', 'viewer')),
    -- who has none cannot log in
    password_hash text,
    active boolean NOT NULL,
    -- number of the acceptance that switched it last: an older one never undoes a newer
    active_acceptance bigint NOT NULL,
    preferences jsonb NOT NULL DEFAULT '{}'
        CONSTRAINT preferences_are_an_object CHECK (jsonb_typeof(preferences) = 'object'),
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
-- an address is the same however its letters are written
CREATE UNIQUE INDEX admin_email_is_unique ON admin (lower(email));
CREATE INDEX admin_by_creation ON admin (created_at, id);
CREATE INDEX admin_by_change ON admin (changed_at, id);

CREATE TABLE admin_organisation (
    admin_id uuid NOT NULL REFERENCES admin ON DELETE CASCADE,
    organisation_id uuid NOT NULL REFERENCES organisation,
    PRIMARY KEY (admin_id, organisation_id)
);
CREATE INDEX admin_organisation_by_organisation ON admin_organisation (organisation_id);
