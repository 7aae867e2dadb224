//! Redis: its version and settings, and whether workers read the queues.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use redis::{AsyncConnectionConfig, RedisResult};

use super::{Finding, PATIENCE, reason};
use longshore_domain::job::backlog as jobs;
use longshore_domain::webhook::lane::backlog as lanes;
use longshore_kernel::clock::Clock;
use longshore_kernel::config::RedisSettings;
use longshore_kernel::database::Database;
use longshore_kernel::queue::{Memory, Queue, Queues, RedisHealth};
use longshore_kernel::redis_server::{NO_CLUSTER, RedisLink, RedisServer};

/// The oldest Redis that has all that is asked of it.
const OLDEST: (u32, u32) = (6, 2);
/// The oldest Redis that the tests run on.
const TESTED: (u32, u32) = (7, 0);

pub(super) const CONNECTION: &str = "redis.connection";
const VERSION: &str = "redis.version";
const PRIMARY: &str = "redis.primary";
const REPLICAS: &str = "redis.replicas";
const EVICTION: &str = "redis.eviction";
const CLOCK: &str = "redis.clock";
const MEMORY: &str = "redis.memory";
const WRITES: &str = "redis.writes";
const WORKERS: &str = "workers";

pub(super) async fn examine(settings: &RedisSettings, clock: &Clock) -> Vec<Finding> {
    let unreachable = |found: String| {
        vec![Finding::fail(
            CONNECTION,
            found,
            "check REDIS_URL, and that Redis runs and accepts the login: redis-cli -u \"$REDIS_URL\" ping",
        )]
    };
    let server = match RedisServer::parse(&settings.redis_url) {
        Ok(server) => server,
        Err(error) => return unreachable(reason(&error)),
    };
    match tokio::time::timeout(PATIENCE, look(&server, clock)).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => unreachable(reason(&error)),
        Err(_) => unreachable(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

async fn look(server: &RedisServer, clock: &Clock) -> RedisResult<Vec<Finding>> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let address = server.address().await?;
    let mut connection = server.connect(&config).await?;
    redis::cmd("PING").query_async::<()>(&mut connection).await?;
    let info: String = redis::cmd("INFO").query_async(&mut connection).await?;
    let mut findings = vec![
        // the URL may hold a password
        Finding::ok(CONNECTION, address.to_string()),
        version(value(&info, "redis_version")),
        primary(value(&info, "role"), value(&info, "redis_mode")),
        eviction(value(&info, "maxmemory_policy")),
        time(&mut connection, clock).await?,
    ];
    if server.has_sentinels() {
        let connected = value(&info, "connected_slaves").parse().unwrap_or_default();
        findings.push(replicas(&mut connection, connected).await);
    }
    Ok(findings)
}

/// Seconds for which a master may take writes after its last replica was lost.
const LONGEST_LAG: u64 = 5;

/// Whether a master that is cut off from its replicas refuses writes: else what it takes is lost when the others have another one.
async fn replicas(connection: &mut RedisLink, connected: u64) -> Finding {
    let remedy =
        "set min-replicas-to-write 1 and min-replicas-max-lag 5 (or less) in redis.conf of every server";
    let mut ask = redis::cmd("CONFIG");
    ask.arg("GET").arg("min-replicas-*");
    let Ok(settings) = ask.query_async::<HashMap<String, u64>>(connection).await else {
        return Finding::warn(
            REPLICAS,
            "CONFIG GET is refused, so it is not known whether a master needs a replica",
            remedy,
        );
    };
    let of = |name: &str| settings.get(name).copied().unwrap_or_default();
    judge_replicas(of("min-replicas-to-write"), of("min-replicas-max-lag"), connected, remedy)
}

fn judge_replicas(least: u64, lag: u64, connected: u64, remedy: &str) -> Finding {
    if least == 0 || lag == 0 {
        let found = "a master that is cut off from its replicas goes on taking writes, which are lost";
        return Finding::fail(REPLICAS, found, remedy);
    }
    if lag > LONGEST_LAG {
        let found = format!("a master takes writes for {lag} s after its last replica was lost");
        return Finding::fail(REPLICAS, found, remedy);
    }
    if connected <= least {
        let found = format!(
            "{connected} follow the master, and it needs {least}: after a failover it takes no writes"
        );
        return Finding::warn(REPLICAS, found, "run one more server, and see that it follows the master");
    }
    Finding::ok(
        REPLICAS,
        format!("{connected} follow the master, which needs {least}, at most {lag} s behind"),
    )
}

/// A line of `INFO`.
fn value<'i>(info: &'i str, name: &str) -> &'i str {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim()
}

fn version(text: &str) -> Finding {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let remedy = format!("upgrade to Redis {}.{} or newer", TESTED.0, TESTED.1);
    if version < OLDEST {
        Finding::fail(VERSION, format!("{text} is too old"), remedy)
    } else if version < TESTED {
        Finding::warn(VERSION, format!("{text} is older than the tested versions"), remedy)
    } else {
        Finding::ok(VERSION, text)
    }
}

fn primary(role: &str, mode: &str) -> Finding {
    if mode == "cluster" {
        Finding::fail(
            PRIMARY,
            NO_CLUSTER,
            "use one server, or servers with Sentinels: redis+sentinel://a,b,c/name",
        )
    } else if role == "slave" {
        Finding::fail(PRIMARY, "this is a replica: it accepts no changes", "point REDIS_URL at the primary")
    } else {
        Finding::ok(PRIMARY, "accepts changes")
    }
}

fn eviction(policy: &str) -> Finding {
    if policy == "noeviction" {
        Finding::ok(EVICTION, policy)
    } else {
        Finding::fail(
            EVICTION,
            format!("{policy}: when memory runs short, Redis removes queue entries"),
            "redis-cli -u \"$REDIS_URL\" config set maxmemory-policy noeviction, and the same line in redis.conf",
        )
    }
}

async fn time(connection: &mut RedisLink, clock: &Clock) -> RedisResult<Finding> {
    let before = clock.now();
    let (seconds, micros): (i64, u32) = redis::cmd("TIME").query_async(connection).await?;
    let after = clock.now();
    let theirs: DateTime<Utc> =
        DateTime::from_timestamp(seconds, micros.saturating_mul(1_000)).unwrap_or_default();
    Ok(Finding::clocks(CLOCK, before + (after - before) / 2, theirs))
}

/// What gives a Redis more room, and shows what takes it.
const MORE_ROOM: &str = "redis-cli -u \"$REDIS_URL\" config set maxmemory 1gb, and the same line in redis.conf; to see what uses the memory: redis-cli -u \"$REDIS_URL\" --memkeys";

/// Whether there is room, and a key can be written: a full Redis answers everything else.
pub(super) async fn examine_writes(settings: &RedisSettings) -> Vec<Finding> {
    // a refused prefix is reported with the workers
    let Ok(queues) = Queues::open(settings) else { return Vec::new() };
    let health = queues.probe(PATIENCE).await;
    health.memory.map(memory).into_iter().chain([writes(&health)]).collect()
}

fn memory(memory: Memory) -> Finding {
    if memory.is_nearly_full() {
        Finding::warn(
            MEMORY,
            format!("{}: when memory is full, Redis refuses writes", memory.in_words()),
            MORE_ROOM,
        )
    } else if memory.max.is_none() {
        Finding::ok(MEMORY, format!("{}, without a limit", memory.in_words()))
    } else {
        Finding::ok(MEMORY, memory.in_words())
    }
}

fn writes(health: &RedisHealth) -> Finding {
    let Some(error) = &health.error else { return Finding::ok(WRITES, "keys can be written") };
    let remedy = if error.contains("OOM") {
        MORE_ROOM
    } else {
        "the message above has the reason; for more, see the log of Redis and: redis-cli -u \"$REDIS_URL\" info persistence"
    };
    let found = format!("keys cannot be written, so nothing is executed or delivered: {error}");
    Finding::fail(WRITES, found, remedy)
}

/// Whether every queue is read, with a distinction by waiting work.
pub(super) async fn examine_workers(settings: &RedisSettings, database: Option<&Database>) -> Finding {
    let remedy = "start longshore-worker, and check its log";
    let mut silent = Vec::new();
    let (mut workers, mut waiting) = (0, 0);
    let queues = match Queues::open(settings) {
        Ok(queues) => queues,
        Err(error) => return Finding::fail(WORKERS, reason(&error), "check LONGSHORE_QUEUE_PREFIX"),
    };
    for queue in Queue::ALL {
        match tokio::time::timeout(PATIENCE, queues.stats(queue)).await {
            Ok(Ok(stats)) => {
                workers = workers.max(stats.consumers);
                waiting += stats.waiting();
                if stats.consumers == 0 {
                    silent.push(queue.name());
                }
            }
            Ok(Err(error)) => return Finding::fail(WORKERS, reason(&error), remedy),
            Err(_) => return Finding::fail(WORKERS, "the queues cannot be read", remedy),
        }
    }
    if silent.is_empty() {
        return Finding::ok(WORKERS, format!("{workers} seen in the last seconds"));
    }
    if let Some(database) = database {
        let (jobs, lanes) = tokio::join!(jobs::read(database), lanes::read(database));
        waiting += jobs.map_or(0, |jobs| jobs.open.unsigned_abs());
        waiting += lanes.map_or(0, |lanes| lanes.due.unsigned_abs());
    }
    let found = format!("none reads {}", silent.join(", "));
    if waiting > 0 {
        Finding::fail(WORKERS, format!("{found}, but work is waiting"), remedy)
    } else {
        Finding::warn(WORKERS, found, remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (text, verdict) in [
            ("5.0.14", Verdict::Fail),
            ("6.0.9", Verdict::Fail),
            ("6.2.0", Verdict::Warn),
            ("7.0.15", Verdict::Ok),
            ("10.1.0", Verdict::Ok),
            ("", Verdict::Fail),
        ] {
            assert_eq!(version(text).verdict, verdict, "{text}");
        }
    }

    #[test]
    fn the_info_of_redis_is_read_by_line() {
        let info = "# Server\r\nredis_version:7.0.15\r\n# Replication\r\nrole:slave\r\nmaxmemory_policy:allkeys-lru\r\n";
        assert_eq!(value(info, "redis_version"), "7.0.15");
        assert_eq!(value(info, "version"), "");
        assert_eq!(primary(value(info, "role"), "standalone").verdict, Verdict::Fail);
        assert_eq!(primary("master", "standalone").verdict, Verdict::Ok);
        assert_eq!(primary("master", "cluster").verdict, Verdict::Fail);
        let replicas = |least, lag, connected| judge_replicas(least, lag, connected, "").verdict;
        assert_eq!([replicas(0, 5, 2), replicas(1, 0, 2), replicas(1, 10, 2)], [Verdict::Fail; 3]);
        assert_eq!([replicas(1, 5, 1), replicas(1, 5, 2)], [Verdict::Warn, Verdict::Ok]);
        assert_eq!(eviction(value(info, "maxmemory_policy")).verdict, Verdict::Fail);
        assert_eq!(eviction("noeviction").verdict, Verdict::Ok);
    }
}
