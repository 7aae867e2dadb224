-- Sessions: a login opens one and its refreshes continue it, so that it has an end, and people can
-- see and end it. The tokens of a session are valid as long as the session is.
CREATE TABLE session (
    id uuid PRIMARY KEY,
    admin_id uuid REFERENCES admin ON DELETE CASCADE,
    business_user_id uuid REFERENCES business_user ON DELETE CASCADE,
    account_id uuid NOT NULL GENERATED ALWAYS AS (coalesce(admin_id, business_user_id)) STORED,
    -- where the login came from, as the client said of itself
    address text,
    user_agent text CONSTRAINT user_agent_has_at_most_255_characters CHECK (length(user_agent) <= 255),
    last_used_at timestamptz NOT NULL DEFAULT now(),
    -- the end of its newest token
    expires_at timestamptz NOT NULL,
    -- no refresh extends it past this moment
    ends_at timestamptz NOT NULL,
    -- when it was ended before its time
    ended_at timestamptz,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT a_session_is_of_one_account CHECK (num_nonnulls(admin_id, business_user_id) = 1),
    CONSTRAINT a_session_expires_no_later_than_it_ends CHECK (expires_at <= ends_at)
);
CREATE INDEX session_by_admin ON session (admin_id);
CREATE INDEX session_by_business_user ON session (business_user_id);
CREATE INDEX session_by_account ON session (account_id, created_at, id);
CREATE INDEX session_by_creation ON session (created_at, id);
CREATE INDEX session_by_change ON session (changed_at, id);
CREATE INDEX session_by_expiry ON session (expires_at);
