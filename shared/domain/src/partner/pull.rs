//! Pulls: the worker fetches the rows from the partner, as the e-shop's integration setting says
//! (`docs/reference/syncs.md#syncs`). This module reads the request and accepts the jobs; [`crate::job::fetching`] fills
//! them.

use serde_json::Value;

use super::push::{Push, organisation_of, place};
use super::send_out::{self, Extent};
use super::setting::{self, Setting};
use crate::job::fetching;
use crate::job::kind::{SendStocks, Shop, SyncProducts, SyncStocks};
use crate::job::receiving::Target;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{EshopId, JobId};
use longshore_kernel::input::{Reader, Rule, drafts, id, object, one_of, text};
use longshore_kernel::problem::{Problem, Violation, with_found};
use longshore_kernel::services::Services;

/// E-shops and sources that one request may name.
pub const MOST: usize = 100;

/// What is asked for: a source of an e-shop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    eshop: EshopId,
    source: String,
}

/// Accepts a job for what is asked for, `{eshop, inventoryId}`, or one for each of an array of these, all or none. What
/// waits already is not accepted twice: the job that waits is the answer.
pub async fn accept(
    services: &Services,
    context: &Context,
    pull: Push,
    body: Value,
) -> Result<Answer, Problem> {
    let single = !body.is_array();
    if pull == Push::Stocks && single && body.get("direction").is_none_or(|direction| direction != "in") {
        return send_out::request(services, context, body).await;
    }
    let (wishes, refused) = read(pull, body);
    let mut targets = Vec::with_capacity(wishes.len());
    let mut found = Vec::new();
    for (position, wish) in wishes.into_iter().enumerate() {
        match target(services, context, pull, &wish).await {
            Ok((target, source)) => targets.push((position, target, source)),
            Err(problem) if problem.violations().is_empty() => return Err(problem),
            Err(problem) if single => found.extend_from_slice(problem.violations()),
            Err(problem) => found.extend(problem.violations().iter().map(|v| Violation {
                property_path: format!("[{position}].{}", v.property_path),
                ..v.clone()
            })),
        }
    }
    Problem::refuse(with_found(refused, found))?;
    // acceptances for several organisations lock them in one order
    targets.sort_by_key(|(position, target, _)| (target.organisation(), *position));
    let mut change = Change::begin(services).await?;
    let mut jobs = Vec::with_capacity(targets.len());
    for (position, target, source) in &targets {
        jobs.push((*position, fetching::accept(&mut change, &context.origin, target, source).await?));
    }
    jobs.sort_unstable();
    let jobs: Vec<JobId> = jobs.into_iter().map(|(_, job)| job).collect();
    let answer = match jobs.as_slice() {
        [job] if single => Answer::accepted_job(*job),
        jobs => Answer::shown(serde_json::to_string(jobs).map_err(Problem::internal)?),
    };
    change.answer(context.claim, answer).await
}

/// Accepts at once what the clock starts at the interval of the setting: a sync of the products of each inventory, or of what
/// there is where the setting names none, and a send-out of stocks if that is enabled. Answers with the ids of the jobs.
pub async fn now(services: &Services, context: &Context, eshop: EshopId) -> Result<Answer, Problem> {
    let organisation = organisation_of(services, context.scope(), eshop).await?;
    let setting = active_setting(services, eshop).await?;
    let shop = Shop { organisation, eshop };
    let scope_eshop = context.scope().eshop();
    let mut sources: Vec<String> =
        setting.wanted.inventories.into_iter().map(|inventory| inventory.inventory_id).collect();
    if sources.is_empty() {
        sources.push(String::new());
    }
    let product = |source: String| {
        let job = SyncProducts { scope_eshop, inventory_id: Some(source.clone()) };
        Ok((Target::new(&job, shop)?.guarded(setting.wanted.guard.as_ref())?, source))
    };
    let mut targets = sources.into_iter().map(product).collect::<Result<Vec<_>, Problem>>()?;
    if setting.wanted.stock_sync.enabled {
        targets.push((Target::new(&SendStocks::default(), shop)?, Extent::Everything.source()));
    }
    let mut change = Change::begin(services).await?;
    let mut jobs = Vec::with_capacity(targets.len());
    for (target, source) in &targets {
        jobs.push(fetching::accept(&mut change, &context.origin, target, source).await?);
    }
    let answer = Answer::shown(serde_json::to_string(&jobs).map_err(Problem::internal)?);
    change.answer(context.claim, answer).await
}

/// The setting of an e-shop, where the partner may be called.
async fn active_setting(services: &Services, eshop: EshopId) -> Result<Setting, Problem> {
    let setting = setting::of_eshop(services, eshop).await?;
    let refuse = |message| Problem::violation("eshop", "no_integration", message);
    let setting = setting.ok_or_else(|| refuse("has no integration setting: store one, or send the rows"))?;
    if !setting.wanted.active {
        return Err(refuse("has an inactive integration setting"));
    }
    Ok(setting)
}

fn read(pull: Push, body: Value) -> (Vec<Wish>, Vec<Violation>) {
    if body.is_array() {
        return Reader::draft(body, drafts(1..=MOST, wish(pull)));
    }
    let (wish, refused) = Reader::draft(body, wish(pull));
    (vec![wish], refused)
}

/// One wish. What is refused of it is blank.
pub fn wish(pull: Push) -> impl Rule<Out = Wish> + Clone {
    object(move |object| {
        let eshop = object.required("eshop", id());
        let source = pull.source_member().and_then(|member| object.required(member, text(1..=255)));
        if pull == Push::Stocks {
            object.required("direction", one_of(&["in"]));
        }
        Some(Wish { eshop: eshop.unwrap_or_default().into(), source: source.unwrap_or_default() })
    })
}

/// What a job is for, and what it asks the partner for, if the e-shop's setting allows it.
async fn target(
    services: &Services,
    context: &Context,
    pull: Push,
    wish: &Wish,
) -> Result<(Target, String), Problem> {
    let organisation = organisation_of(services, context.scope(), wish.eshop).await?;
    let setting = active_setting(services, wish.eshop).await?;
    let scope_eshop = context.scope().eshop();
    let shop = Shop { organisation, eshop: wish.eshop };
    match pull {
        Push::Products => {
            must_be_listed(&setting, &wish.source)?;
            let inventory_id = Some(wish.source.clone());
            let target = Target::new(&SyncProducts { scope_eshop, inventory_id }, shop)?;
            Ok((target.guarded(setting.wanted.guard.as_ref())?, wish.source.clone()))
        }
        Push::Stocks => {
            let (warehouse, wms) = place(services, organisation, wish.eshop, &wish.source).await?;
            let mapped = setting.wanted.mapping(&wish.source);
            let source = mapped.map_or(&wish.source, |mapping| &mapping.warehouse_id).clone();
            let target = Target::new(&SyncStocks { scope_eshop, warehouse, wms }, shop)?;
            Ok((target.guarded(setting.wanted.guard.as_ref())?, source))
        }
        Push::Expeditions | Push::News => Err(Problem::internal("no partner is asked for orders")),
    }
}

/// A setting that lists inventories means those.
fn must_be_listed(setting: &Setting, inventory: &str) -> Result<(), Problem> {
    let listed = &setting.wanted.inventories;
    if listed.is_empty() || listed.iter().any(|listed| listed.inventory_id == inventory) {
        return Ok(());
    }
    let message = "must be one of the inventories of the e-shop's integration setting";
    Err(Problem::violation("inventoryId", "unknown_reference", message))
}
