//! Searching the audit, newest first, in bounded time however long it is.
//!
//! What people do is a small part of it, and has indexes of its own. What a job does to its items is most of it: such records are
//! not listed one by one, but folded into their job, until that job or one of its items is asked for. So an index leads to every
//! record that matches an organisation, an action, an entity, a request, a job or a time. Only the actor is compared record by
//! record, for at most [`WINDOW`] of them: of those of people, if the actor is one.

mod batch;
mod record;

pub use batch::Batch;
pub use record::Line;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use self::batch::batches;
use self::record::records;

use crate::list::criteria::containing;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{Id, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

/// Entries a page.
pub const PAGE: usize = 50;
/// Records that one page looks at for an actor.
pub const WINDOW: i64 = 10_000;

/// Whose records are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// Those of people: admins, business users, and the command line of the service.
    #[default]
    People,
    /// Those of programs and of the schedule, too.
    All,
}

/// What is wanted; all of it is required.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// By whom; an entity, a request or a job is shown with everything.
    pub whose: Whose,
    /// Of this organisation.
    pub organisation: Option<OrganisationId>,
    /// About this entity.
    pub entity: Option<Uuid>,
    /// An action that starts with this.
    pub action: Option<String>,
    /// By an actor whose name contains this text.
    pub actor: Option<String>,
    /// By this account, or by the program with this token.
    pub by: Option<Uuid>,
    /// By this request.
    pub request: Option<String>,
    /// By this job.
    pub job: Option<JobId>,
    /// At this moment or later.
    pub since: Option<DateTime<Utc>>,
    /// Before this moment.
    pub until: Option<DateTime<Utc>>,
    /// Older than this cursor.
    pub after: Option<Cursor>,
}

/// Marks the ids of entries, which are those of records and of jobs.
#[derive(Debug)]
pub struct Any;

/// Where a page ends.
pub type Cursor = longshore_kernel::cursor::Cursor<Id<Any>>;

/// An entry.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A record.
    Record(Box<Line>),
    /// The records of a job.
    Job(Batch),
}

impl Entry {
    fn cursor(&self) -> Cursor {
        match self {
            Self::Record(record) => Cursor { at: record.at, id: record.id.into() },
            Self::Job(job) => Cursor { at: job.at, id: job.id.get().into() },
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The entries, newest first, at most [`PAGE`].
    pub entries: Vec<Entry>,
    /// Where the next page begins, if there may be more.
    pub next: Option<Cursor>,
    /// As many were looked at as one search may, and fewer than a page of them matched.
    pub cut_short: bool,
}

/// What narrows a search down by an index.
struct Inner<'w> {
    organisations: Option<&'w [OrganisationId]>,
    organisation: Option<OrganisationId>,
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
    at: Option<DateTime<Utc>>,
    id: Option<Id<Any>>,
    action: Option<String>,
    actor: Option<String>,
    by: Option<Uuid>,
    /// What an action begins with.
    begins: &'w str,
    /// Records that one look takes.
    window: i64,
    limit: i64,
}

/// Searches.
pub async fn search(db: &Database, scope: &Scope, wanted: &Filter) -> Result<Page, Problem> {
    // one organisation is compared: its index then has the order, too
    let (organisations, only) = match scope.organisations() {
        Some([one]) if wanted.organisation.is_none_or(|wanted| wanted == *one) => (None, Some(*one)),
        several => (several, wanted.organisation),
    };
    let limit = i64::try_from(PAGE + 1).map_err(Problem::internal)?;
    // an index leads to what matches everything but these
    let has_actor = wanted.actor.is_some() || wanted.by.is_some();
    let is_compared = has_actor || (wanted.entity.is_some() && wanted.action.is_some());
    let inner = Inner {
        organisations,
        organisation: only,
        since: wanted.since,
        until: wanted.until,
        at: wanted.after.map(|cursor| cursor.at),
        id: wanted.after.map(|cursor| cursor.id),
        action: wanted.action.as_deref().map(|text| containing(text).split_off(1)),
        actor: wanted.actor.as_deref().map(containing),
        by: wanted.by,
        begins: wanted.action.as_deref().unwrap_or_default(),
        window: if is_compared { WINDOW } else { limit },
        limit,
    };
    let has_jobs = wanted.entity.is_none() && wanted.job.is_none();
    let (records, jobs) = tokio::try_join!(records(db, &inner, wanted), async {
        if has_jobs && (wanted.whose == Whose::All || wanted.request.is_some()) {
            batches(db, scope, &inner, wanted.request.as_deref()).await
        } else {
            Ok(Vec::new())
        }
    },)?;
    let records =
        records.into_iter().map(|line| (line.matches, line.is_edge, Entry::Record(Box::new(line)))).collect();
    let jobs = jobs.into_iter().map(|job| (job.matches, job.is_edge, Entry::Job(job))).collect();
    Ok(merged([records, jobs]))
}

/// Entries of a source in their order, each with whether it is wanted, and whether the search ended there.
type Source = Vec<(bool, bool, Entry)>;

/// A page of all sources, down to the last place to which each of them was read.
fn merged(sources: [Source; 2]) -> Page {
    let end = |source: &Source| {
        let cut = source.get(PAGE).map(|(.., entry)| entry.cursor());
        let edges = source.iter().filter(|(_, is_edge, _)| *is_edge).map(|(.., entry)| entry.cursor());
        edges.chain(cut).max_by_key(key)
    };
    let end = sources.iter().filter_map(end).max_by_key(key);
    let found = sources.into_iter().flatten().filter(|(matches, ..)| *matches).map(|(.., entry)| entry);
    let mut entries: Vec<Entry> =
        found.filter(|entry| end.is_none_or(|end| key(&entry.cursor()) >= key(&end))).collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(key(&entry.cursor())));
    if entries.len() > PAGE {
        entries.truncate(PAGE);
        let next = entries.last().map(Entry::cursor);
        return Page { entries, next, cut_short: false };
    }
    Page { entries, next: end, cut_short: end.is_some() }
}

fn key(cursor: &Cursor) -> (DateTime<Utc>, Uuid) {
    (cursor.at, cursor.id.get())
}
