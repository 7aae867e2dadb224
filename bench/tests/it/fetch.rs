use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use longshore_demo::api::JobState;
use longshore_demo::catalogue::Catalogue;
use longshore_demo::proof::Breaks as _;
use longshore_demo::site::Site;
use longshore_testkit::receiver::{Answer, By, Document, Receiver};
use longshore_testkit::stack::{Stack, StackSettings};
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

/// How long a part may take on a slow machine.
const PATIENCE: Duration = Duration::from_mins(2);

const ROWS: usize = 3_500;

/// Serves a catalogue; the first answer stops after two thirds.
async fn feed() -> std::io::Result<Receiver> {
    let receiver = Receiver::start().await?;
    let body = bytes::Bytes::from(Catalogue::made_up(ROWS).lines.join("\n"));
    let begun = AtomicBool::new(false);
    receiver.answer_all(Answer::By(By::new(move |_| {
        let hangs = !begun.swap(true, Ordering::Relaxed);
        let cut_after = hangs.then_some(body.len() * 2 / 3);
        Answer::Document(Document { body: body.clone(), cut_after, hangs, ..Document::default() })
    })));
    Ok(receiver)
}

/// Waits until pages of a job are recorded and all received rows are processed.
async fn executed(connection: &mut PgConnection, job: Uuid, rows: i32) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let done: i32 = sqlx::query_scalar("SELECT done FROM job WHERE id = $1")
            .bind(job)
            .fetch_one(&mut *connection)
            .await?;
        if done == rows {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{done} rows, not {rows}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn fetch_through_a_kill(stack: &Stack) -> anyhow::Result<()> {
    let (site, feed) = (Site::on(stack, "Fetch").await?, feed().await?);
    site.api.store_feed(site.eshop, &feed.url("/feed")).await?;
    let job = site.api.fetch_products(site.eshop, "main").await?;
    let mut connection = PgConnection::connect(stack.database_url.as_str()).await?;
    executed(&mut connection, job.id, 2_000).await?;
    stack.kill_worker().await?;
    stack.flush_redis().await?;
    let job = site.api.job_ended(job.id, PATIENCE).await?;
    ensure!(job.state == JobState::Succeeded, "{job:?}");
    ensure!((job.progress.changed, job.progress.failed) == (ROWS as u64, 0), "{job:?}");
    ensure!(site.api.products(site.organisation).await?.len() == ROWS);
    let pages: i32 = sqlx::query_scalar("SELECT pages FROM partner_fetch").fetch_one(&mut connection).await?;
    ensure!(pages == 4, "it went on at the page it was on: {pages}");
    ensure!(feed.requests() == 2, "{}", feed.requests());
    Ok(())
}

#[tokio::test]
async fn a_fetch_continues_after_its_worker_was_killed_and_redis_emptied() {
    let stack = Stack::start(&StackSettings::from_environment().unwrap()).await.unwrap();
    fetch_through_a_kill(&stack).await.with_context(|| stack.ends_of_logs()).unwrap();
}
