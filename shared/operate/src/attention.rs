//! What needs attention now ([`longshore_domain::attention`]): one list for the console and for programs.
//!
//! What people switched off is no problem and has no line. It is listed apart ([`SwitchedOff`]).

mod deprecated;
mod destination;
mod doubt;
mod events;
mod lines;
mod partner;
mod refused;
mod reports;
mod silence;
mod switched_off;
mod withheld;

pub use switched_off::{SwitchedOff, Thing, What};

pub use silence::{
    ACKNOWLEDGED_DAYS, REASON_LENGTH, SILENCES, SPANS, acknowledge, body_to_acknowledge, body_to_mute, end,
    mute,
};

use std::sync::Arc;

use longshore_domain::attention::{Address, Kind, Line, Severity, Silence, service};
use longshore_domain::standing::{self, Standing};
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::problem::{NOT_FOUND, Problem};
use longshore_kernel::services::Services;
use serde_json::{Value, json};
use uuid::Uuid;

/// Everything that needs attention.
#[derive(Clone, Debug, Default)]
pub struct Attention {
    /// The lines, the worst first.
    pub lines: Vec<Line>,
    /// Mutes of lines that are not there now.
    pub absent: Vec<Silence>,
    /// What was counted for the lines.
    pub counted: Counted,
}

/// What is counted for the lines, each up to the bound of its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Jobs that failed in the last 24 hours.
    pub failed_jobs: i64,
    /// Orders that are incorrect.
    pub incorrect_orders: i64,
}

impl Attention {
    /// How many lines nobody has acknowledged or muted, and the severity of the worst of them.
    #[must_use]
    pub fn unheeded(&self) -> (usize, Option<Severity>) {
        let unheeded = || self.lines.iter().filter(|line| line.silence.is_none());
        (unheeded().count(), unheeded().map(|line| line.severity).min())
    }
}

/// What was found at a look: the lines, without what was said about them, and what people switched off.
#[derive(Debug)]
pub struct Look {
    /// The state of the queues.
    pub standing: Arc<Standing>,
    /// What people switched off.
    pub off: Vec<SwitchedOff>,
    /// The lines, the worst first.
    lines: Vec<Line>,
    counted: Counted,
}

impl Look {
    /// The lines, with what was said about them until now.
    pub async fn attention(&self, db: &Database, scope: &Scope) -> Result<Attention, Problem> {
        let found = silence::with_silences(db, scope, self.lines.clone()).await?;
        Ok(Attention { counted: self.counted, ..found })
    }
}

/// Looks for a caller with this scope, with a state of the queues, on which only the lines about the service wait.
pub async fn look(
    services: &Services,
    scope: &Scope,
    standing: impl Future<Output = Result<Arc<Standing>, Problem>>,
) -> Result<Look, Problem> {
    let of_service = async {
        let standing = standing.await?;
        let lines = service::lines(services, scope, &standing).await?;
        Ok((standing, lines))
    };
    let ((standing, mut lines), (others, counted), off) = tokio::try_join!(
        of_service,
        Box::pin(lines::others(services, scope)),
        switched_off::things(&services.db, scope)
    )?;
    lines.extend(others);
    lines.sort_by_key(|line| line.severity);
    Ok(Look { standing, off, lines, counted })
}

/// Looks now.
async fn now(services: &Services, scope: &Scope) -> Result<(Look, Attention), Problem> {
    let look = look(services, scope, async { standing::read(services).await.map(Arc::new) }).await?;
    let attention = look.attention(&services.db, scope).await?;
    Ok((look, attention))
}

/// What is wrong within a part of what a caller may see, such as an e-shop, the worst first: the same lines, without those of the service.
pub async fn within(services: &Services, reader: &Scope, part: &Scope) -> Result<Vec<Line>, Problem> {
    let (mut lines, _) = Box::pin(lines::others(services, part)).await?;
    lines.sort_by_key(|line| line.severity);
    Ok(silence::with_silences(&services.db, reader, lines).await?.lines)
}

/// What of it is about orders.
pub async fn of_orders(services: &Services, scope: &Scope) -> Result<Attention, Problem> {
    let (mut lines, _) = lines::of_orders(services, scope).await?;
    lines.sort_by_key(|line| line.severity);
    let mut found = silence::with_silences(&services.db, scope, lines).await?;
    found.absent.retain(|silence| Kind::OF_ORDERS.contains(&silence.kind));
    Ok(found)
}

/// Everything as JSON (`GET /api/attention`), with the addresses of its pages.
pub async fn list(services: &Services, scope: &Scope, address: Address) -> Result<String, Problem> {
    let (look, attention) = now(services, scope).await?;
    let lines: Vec<Value> = attention.lines.iter().map(|line| line.fields(address)).collect();
    let absent: Vec<Value> = attention.absent.iter().map(Silence::fields).collect();
    let off: Vec<Value> = look.off.iter().map(|off| off.fields(address)).collect();
    Ok(json!({"lines": lines, "absent": absent, "switchedOff": off}).to_string())
}

/// The line of that id, if it is there now.
pub async fn find(services: &Services, scope: &Scope, id: Uuid) -> Result<Line, Problem> {
    let (_, attention) = now(services, scope).await?;
    let found = attention.lines.into_iter().find(|line| line.id == id);
    found.ok_or_else(|| {
        Problem::new(&NOT_FOUND, "the line is not there: what it was about is over, or nothing has that id")
    })
}

/// What was said about a line, whether or not that is there now.
pub async fn said(services: &Services, scope: &Scope, id: Uuid) -> Result<Silence, Problem> {
    let (_, attention) = now(services, scope).await?;
    let of_lines = attention.lines.into_iter().filter_map(|line| line.silence);
    let found = of_lines.chain(attention.absent).find(|silence| silence.line == id);
    found.ok_or_else(|| Problem::not_found("acknowledgement or mute"))
}
