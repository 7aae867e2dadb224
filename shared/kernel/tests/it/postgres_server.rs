//! Several hosts in `DATABASE_URL`, of which one takes writes.

use std::time::Instant;

use longshore_kernel::postgres_server::{PostgresServer, Role};
use longshore_stack::port::free_port;
use longshore_stack::postgres::OWNER;
use longshore_stack::process::{Signal, signal};
use sqlx::Connection as _;
use sqlx::PgConnection;

use crate::world::{LOOK_AGAIN, PATIENCE, Peer, World, kill};

/// Where a process writes, once it can: the port of the server as that knows it.
async fn writes(peer: &Peer) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let written = sqlx::query_scalar("UPDATE pulse SET at = at RETURNING current_setting('port')");
        match written.fetch_one(&peer.db.main.of_work()).await {
            Ok(port) => return port,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn url(ports: &[u16], parameters: &str) -> String {
    let hosts: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("postgres://{OWNER}@{}/main{parameters}", hosts.join(","))
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_hosts_the_one_that_takes_writes_is_used_and_a_promoted_one_from_then_on() {
    let mut world = World::start(&[]).await;
    let (_standby, standby_port) = world.standby("standby").await;
    // the first host is a standby, and at the second nothing listens
    let url = url(&[standby_port, free_port().unwrap(), world.port], "");
    let peer = world.process_at(url.clone(), "old");
    assert_eq!(writes(&peer).await, world.port.to_string());
    let server = PostgresServer::parse(&url).unwrap();
    assert_eq!(server.find().await.unwrap().get_port(), world.port);
    let roles = server.roles().await;
    assert!(
        matches!(&roles[..], [Role::ReadOnly, Role::Away(_), Role::Primary { timeline: 1, .. }]),
        "{roles:?}"
    );

    kill(&mut world.postgres);
    let refused = server.find().await.unwrap_err().to_string();
    assert!(refused.contains(&format!("127.0.0.1:{standby_port} takes no writes")), "{refused}");
    promote(standby_port).await;
    assert_eq!(writes(&peer).await, standby_port.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_at_a_silent_primary_end_when_another_is_promoted_and_it_is_not_used_again() {
    let world = World::start(&[]).await;
    let (_standby, standby_port) = world.standby("standby").await;
    let url = url(&[world.port, standby_port], "");
    let peer = world.process_at(url.clone(), "old");
    assert_eq!(writes(&peer).await, world.port.to_string());
    let pool = peer.db.main.of_work();
    let mut held = pool.acquire().await.unwrap();
    let sleeper: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *held).await.unwrap();
    let waits =
        tokio::spawn(
            async move { sqlx::query("SELECT pg_sleep(3600)").execute(&mut *held).await.map(|_| ()) },
        );
    world
        .wait_until(&format!("SELECT query LIKE '%sleep%' FROM pg_stat_activity WHERE pid = {sleeper}"))
        .await;

    // its machine goes on to acknowledge what is sent to it
    let mut session = PgConnection::connect(&world.url("main")).await.unwrap();
    let pids: Vec<i32> =
        sqlx::query_scalar("SELECT pid FROM pg_stat_activity").fetch_all(&mut session).await.unwrap();
    let all = pids.into_iter().map(|pid| pid.try_into().unwrap()).chain(world.postgres.pid());
    let all: Vec<u32> = all.collect();
    for pid in &all {
        signal(*pid, Signal::SIGSTOP).unwrap();
    }
    promote(standby_port).await;
    let ended = tokio::time::timeout(PATIENCE, waits).await.unwrap().unwrap().unwrap_err();
    assert!(longshore_kernel::sqlstate::is_unreachable(&ended), "{ended}");
    assert_eq!(writes(&peer).await, standby_port.to_string());

    // it still takes writes, and others may see only it
    for pid in &all {
        signal(*pid, Signal::SIGCONT).unwrap();
    }
    let server = PostgresServer::parse(&url).unwrap();
    let roles = server.roles().await;
    assert!(
        matches!(&roles[..], [Role::Primary { timeline: 1, .. }, Role::Primary { timeline: 2, .. }]),
        "{roles:?}"
    );
    assert_eq!(server.find().await.unwrap().get_port(), standby_port);
    assert_eq!(writes(&world.process_at(url, "old")).await, standby_port.to_string());
    assert_eq!(writes(&peer).await, standby_port.to_string());
}

/// An address that does not look like one of this machine.
#[tokio::test(flavor = "multi_thread")]
async fn one_host_on_another_machine_is_used_through_a_socket_that_can_end() {
    let world = World::start(&[]).await;
    let url = format!("postgres://{OWNER}@[::ffff:127.0.0.1]:{}/main", world.port);
    let peer = world.process_at(url, "old");
    assert_eq!(writes(&peer).await, world.port.to_string());
    let pool = peer.db.main.of_work();
    assert!(pool.connect_options().get_socket().is_some());
    drop(peer);
    let until = Instant::now() + PATIENCE;
    while sqlx::query("SELECT 1").execute(&pool).await.is_ok() {
        assert!(Instant::now() < until, "a connection is there without its process");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_host_serves_reads_where_writes_are_not_asked_for() {
    let world = World::start(&[]).await;
    let (_standby, standby_port) = world.standby("standby").await;
    let url = url(&[free_port().unwrap(), standby_port], "?target_session_attrs=any");
    let peer = world.process_at(url, "old");
    assert_eq!(peer.set_backs().await, 0);
    let refused = sqlx::query("UPDATE pulse SET at = at").execute(&peer.db.main.of_work()).await.unwrap_err();
    assert!(longshore_kernel::sqlstate::is_read_only(&refused), "{refused}");
    // the one that takes writes, if there is one when a process starts
    let hosts = &[standby_port, world.port];
    for _ in 0..5 {
        let peer = world.process_at(self::url(hosts, "?target_session_attrs=any"), "old");
        assert_eq!(writes(&peer).await, world.port.to_string());
    }
    // a former primary whose successor is another cluster
    world.execute("postgres", "ALTER SYSTEM SET default_transaction_read_only = on").await;
    world.execute("postgres", "SELECT pg_reload_conf()").await;
    let server = PostgresServer::parse(&self::url(hosts, "")).unwrap();
    while server.roles().await != [Role::ReadOnly, Role::ReadOnly] {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn promote(port: u16) {
    let mut standby = PgConnection::connect(&url(&[port], "")).await.unwrap();
    let promoted: bool = sqlx::query_scalar("SELECT pg_promote()").fetch_one(&mut standby).await.unwrap();
    assert!(promoted);
}
