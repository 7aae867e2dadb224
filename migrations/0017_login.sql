-- The token of a login stands for an account (decisions, section 3): what it may do is what the account may do at that
-- moment, so its role and organisations are read there. It ends by itself, and goes with its account.
ALTER TABLE access_token
    ADD COLUMN admin_id uuid REFERENCES admin ON DELETE CASCADE,
    ADD COLUMN business_user_id uuid REFERENCES business_user ON DELETE CASCADE,
    ADD CONSTRAINT a_token_stands_for_one_account CHECK (num_nonnulls(admin_id, business_user_id) <= 1),
    ADD CONSTRAINT the_token_of_a_login_ends
        CHECK (num_nonnulls(admin_id, business_user_id) = 0 OR expires_at IS NOT NULL),
    DROP CONSTRAINT a_scoped_role_has_an_organisation,
    ADD CONSTRAINT a_scoped_role_has_an_organisation CHECK (
        CASE WHEN admin_id IS NOT NULL THEN organisation_id IS NULL
             ELSE (role IN ('superadmin', 'viewer')) = (organisation_id IS NULL) END);
CREATE INDEX access_token_by_admin ON access_token (admin_id);
CREATE INDEX access_token_by_business_user ON access_token (business_user_id);
CREATE INDEX access_token_by_creation ON access_token (created_at, id);
CREATE INDEX access_token_by_change ON access_token (changed_at, id);
CREATE INDEX access_token_by_expiry ON access_token (expires_at) WHERE num_nonnulls(admin_id, business_user_id) = 1;
