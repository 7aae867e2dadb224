//! Scheduled syncs (`docs/reference/syncs.md#schedules`): at the interval of the setting, by the clock of Postgres.
//!
//! A row says when a setting's next one is due. The upkeep of any worker takes due schedules, starts their syncs, and sets
//! the next time, all in one transaction: two workers never start one twice, and a sync that became due several times
//! without a worker is started once. The times have jitter, so that shops with the same interval do not all start at once.
//! While an e-shop or its setting is not active, or a sync of the kind still runs, nothing is started; it stays due.

use sqlx::PgConnection;
use sqlx::types::Json;

use super::send_out::Extent;
use super::setting::SettingFields;
use crate::job::fetching;
use crate::job::guard::Guard;
use crate::job::kind::{JobKind, SendStocks, Shop, SyncProducts};
use crate::job::receiving::Target;
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{EshopId, OrganisationId, SettingId};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Settings that one transaction goes over.
const BATCH: i64 = 50;

/// What a setting has done by the clock, each with its interval in minutes.
fn wanted_by(wanted: &SettingFields) -> Vec<(JobKind, i32)> {
    let syncs = [
        (JobKind::ProductSync, wanted.product_sync.enabled, wanted.product_sync.interval_minutes),
        (JobKind::StockSend, wanted.stock_sync.enabled, wanted.stock_sync.interval_minutes),
    ];
    let enabled = syncs.into_iter().filter(|(_, enabled, _)| wanted.active && *enabled);
    enabled.map(|(kind, _, interval)| (kind, interval)).collect()
}

/// Sets the clock as a setting wants it, in the transaction that stores it. What runs on keeps its next moment, unless the
/// new interval brings it nearer; what is new is due within a minute.
pub(super) async fn set(
    tx: &mut PgConnection,
    setting: SettingId,
    wanted: &SettingFields,
) -> Result<(), sqlx::Error> {
    let (kinds, intervals): (Vec<&str>, Vec<i32>) =
        wanted_by(wanted).into_iter().map(|(kind, interval)| (kind.as_str(), interval)).unzip();
    sqlx::query!(
        "DELETE FROM partner_clock WHERE setting_id = $1 AND kind <> ALL($2)",
        setting.get(),
        &kinds as &[&str],
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "INSERT INTO partner_clock AS c (setting_id, kind, interval_minutes, next_run_at)
         SELECT $1, w.kind, w.minutes, now() + random() * interval '1 minute'
         FROM unnest($2::text[], $3::int[]) AS w (kind, minutes)
         ON CONFLICT (setting_id, kind) DO UPDATE
         SET interval_minutes = excluded.interval_minutes,
             next_run_at = least(c.next_run_at, now() + excluded.interval_minutes * interval '1 minute')",
        setting.get(),
        &kinds as &[&str],
        &intervals,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// One that is due.
struct Due {
    setting: SettingId,
    kind: JobKind,
    eshop: EshopId,
    organisation: OrganisationId,
    inventories: Vec<String>,
    bound: bool,
    guard: Option<Json<Guard>>,
}

impl Due {
    /// The jobs, each with what of the partner it reads: each of the setting's inventories, or what there is where it names
    /// none. A stock schedule sends every difference that the partner does not have.
    fn targets(self) -> Result<Vec<(Target, String)>, Problem> {
        let shop = Shop { organisation: self.organisation, eshop: self.eshop };
        if self.kind == JobKind::StockSend {
            return Ok(vec![(Target::new(&SendStocks::default(), shop)?, Extent::Everything.source())]);
        }
        // who stored the setting was bound to the e-shop, and so is what it brings
        let scope_eshop = self.bound.then_some(self.eshop);
        let inventories = if self.inventories.is_empty() { vec![String::new()] } else { self.inventories };
        let target = |inventory: String| {
            let job = SyncProducts { scope_eshop, inventory_id: Some(inventory.clone()) };
            Ok((Target::new(&job, shop)?.guarded(self.guard.as_deref())?, inventory))
        };
        inventories.into_iter().map(target).collect()
    }
}

/// Starts what is due; returns how many jobs were accepted.
pub async fn start_due(services: &Services) -> Result<u64, Problem> {
    let mut started = 0;
    loop {
        let mut change = Change::begin(services).await?;
        // in the common order of locks on organisations and e-shops
        let due = sqlx::query_as!(
            Due,
            r#"SELECT c.setting_id AS setting, c.kind AS "kind: JobKind", s.eshop_id AS eshop, s.organisation_id AS organisation,
                    s.inventories, s.bound, s.guard AS "guard: Json<Guard>"
             FROM partner_clock c
             JOIN integration_setting s ON s.id = c.setting_id
             JOIN eshop e ON e.id = s.eshop_id
             WHERE c.next_run_at <= now() AND s.active AND e.active
               AND NOT EXISTS (
                   SELECT FROM job j
                   WHERE j.sequence IN (s.organisation_id, s.eshop_id) AND j.state IN ('queued', 'running', 'retrying')
                     AND j.eshop_id = s.eshop_id AND j.kind = c.kind AND j.source IS NOT NULL
                     -- changes are sent every few seconds: they neither are the schedule nor hold it up
                     AND (j.kind <> 'stock.send' OR j.source <> 'changes'))
             ORDER BY s.organisation_id, s.eshop_id, c.kind LIMIT $1
             FOR UPDATE OF c SKIP LOCKED"#,
            BATCH,
        )
        .fetch_all(change.connection())
        .await?;
        if due.is_empty() {
            return Ok(started);
        }
        let (settings, kinds): (Vec<SettingId>, Vec<&str>) =
            due.iter().map(|due| (due.setting, due.kind.as_str())).unzip();
        sqlx::query!(
            "UPDATE partner_clock c
             SET next_run_at = now() + c.interval_minutes * (0.95 + random() * 0.1) * interval '1 minute'
             FROM unnest($1::uuid[], $2::text[]) AS d (setting_id, kind)
             WHERE c.setting_id = d.setting_id AND c.kind = d.kind",
            &settings as &[SettingId],
            &kinds as &[&str],
        )
        .execute(change.connection())
        .await?;
        for due in due {
            started += start(&mut change, due).await?;
        }
        change.commit().await?;
    }
}

async fn start(change: &mut Change<'_>, due: Due) -> Result<u64, Problem> {
    let origin = Origin::schedule(due.kind.as_str());
    let targets = due.targets()?;
    let mut started = 0;
    for (target, source) in &targets {
        fetching::accept(change, &origin, target, source).await?;
        started += 1;
    }
    Ok(started)
}
