//! What was said about a line, and its end.

use chrono::{DateTime, Utc};
use longshore_kernel::access::Scope;
use longshore_kernel::answer::moment;
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::words;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Kind, Line, service};
use crate::standing;

words! {
    /// What a silence is.
    pub enum Mode ("mode") {
        /// An operator has seen the line.
        Acknowledged = "acknowledged",
        /// The line is hidden.
        Muted = "muted",
    }
}

/// An acknowledgement or a mute of a line.
#[derive(Clone, Debug)]
pub struct Silence {
    /// The line.
    pub line: Uuid,
    /// What that is about.
    pub kind: Kind,
    /// Whose it is; absent where it is the service's.
    pub organisation: Option<OrganisationId>,
    /// What it is.
    pub mode: Mode,
    /// What the line said then.
    pub sentence: String,
    /// The cause that it covers.
    pub cause: Option<DateTime<Utc>>,
    /// When it ends.
    pub until: DateTime<Utc>,
    /// Why, or a note.
    pub reason: Option<String>,
    /// Who said it.
    pub by: String,
    /// When.
    pub at: DateTime<Utc>,
}

impl Silence {
    /// As `GET /api/attention` shows it.
    #[must_use]
    pub fn fields(&self) -> Value {
        json!({
            "line": self.line, "mode": self.mode, "sentence": self.sentence, "by": self.by, "at": moment(self.at),
            "until": moment(self.until), "reason": self.reason,
        })
    }

    /// Whether it holds for a line as that is now.
    #[must_use]
    pub fn covers(&self, line: &Line) -> bool {
        self.line == line.id && (self.mode == Mode::Muted || line.cause <= self.cause)
    }
}

/// Ends acknowledgements of lines about the service and its queues that are not there any more, as the schedule's doing, and forgets
/// what has expired; returns how many there were. The causes of other lines have a moment, so a later one is not covered.
pub async fn settle(services: &Services) -> Result<u64, Problem> {
    let kinds = Kind::WITHOUT_CAUSE.map(Kind::as_str);
    let expired = sqlx::query!("DELETE FROM attention_silence WHERE until <= now()")
        .execute(&services.db.main)
        .await?
        .rows_affected();
    let is_needed = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM attention_silence WHERE mode = 'acknowledged' AND kind = ANY ($1)) AS "is_needed!""#,
        &kinds as &[&str],
    )
    .fetch_one(&services.db.main)
    .await?;
    if !is_needed {
        return Ok(expired);
    }
    let stands = standing::read(services).await?;
    let present = service::lines(services, &Scope::Everything, &stands).await?;
    let present: Vec<Uuid> = present.iter().map(|line| line.id).collect();
    let origin = Origin::schedule("upkeep");
    let mut change = Change::begin(services).await?;
    let recorded = record_change!(
        change.connection(),
        origin,
        "attention.end",
        "attention",
        None,
        "WITH made AS (
             DELETE FROM attention_silence WHERE mode = 'acknowledged' AND kind = ANY ($9) AND line_id <> ALL ($10) RETURNING *
         ), changed AS (
             SELECT line_id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('line', jsonb_build_array(sentence, NULL), 'state', jsonb_build_array(mode, NULL),
                        'until', jsonb_build_array(until, NULL)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        &kinds as &[&str],
        &present,
    )
    .await?;
    let ended = change.note(recorded);
    change.commit().await?;
    Ok(expired + ended.unsigned_abs())
}
