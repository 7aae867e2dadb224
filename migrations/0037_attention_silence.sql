-- What operators have seen of what needs attention, and what they hide for a time (shared/operate/src/attention.rs). The lines
-- themselves are read from what they are about, and are not stored.
CREATE TABLE attention_silence (
    id uuid PRIMARY KEY,
    -- null: of the whole service
    organisation_id uuid REFERENCES organisation,
    -- made from what the line is about: the same for as long as it is about that
    line_id uuid NOT NULL,
    kind text NOT NULL,
    mode text NOT NULL CONSTRAINT mode_is_known CHECK (mode IN ('acknowledged', 'muted')),
    -- as it was then
    sentence text NOT NULL,
    -- an acknowledgement covers what was there at that moment, and nothing that came later
    cause timestamptz,
    until timestamptz NOT NULL,
    reason text CONSTRAINT reason_is_short CHECK (length(reason) <= 200),
    actor_name text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT a_mute_has_a_reason CHECK (mode = 'acknowledged' OR reason IS NOT NULL),
    CONSTRAINT a_line_is_silenced_once UNIQUE NULLS NOT DISTINCT (organisation_id, line_id)
);
CREATE INDEX attention_silence_by_line ON attention_silence (line_id);
CREATE INDEX attention_silence_by_end ON attention_silence (until);
