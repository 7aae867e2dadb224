-- Business users: the accounts of people who work in one organisation.
CREATE TABLE business_user (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    email text NOT NULL,
    first_name text NOT NULL,
    last_name text NOT NULL,
    phone text,
    password_hash text,
    active boolean NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX business_user_email_is_unique ON business_user (lower(email));
CREATE INDEX business_user_by_organisation ON business_user (organisation_id, created_at, id);
CREATE INDEX business_user_by_creation ON business_user (created_at, id);
CREATE INDEX business_user_by_change ON business_user (changed_at, id);
