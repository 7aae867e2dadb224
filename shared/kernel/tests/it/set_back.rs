//! Postgres that is set back for real, and what is none: dumps, a point in time, promotions, a crash (`docs/backup.md#after-a-restore`).

use std::path::Path;

use longshore_stack::postgres::{Cluster, as_postgres, hand_over};
use sqlx::{Connection as _, PgConnection};

use crate::world::World;

async fn restored(world: &World, name: &str, dump: &str) {
    world.execute("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0")).await;
    world.run("pg_restore", &["--exit-on-error", "-d", name, dump]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_that_is_restored_is_a_set_back_whoever_remembers() {
    let world = World::start(&[]).await;
    let before = world.process("main", "old");
    // a new database, and one that was never restored
    before.watch().await;
    let dumped_at = world.raise(&before, "main").await;
    let dump = world.path("dump").display().to_string();
    world.run("pg_dump", &["--format=custom", &format!("--file={dump}"), "main"]);
    let last_at = world.raise(&before, "main").await;
    assert_eq!(before.pending().await, None);

    // a drill: the same cluster, a new Redis, new processes; one that only connects sees it
    restored(&world, "drill", &dump).await;
    let api = world.process("drill", "new");
    let seen = api.pending().await.unwrap();
    assert_eq!((seen.epoch, seen.since, seen.until), (2, dumped_at, None));
    // others do not see another, and the pulse goes on in the next epoch
    let worker = world.process("drill", "new");
    worker.watch().await;
    world.raise(&worker, "drill").await;
    api.db.close().await;
    let api = world.process("drill", "new");
    assert_eq!((api.pending().await.unwrap().epoch, api.set_backs().await, api.pulse().await.0), (2, 1, 2));

    // the old Redis: it is known how much was lost
    restored(&world, "moved", &dump).await;
    let worker = world.process("moved", "old");
    worker.watch().await;
    let seen = worker.pending().await.unwrap();
    assert_eq!((seen.epoch, seen.since, seen.until), (2, dumped_at, Some(last_at)));

    // the same database, while a process runs on; a new one with a new Redis sees it first, since the tables are others
    world.execute("main", "DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
    world.run("pg_restore", &["--exit-on-error", "-d", "main", &dump]);
    let api = world.process("main", "another");
    assert_eq!(api.pending().await.unwrap().epoch, 2);
    before.watch().await;
    assert_eq!((before.set_backs().await, before.pulse().await.0), (1, 2));

    // once it is mended, it is over, and the next restore is another one
    world.execute("main", "UPDATE set_back SET mended_at = now()").await;
    assert_eq!(api.pending().await, None);
    world.execute("main", "DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
    world.run("pg_restore", &["--exit-on-error", "-d", "main", &dump]);
    before.watch().await;
    assert_eq!(before.pending().await.unwrap().epoch, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_back_is_recorded_while_commits_wait_for_a_standby_that_is_not_there() {
    let world = World::start(&[]).await;
    let before = world.process("main", "old");
    before.watch().await;
    world.raise(&before, "main").await;
    let dump = world.path("dump").display().to_string();
    world.run("pg_dump", &["--format=custom", &format!("--file={dump}"), "main"]);
    restored(&world, "moved", &dump).await;
    world.execute("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'lost'").await;
    world.execute("postgres", "SELECT pg_reload_conf()").await;
    world.execute("postgres", "CHECKPOINT").await;
    let api = world.process("moved", "new");
    assert_eq!(api.pending().await.unwrap().epoch, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_is_no_set_back_although_commits_do_not_wait_for_the_disk() {
    let settings = [("synchronous_commit", "off"), ("wal_writer_delay", "10s")];
    let mut world = World::start(&settings).await;
    let process = world.process("main", "old");
    process.watch().await;
    world.raise(&process, "main").await;
    let raised = process.pulse().await;
    world.replace(world.cluster.clone(), &settings);

    process.watch().await;
    for process in [process, world.process("main", "old"), world.process("main", "new")] {
        process.watch().await;
        assert_eq!(process.pending().await, None);
        assert!(process.pulse().await.1 >= raised.1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_is_a_set_back_unless_commits_waited_for_the_standby() {
    let mut world = World::start(&[]).await;
    let process = world.process("main", "old");
    process.watch().await;
    // the standby has everything, which nobody can see
    let (standby, _) = world.standby("asynchronous").await;
    let last_at = world.raise(&process, "main").await;
    world.wait_for_standby().await;
    world.fail_over_to(standby).await;
    process.watch().await;
    let seen = process.pending().await.unwrap();
    assert_eq!((seen.epoch, seen.since, seen.until), (2, last_at, Some(last_at)));

    world.execute("main", "UPDATE set_back SET mended_at = now()").await;
    let (standby, _) = world.standby("synchronous").await;
    world.execute("main", "ALTER SYSTEM SET synchronous_standby_names = '*'").await;
    world.execute("main", "SELECT pg_reload_conf()").await;
    world.wait_until("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')").await;
    world.wait_until("SELECT current_setting('synchronous_standby_names') = '*'").await;
    process.watch().await;
    world.raise(&process, "main").await;
    assert!(world.is("SELECT NOT is_asynchronous FROM pulse").await);
    let (epoch, number, _) = process.pulse().await;
    world.fail_over_to(standby).await;
    let elsewhere = world.process("main", "old");
    for process in [&process, &elsewhere] {
        process.watch().await;
        assert_eq!((process.pending().await, process.set_backs().await), (None, 1));
    }
    // the pulse goes on, at its new place
    world.raise(&process, "main").await;
    let now = process.pulse().await;
    assert!(now.0 == epoch && now.1 > number, "{now:?}");
    assert!(world.is("SELECT timeline = 3 FROM pulse").await);
}

/// Makes a base backup recover what was archived, up to a restore point.
fn recover(backup: &Path, archive: &Path) -> [(&'static str, String); 3] {
    std::fs::remove_file(backup.join("standby.signal")).unwrap();
    std::fs::write(backup.join("recovery.signal"), "").unwrap();
    hand_over(&backup.join("recovery.signal")).unwrap();
    [
        ("restore_command", format!("cp {}/%f %p", archive.display())),
        ("recovery_target_name", "here".to_owned()),
        ("recovery_target_action", "promote".to_owned()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_point_in_time_is_a_set_back_whoever_remembers() {
    let archive = tempfile::tempdir().unwrap();
    hand_over(archive.path()).unwrap();
    let command = format!("cp %p {}/%f", archive.path().display());
    let mut world = World::start(&[("archive_mode", "on"), ("archive_command", &command)]).await;
    let process = world.process("main", "old");
    process.watch().await;
    let (backup, again) = (world.path("backup"), world.path("again"));
    Cluster::in_folder(&backup).unwrap().copy_from(world.port).unwrap();
    let copied = as_postgres("cp").unwrap().arg("-a").arg(&backup).arg(&again).status().unwrap();
    assert!(copied.success());
    let kept_at = world.raise(&process, "main").await;
    world.execute("main", "SELECT pg_create_restore_point('here')").await;
    world.raise(&process, "main").await;
    let last_at = world.raise(&process, "main").await;
    let mut owner = PgConnection::connect(&world.url("main")).await.unwrap();
    let file: String =
        sqlx::query_scalar("SELECT pg_walfile_name(pg_switch_wal())").fetch_one(&mut owner).await.unwrap();
    drop(owner);
    world.wait_until(&format!("SELECT (last_archived_wal >= '{file}') IS TRUE FROM pg_stat_archiver")).await;

    let new = world.process("main", "new");
    for (folder, process, until) in [(backup, process, Some(last_at)), (again, new, None)] {
        let settings = recover(&folder, archive.path());
        let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
        world.replace(Cluster::in_folder(folder).unwrap(), &settings);
        world.wait_until("SELECT NOT pg_is_in_recovery()").await;
        process.watch().await;
        let seen = process.pending().await.unwrap();
        assert_eq!((seen.epoch, seen.since, seen.until), (2, kept_at, until));
    }
}
