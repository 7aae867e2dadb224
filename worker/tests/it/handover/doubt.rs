//! Orders that a warehouse knows more of than we do, since Postgres was set back (`docs/reference/orders.md#after-a-set-back`).

use std::process;

use chrono::{DateTime, Utc};
use longshore_domain::expedition::command::Command;
use longshore_domain::expedition::edit;
use longshore_domain::expedition::handover::doubt::{self, Begun};
use longshore_domain::expedition::handover::fill;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::process as programs;
use longshore_testkit::wms::{Mischief, On, Stage, Step};
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tempfile::TempDir;

use super::support::{CANCEL, Depot, PATIENCE, ROLLBACK, SEND};
use crate::expedition::support::id;
use crate::program;

/// The floor of a set-back where the highest number is 1.
const FLOOR: u64 = 1_000_001;
/// The floor where nothing was handed over.
const LOWEST: u64 = 1_000_000;

/// A backup of the rows of a database.
struct Backup {
    url: String,
    folder: TempDir,
    at: DateTime<Utc>,
}

/// Runs a program of Postgres to its end.
fn run(program: &str, arguments: &[&str]) {
    let ended = process::Command::new(program).args(arguments).output().unwrap();
    assert!(ended.status.success(), "{program}: {}", String::from_utf8_lossy(&ended.stderr));
}

impl Backup {
    async fn make(depot: &Depot, options: &PgConnectOptions) -> Self {
        let at =
            sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(&depot.place.world.owner).await.unwrap();
        let mut url = options.to_url_lossy();
        // of sqlx alone
        url.set_query(None);
        let backup = Self { url: url.to_string(), folder: TempDir::new().unwrap(), at };
        run(
            "pg_dump",
            &["--data-only", "--format=custom", "--file", &backup.file(), "--dbname", &backup.url],
        );
        backup
    }

    fn file(&self) -> String {
        self.folder.path().join("backup").to_str().unwrap().to_owned()
    }

    /// Sets the database back to it. Nobody was connected meanwhile that remembers more.
    async fn restore(&self, depot: &Depot) {
        let owner = &depot.place.world.owner;
        sqlx::query(
            "DO $$ BEGIN
                 -- what is only added to is emptied, too
                 PERFORM set_config('session_replication_role', 'replica', true);
                 EXECUTE (SELECT 'TRUNCATE ' || string_agg(oid::regclass::text, ', ') || ' CASCADE' FROM pg_class
                          WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition);
             END $$",
        )
        .execute(owner)
        .await
        .unwrap();
        run(
            "pg_restore",
            &["--data-only", "--disable-triggers", "--exit-on-error", "--dbname", &self.url, &self.file()],
        );
        let seen = "INSERT INTO set_back (epoch, reason, since) SELECT coalesce(max(epoch), 1) + 1, 'a test', $1 FROM set_back";
        sqlx::query(seen).bind(self.at).execute(owner).await.unwrap();
    }

    /// The same, and what is done about it.
    async fn set_back(&self, depot: &Depot) -> Begun {
        self.restore(depot).await;
        self.mend(depot, false).await
    }

    async fn mend(&self, depot: &Depot, ask_warehouses: bool) -> Begun {
        let owner = &depot.place.world.owner;
        let mut connection = owner.acquire().await.unwrap();
        let begun = doubt::begin(&mut connection, self.at, ask_warehouses).await.unwrap();
        sqlx::query("UPDATE set_back SET mended_at = now()").execute(owner).await.unwrap();
        begun
    }
}

impl Depot {
    /// An order of one piece that is on hold.
    async fn draft(&self, number: &str) -> ExpeditionId {
        id(&self.place.create(self.place.body(number, &[(0, 1)])).await.unwrap())
    }

    /// An order that is held, gets other items, and is sent again: the warehouse has it with the next number.
    async fn send_other(&self, order: ExpeditionId) {
        self.command(order, &ROLLBACK).await.unwrap();
        self.drain().await;
        let (services, context) = (&self.place.world.services, &self.place.world.context);
        let items = json!({"items": [{"productSku": "P1", "quantity": 2}]});
        edit::update(services, context, order, items, |_| Ok(())).await.unwrap();
        self.command(order, &SEND).await.unwrap();
        self.drain().await;
    }

    /// What its record says of its hand-over: number, in doubt, contents unknown.
    async fn doubt(&self, order: ExpeditionId) -> (i32, bool, bool) {
        sqlx::query_as(
            "SELECT handover_number, handover_in_doubt, handover_contents_unknown FROM expedition_handover WHERE id = $1",
        )
        .bind(order)
        .fetch_one(&self.place.world.owner)
        .await
        .unwrap()
    }

    fn taken(&self, order: ExpeditionId) -> Vec<u64> {
        self.entry(order).map(|entry| entry.taken).unwrap_or_default()
    }

    fn stage(&self, order: ExpeditionId) -> Stage {
        self.entry(order).map_or(Stage::Unknown, |entry| entry.stage)
    }

    fn last_call(&self) -> (String, u64) {
        self.calls().pop().unwrap()
    }
}

fn delete(number: u64) -> (String, u64) {
    ("DELETE".to_owned(), number)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_was_handed_over_again_after_the_backup_is_given_back_before_it_is_canceled(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let (cancelled, held) = (depot.send("A-1").await, depot.send("A-2").await);
    depot.drain().await;
    let backup = Backup::make(&depot, &options).await;
    for order in [cancelled, held] {
        depot.send_other(order).await;
        assert_eq!((depot.taken(order), depot.stage(order)), (vec![1, 2], Stage::Taken));
    }
    let begun = backup.set_back(&depot).await;
    assert_eq!((begun.floor, begun.in_doubt, begun.asked), (1_000_001, 2, 0));
    depot.must_be(cancelled, "awaiting_processing", Some("accepted")).await;

    depot.command(cancelled, &CANCEL).await.unwrap();
    depot.must_be(cancelled, "waiting_for_cancel", Some("withdrawing")).await;
    assert_eq!(depot.stage(cancelled), Stage::Taken);
    depot.drain().await;
    assert_eq!(depot.last_call(), delete(FLOOR));
    depot.must_be(cancelled, "canceled", Some("withdrawn")).await;
    assert_eq!(depot.stage(cancelled), Stage::Withdrawn);

    depot.command(held, &ROLLBACK).await.unwrap();
    depot.drain().await;
    depot.must_be(held, "on_hold", Some("withdrawn")).await;
    assert_eq!(depot.doubt(held).await, (1_000_001, false, false));
    depot.command(held, &SEND).await.unwrap();
    depot.drain().await;
    depot.must_be(held, "awaiting_processing", Some("accepted")).await;
    assert_eq!((depot.taken(held), depot.stage(held)), (vec![1, 2, FLOOR + 1], Stage::Taken));
    assert_eq!(depot.entry(held).unwrap().order["items"][0]["productSku"], "P0");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_the_warehouse_picks_under_a_lost_number_stays_and_its_contents_are_unknown(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let order = depot.send("A-1").await;
    depot.drain().await;
    let backup = Backup::make(&depot, &options).await;
    depot.send_other(order).await;
    depot.system.step(order.get(), Step::Pick).unwrap();
    backup.set_back(&depot).await;
    depot.command(order, &CANCEL).await.unwrap();
    depot.drain().await;
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    let handover = depot.record(order).await["handover"].clone();
    assert_eq!(
        (&handover["state"], &handover["inDoubt"], &handover["contentsUnknown"]),
        (&json!("accepted"), &json!(true), &json!(true))
    );
    assert_eq!(depot.stage(order), Stage::Picked);
    // asked once more, it gives it back
    depot.system.give_back_picked(true);
    depot.command(order, &CANCEL).await.unwrap();
    depot.drain().await;
    depot.must_be(order, "canceled", Some("withdrawn")).await;
    assert_eq!(depot.doubt(order).await, (1_000_001, false, false));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_was_sent_after_the_backup_and_is_a_draft_here_is_asked_back_first(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let mut orders = Vec::new();
    for number in ["held", "cancelled", "sent", "picked"] {
        orders.push(depot.draft(number).await);
    }
    let backup = Backup::make(&depot, &options).await;
    for order in &orders {
        depot.command(*order, &SEND).await.unwrap();
    }
    depot.drain().await;
    let [held, cancelled, sent, picked] = orders[..] else { panic!("four orders") };
    depot.system.step(picked.get(), Step::Pick).unwrap();
    backup.set_back(&depot).await;
    for order in &orders {
        depot.must_be(*order, "on_hold", None).await;
    }
    depot.command(held, &ROLLBACK).await.unwrap();
    for order in [cancelled, picked] {
        let record = depot.command(order, &CANCEL).await.unwrap();
        assert_eq!(
            (&record["status"], &record["handover"]["state"]),
            (&json!("on_hold"), &json!("withdrawing"))
        );
        assert_eq!(record["handover"]["number"], LOWEST);
    }
    let record = depot.command(sent, &SEND).await.unwrap();
    assert_eq!(record["handover"]["state"], "withdrawing");
    depot.drain().await;
    depot.must_be(held, "on_hold", Some("withdrawn")).await;
    depot.must_be(cancelled, "canceled", Some("withdrawn")).await;
    depot.must_be(sent, "awaiting_processing", Some("accepted")).await;
    depot.must_be(picked, "on_hold", Some("accepted")).await;
    assert_eq!(depot.doubt(picked).await, (1_000_000, true, true));
    assert_eq!((depot.stage(held), depot.stage(cancelled)), (Stage::Withdrawn, Stage::Withdrawn));
    assert_eq!((depot.taken(sent), depot.stage(sent)), (vec![1, LOWEST + 1], Stage::Taken));
    // it is sent, and not handed over again: the warehouse has it
    depot.command(picked, &SEND).await.unwrap();
    depot.drain().await;
    depot.must_be(picked, "awaiting_processing", Some("accepted")).await;
    assert_eq!(depot.taken(picked), [1]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_due_here_is_asked_back_before_it_is_handed_over(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let (pending, unknown, picked) =
        (depot.send("A-1").await, depot.send("A-2").await, depot.send("A-3").await);
    let backup = Backup::make(&depot, &options).await;
    depot.drain().await;
    depot.send_other(pending).await;
    depot.system.step(picked.get(), Step::Pick).unwrap();
    backup.restore(&depot).await;
    let called = "UPDATE expedition_handover
                  SET handover_state = 'sending', handover_attempts = 1, handover_in_call_until = now() + interval '30 seconds',
                      handover_next_attempt_at = now() + interval '30 seconds'
                  WHERE id = $1";
    sqlx::query(called).bind(unknown).execute(&depot.place.world.owner).await.unwrap();
    let mended = backup.mend(&depot, false).await;
    assert_eq!((mended.in_doubt, mended.asked), (3, 3));
    for order in [pending, unknown, picked] {
        depot.must_be(order, "awaiting_processing", Some("withdrawing")).await;
    }
    depot.time_passes().await;
    depot.drain().await;
    for order in [pending, unknown] {
        depot.must_be(order, "awaiting_processing", Some("accepted")).await;
        assert_eq!(depot.doubt(order).await, (1_000_002, false, false));
        assert_eq!(depot.taken(order).last(), Some(&(FLOOR + 1)));
    }
    depot.must_be(picked, "awaiting_processing", Some("accepted")).await;
    assert_eq!(depot.doubt(picked).await, (1_000_001, true, true));
    assert_eq!(depot.taken(picked), [1]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_canceled_here_and_handed_over_there_is_asked_back(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let (there, picked) = (depot.send("A-1").await, depot.send("A-2").await);
    let backup = Backup::make(&depot, &options).await;
    depot.drain().await;
    depot.system.step(picked.get(), Step::Pick).unwrap();
    backup.restore(&depot).await;
    for order in [there, picked] {
        assert_eq!(depot.command(order, &CANCEL).await.unwrap()["status"], "canceled");
    }
    let begun = backup.mend(&depot, false).await;
    assert_eq!((begun.in_doubt, begun.asked), (2, 2));
    depot.must_be(there, "canceled", Some("withdrawing")).await;
    depot.drain().await;
    depot.must_be(there, "canceled", Some("withdrawn")).await;
    assert_eq!(depot.stage(there), Stage::Withdrawn);
    depot.must_be(picked, "canceled", Some("accepted")).await;
    assert_eq!(depot.doubt(picked).await, (1_000_000, true, true));
    // canceled again, it is asked again
    depot.system.give_back_picked(true);
    depot.command(picked, &CANCEL).await.unwrap();
    depot.drain().await;
    depot.must_be(picked, "canceled", Some("withdrawn")).await;
}

/// The statuses of orders that no warehouse is known to have.
const STATUSES: [&str; 5] = ["on_hold", "incorrect", "awaiting_reservation", "waiting_for_goods", "stock_ok"];

/// An order in such a status.
async fn in_status(depot: &Depot, number: &str, status: &str) -> ExpeditionId {
    let is_waiting = matches!(status, "awaiting_reservation" | "waiting_for_goods");
    let mut body = depot.place.body(number, &[(0, if is_waiting { 100_000 } else { 1 })]);
    body["send"] = json!(status != "on_hold");
    body["waitBeforeProcessing"] = json!(status == "stock_ok");
    if status == "incorrect" {
        body["billingStreet"] = Value::Null;
    }
    let order = id(&depot.place.create(body).await.unwrap());
    if status == "awaiting_reservation" {
        depot.command(order, &Command::Unbook).await.unwrap();
    }
    order
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_status_becomes_what_was_asked_or_stays(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let mut groups = Vec::new();
    for (wish, gives_back) in [
        (Some(ROLLBACK), true),
        (Some(CANCEL), true),
        (Some(ROLLBACK), false),
        (Some(CANCEL), false),
        (None, true),
    ] {
        let mut orders = Vec::new();
        for status in STATUSES {
            orders.push((in_status(&depot, &format!("{}-{status}", groups.len()), status).await, status));
        }
        groups.push((wish, gives_back, orders));
    }
    let backup = Backup::make(&depot, &options).await;
    let floor = backup.set_back(&depot).await.floor;
    for (wish, gives_back, orders) in groups {
        if wish.is_none() {
            backup.mend(&depot, true).await;
        }
        for (order, status) in &orders {
            if let Some(wish) = &wish {
                depot.must_be(*order, status, None).await;
                depot.command(*order, wish).await.unwrap();
            }
            depot.must_be(*order, status, Some("withdrawing")).await;
            if !gives_back {
                depot.system.misbehave(On::Delete, Mischief::Status(409));
            }
        }
        depot.drain().await;
        for (order, status) in orders {
            let (is, handover) = match &wish {
                // all of it is booked: the warehouse can begin
                Some(_) if !gives_back && status == "stock_ok" => ("awaiting_processing", "accepted"),
                Some(_) if !gives_back => (status, "accepted"),
                Some(Command::Rollback) => ("on_hold", "withdrawn"),
                Some(_) => ("canceled", "withdrawn"),
                None => (status, "withdrawn"),
            };
            depot.must_be(order, is, Some(handover)).await;
            assert_eq!(depot.doubt(order).await, (floor, !gives_back, !gives_back), "{wish:?} {status}");
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_last_wish_wins(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let (draft, due, canceled) =
        (depot.draft("A-1").await, depot.send("A-2").await, depot.draft("A-3").await);
    let backup = Backup::make(&depot, &options).await;
    backup.set_back(&depot).await;
    for command in [&CANCEL, &ROLLBACK, &SEND] {
        depot.command(draft, command).await.unwrap();
    }
    for command in [&ROLLBACK, &SEND] {
        depot.command(due, command).await.unwrap();
    }
    for command in [&SEND, &CANCEL] {
        depot.command(canceled, command).await.unwrap();
    }
    depot.drain().await;
    depot.must_be(draft, "awaiting_processing", Some("accepted")).await;
    depot.must_be(due, "awaiting_processing", Some("accepted")).await;
    depot.must_be(canceled, "canceled", Some("withdrawn")).await;
    for order in [draft, due] {
        assert_eq!(depot.taken(order), [FLOOR + 1]);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_gets_its_pieces_while_it_is_asked_back_is_canceled_nevertheless(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let (cancelled, due) =
        (depot.place.send("A-1", &[(0, 1_001)]).await, depot.place.send("A-2", &[(1, 1_001)]).await);
    let backup = Backup::make(&depot, &options).await;
    backup.set_back(&depot).await;
    depot.command(cancelled, &CANCEL).await.unwrap();
    depot.place.count(&[(0, 2_000), (1, 2_000)]).await;
    depot.place.allocate().await;
    depot.must_be(cancelled, "awaiting_processing", Some("withdrawing")).await;
    depot.must_be(due, "awaiting_processing", Some("withdrawing")).await;
    depot.drain().await;
    depot.must_be(cancelled, "canceled", Some("withdrawn")).await;
    depot.must_be(due, "awaiting_processing", Some("accepted")).await;
    assert_eq!(depot.place.stock(0).await, (2_000, 0, 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_in_doubt_is_deleted_only_after_the_warehouse_has_given_it_back(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let (draft, known) = (depot.draft("A-1").await, depot.send("A-2").await);
    depot.drain().await;
    let backup = Backup::make(&depot, &options).await;
    backup.set_back(&depot).await;
    let (services, context) = (&depot.place.world.services, &depot.place.world.context);
    let delete = async |order| edit::delete(services, context, order, |_| Ok(())).await;
    let refused = delete(draft).await.unwrap_err();
    assert_eq!(refused.kind().code, "wrong_status");
    assert!(refused.detail().contains("cancel it first"), "{}", refused.detail());
    for order in [draft, known] {
        depot.command(order, &CANCEL).await.unwrap();
    }
    depot.drain().await;
    // it was handed over, as is known here
    assert_eq!(delete(known).await.unwrap_err().kind().code, "wrong_status");
    delete(draft).await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_became_due_before_the_mending_is_held_or_goes_by_hand_after_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let backup = Backup::make(&depot, &options).await;
    backup.restore(&depot).await;
    // made since, so nobody else knows them; not called yet, and numbered before the floor was raised
    let (held, by_hand) = (depot.send("A-1").await, depot.send("A-2").await);
    backup.mend(&depot, false).await;
    depot.command(held, &ROLLBACK).await.unwrap();
    depot.must_be(held, "on_hold", None).await;
    sqlx::query("UPDATE wms_setting SET active = false").execute(&depot.place.world.owner).await.unwrap();
    assert_eq!(fill::empty(&depot.place.world.services).await.unwrap(), 1);
    depot.must_be(by_hand, "awaiting_processing", None).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn mending_twice_changes_nothing_and_asks_for_all_where_that_is_wanted(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let (accepted, draft, due) =
        (depot.send("A-1").await, depot.draft("A-2").await, depot.draft("A-3").await);
    depot.drain().await;
    let backup = Backup::make(&depot, &options).await;
    let first = backup.set_back(&depot).await;
    depot.command(due, &SEND).await.unwrap();
    depot.drain().await;
    assert_eq!(depot.doubt(due).await, (1_000_002, false, false));
    let again = backup.mend(&depot, false).await;
    assert_eq!((again.floor, again.in_doubt), (first.floor, 0));
    assert_eq!(depot.doubt(due).await, (1_000_002, false, false));
    assert_eq!(depot.doubt(draft).await, (1_000_001, true, false));

    let asked = backup.mend(&depot, true).await;
    assert_eq!((asked.floor, asked.asked), (first.floor, 2));
    depot.drain().await;
    depot.must_be(accepted, "awaiting_processing", Some("accepted")).await;
    depot.must_be(draft, "on_hold", Some("withdrawn")).await;
    assert_eq!(depot.doubt(accepted).await, (1_000_002, false, false));
    assert_eq!(depot.taken(accepted), [1, FLOOR + 1]);
    // an order that is made since has a number above the floor, and may be deleted
    let new = depot.send("A-4").await;
    assert_eq!(depot.doubt(new).await, (1_000_002, false, false));
    depot.command(new, &ROLLBACK).await.unwrap();
    depot.must_be(new, "on_hold", None).await;
    let (services, context) = (&depot.place.world.services, &depot.place.world.context);
    edit::delete(services, context, new, |_| Ok(())).await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_goes_by_hand_is_not_in_doubt(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::by_hand(&options).await;
    let order = depot.send("A-1").await;
    let backup = Backup::make(&depot, &options).await;
    assert_eq!(backup.set_back(&depot).await.in_doubt, 0);
    assert_eq!(depot.command(order, &CANCEL).await.unwrap()["status"], "canceled");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn where_nobody_can_be_asked_an_operator_answers(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let (given_back, kept) = (depot.draft("A-1").await, depot.place.send("A-2", &[(0, 2_000)]).await);
    let backup = Backup::make(&depot, &options).await;
    depot.store(json!({"active": false})).await;
    backup.restore(&depot).await;
    depot.store(json!({"active": false})).await;
    assert_eq!(backup.mend(&depot, true).await.asked, 0);
    for order in [given_back, kept] {
        depot.command(order, &CANCEL).await.unwrap();
    }
    depot.drain().await;
    depot.must_be(given_back, "on_hold", Some("withdrawing")).await;
    depot.place.report(given_back, json!({"cancel": "accepted"})).await.unwrap();
    depot.must_be(given_back, "canceled", Some("withdrawn")).await;
    depot.place.report(kept, json!({"cancel": "refused"})).await.unwrap();
    depot.must_be(kept, "waiting_for_goods", Some("accepted")).await;
    depot.command(kept, &CANCEL).await.unwrap();
    depot.place.report(kept, json!({"cancel": "accepted"})).await.unwrap();
    depot.must_be(kept, "canceled", Some("withdrawn")).await;
    assert_eq!(depot.calls(), []);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_in_doubt_whose_worker_is_killed_is_asked_back_by_another(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (depot, folder) = (Depot::new(&options).await, TempDir::new().unwrap());
    let order = depot.draft("A-1").await;
    let backup = Backup::make(&depot, &options).await;
    depot.command(order, &SEND).await.unwrap();
    depot.drain().await;
    backup.set_back(&depot).await;
    depot.command(order, &SEND).await.unwrap();
    depot.system.misbehave(On::Delete, Mischief::DoneHang);
    let prefix = depot.place.world.services.queues.prefix();
    let first = program::start(&options, prefix, &folder, "first");
    depot.system.wait_for(order.get(), Stage::Withdrawn, PATIENCE).await.unwrap();
    programs::kill(first.pid().unwrap()).await.unwrap();
    drop(first);
    depot.must_be(order, "awaiting_processing", Some("withdrawing")).await;
    depot.time_passes().await;
    let second = program::start(&options, prefix, &folder, "second");
    depot
        .place
        .world
        .until("SELECT count(*) FROM expedition_handover WHERE handover_state = 'accepted'", 1)
        .await;
    drop(second);
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    assert_eq!(
        (depot.taken(order), depot.doubt(order).await),
        (vec![1, LOWEST + 1], (1_000_001, false, false))
    );
}
