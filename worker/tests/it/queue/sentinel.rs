//! Redis behind Sentinels: whatever becomes of the master, the queues follow, and work continues.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use longshore_kernel::config::RedisSettings;
use longshore_kernel::queue::Queues;
use longshore_kernel::redis_server::RedisServer;
use longshore_testkit::client;
use longshore_testkit::port::free_port;
use longshore_testkit::process::signal;
use redis::AsyncConnectionConfig;
use tempfile::TempDir;

use super::support::{QUEUE, Scratch, Server, Worker, eventually, ids, put, quick, taking};

const NAME: &str = "longshore";

/// Three servers, the first of which is the master, and three Sentinels that watch it.
struct Watched {
    servers: Vec<Server>,
    sentinels: Vec<Sentinel>,
}

struct Sentinel {
    port: u16,
    process: Child,
    _folder: TempDir,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Sentinel {
    /// One of them begins a failover, and the others vote: two that begin at the same moment may both be elected, one after the other, and
    /// promote two servers.
    fn start(master: u16, begins: bool) -> Self {
        let (port, folder) = (free_port().unwrap(), TempDir::new().unwrap());
        let file = folder.path().join("sentinel.conf");
        let down_after = if begins { 500 } else { 600_000 };
        let settings = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor {NAME} 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds {NAME} {down_after}\nsentinel failover-timeout {NAME} 3000\n",
            folder.path().display()
        );
        std::fs::write(&file, settings).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(&file).arg("--sentinel").stdout(Stdio::null());
        Self { port, process: command.spawn().unwrap(), _folder: folder }
    }

    async fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> Option<T> {
        let mut connection = client::redis(&format!("redis://127.0.0.1:{}", self.port)).await.ok()?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg(words).query_async(&mut connection).await.ok()
    }

    async fn master(&self) -> Option<u16> {
        let named: (String, u16) = self.ask(&["GET-MASTER-ADDR-BY-NAME", NAME]).await?;
        Some(named.1)
    }
}

impl Watched {
    async fn start() -> Self {
        let safe = ["--appendonly", "no", "--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"];
        let safe =
            [&safe[..], &["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]].concat();
        let master = Server::start_with(&safe).await;
        let port = master.port().to_string();
        let mut servers = vec![master];
        for _ in 0..2 {
            servers
                .push(Server::start_with(&[&safe[..], &["--replicaof", "127.0.0.1", &port]].concat()).await);
        }
        let sentinels = (0..3).map(|n| Sentinel::start(servers[0].port(), n == 0)).collect();
        let watched = Self { servers, sentinels };
        // each knows of the others, and of both replicas, which follow
        eventually("the sentinels know all", async || {
            for sentinel in &watched.sentinels {
                let of_replicas: Vec<redis::Value> = sentinel.ask(&["REPLICAS", NAME]).await?;
                let of_others: Vec<redis::Value> = sentinel.ask(&["SENTINELS", NAME]).await?;
                (of_replicas.len() == 2 && of_others.len() == 2).then_some(())?;
            }
            let info: String = Scratch::at(&watched.servers[0].url()).ask(&["INFO", "replication"]).await;
            info.contains("min_slaves_good_slaves:2").then_some(())
        })
        .await;
        watched
    }

    fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port)).collect();
        format!("redis+sentinel://{}/{NAME}?db=0", hosts.join(","))
    }

    fn queues(&self) -> Queues {
        Queues::open(&RedisSettings { redis_url: self.url(), queue_prefix: "test:".to_owned() }).unwrap()
    }

    /// Waits until two Sentinels name another master than the first; returns it.
    async fn failed_over(&self) -> &Server {
        let first = self.servers[0].port();
        let port = eventually("another master", async || {
            let mut named = Vec::new();
            for sentinel in &self.sentinels {
                named.extend(sentinel.master().await.filter(|port| *port != first));
            }
            named.iter().copied().find(|port| named.iter().filter(|other| *other == port).count() >= 2)
        })
        .await;
        self.servers.iter().find(|server| server.port() == port).unwrap()
    }
}

/// Puts ids until Redis takes them, as the dispatcher does.
async fn put_at_last(queues: &Queues, ids: &[String]) {
    eventually("Redis takes ids", async || queues.put(QUEUE, ids, Duration::from_secs(1)).await.ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_goes_on_at_the_next_master() {
    let mut watched = Watched::start().await;
    let (queues, journal) = (watched.queues(), std::sync::Arc::default());
    let worker = Worker::start(&queues, quick(4), taking(Duration::ZERO, &journal));
    let before = ids("before", 20);
    put(&queues, &before).await;
    journal.all_ended(&before).await;
    watched.servers[0].kill();
    let master = watched.failed_over().await.scratch();
    let named = Instant::now();
    let after = ids("after", 20);
    put_at_last(&queues, &after).await;
    let taken = named.elapsed();
    journal.all_ended(&after).await;
    assert!(
        named.elapsed() < Duration::from_secs(5),
        "taken after {taken:?}, ended after {:?}",
        named.elapsed()
    );
    // what has ended is acknowledged a moment later, or taken over where that was lost with the master
    eventually("an empty queue", async || {
        let depth: i64 = master.ask(&["XLEN", queues.keys(QUEUE).stream()]).await;
        (depth == 0).then_some(())
    })
    .await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_was_replaced_gets_nothing_more_though_it_answers() {
    let watched = Watched::start().await;
    let queues = watched.queues();
    put(&queues, &ids("before", 1)).await;
    // it stands still, and goes on as if nothing had happened
    let pid = watched.servers[0].pid();
    signal("STOP", &[pid]).await.unwrap();
    let master = watched.failed_over().await.scratch();
    let server = RedisServer::parse(&watched.url()).unwrap();
    // one of its own and a shared one lead to the next master, while the former one stands still and after that
    for resumed in [false, true] {
        if resumed {
            signal("CONT", &[pid]).await.unwrap();
        }
        let name = if resumed { "resumed" } else { "still" };
        put_at_last(&queues, &ids(name, 3)).await;
        let mut own =
            eventually("a connection", async || server.connect(&AsyncConnectionConfig::new()).await.ok())
                .await;
        redis::cmd("SET").arg(name).arg(1).exec_async(&mut own).await.unwrap();
        let found: Vec<String> = master.ask(&["KEYS", name]).await;
        assert_eq!(found, [name]);
    }
    let entries: i64 = master.ask(&["XLEN", queues.keys(QUEUE).stream()]).await;
    assert!(entries >= 6, "{entries}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_waits_at_a_former_master_ends() {
    let watched = Watched::start().await;
    let server = RedisServer::parse(&watched.url()).unwrap();
    let mut own = server.connect(&AsyncConnectionConfig::new().set_response_timeout(None)).await.unwrap();
    let waiting =
        tokio::spawn(async move { redis::cmd("BLPOP").arg("nothing").arg(600).exec_async(&mut own).await });
    signal("STOP", &[watched.servers[0].pid()]).await.unwrap();
    watched.failed_over().await;
    let named = Instant::now();
    let error = waiting.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("another server is the master"), "{error}");
    assert!(named.elapsed() < Duration::from_secs(3), "{:?}", named.elapsed());
}

/// A provider that moves its address, and demotes the former server without closing a connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_writes_is_left_where_its_address_leads_to_another() {
    let (first, second) = (Server::start().await, Server::start().await);
    let to = std::sync::Arc::new(std::sync::Mutex::new(first.port()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let leads = std::sync::Arc::clone(&to);
    tokio::spawn(async move {
        loop {
            let (mut from, _) = listener.accept().await.unwrap();
            let port = *leads.lock().unwrap();
            tokio::spawn(async move {
                let mut to = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            });
        }
    });
    let queues = Queues::open(&RedisSettings { redis_url: url, queue_prefix: "test:".to_owned() }).unwrap();
    put(&queues, &ids("before", 1)).await;
    *to.lock().unwrap() = second.port();
    let of_second = second.port().to_string();
    first.scratch().ask::<()>(&["REPLICAOF", "127.0.0.1", &of_second]).await;
    put_at_last(&queues, &ids("after", 1)).await;
    let entries: i64 = second.scratch().ask(&["XLEN", queues.keys(QUEUE).stream()]).await;
    assert_eq!(entries, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_sentinel_alone_is_not_believed() {
    let mut watched = Watched::start().await;
    let queues = watched.queues();
    put(&queues, &ids("a", 1)).await;
    watched.sentinels.truncate(2);
    let server = RedisServer::parse(&watched.url()).unwrap();
    let config = AsyncConnectionConfig::new();
    server.connect(&config).await.unwrap();
    drop(watched.sentinels.pop());
    let error = server.connect(&config).await.err().unwrap().to_string();
    assert!(error.contains("no majority of the Sentinels names the same master"), "{error}");
    // what is connected stays so
    put(&queues, &ids("b", 1)).await;
}

#[tokio::test]
async fn what_is_no_address_of_sentinels_is_refused_without_its_password() {
    for (url, why) in [
        ("redis+sentinel://:hush@a,b", "must be redis+sentinel://"),
        ("redis+sentinel://:hush@a,b/", "must be redis+sentinel://"),
        ("redis+sentinel://:hush@a/longshore", "at least two Sentinels"),
        ("redis+sentinel://:hush@a,/longshore", "must be redis+sentinel://"),
        ("redis+sentinel://:hush@a,b:x/longshore", "must be redis+sentinel://"),
        ("redis+sentinel://:hush@a,b/longshore?db=one", "`db` must be a number"),
        ("redis+sentinel://:hush@a,b/longshore?password=hush", "knows the parameters"),
        ("redis+cluster://:hush@a", "Redis Cluster is not supported"),
        ("redis-cluster://:hush@a", "Redis Cluster is not supported"),
        ("sentinel://:hush@a", ""),
    ] {
        let error = RedisServer::parse(url).err().unwrap();
        let told = format!("{error} {error:?}");
        assert!(told.contains(why) && !told.contains("hush"), "{url}: {told}");
    }
    for url in [
        "redis+sentinel://user:p%40ss@10.0.0.1,10.0.0.2:26380,[::1]:26379/longshore?sentinelPassword=a%2Fb%40c&sentinelUsername=s",
        "rediss+sentinel://a.example,b.example/longshore?db=3",
    ] {
        let server = RedisServer::parse(url).unwrap();
        assert!(server.has_sentinels() && !format!("{server:?}").contains("ss"), "{url}");
    }
}
