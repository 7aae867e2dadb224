//! Damages the streams of the queues, while Redis itself works.
//!
//! The work of lost entries is still due in Postgres and is queued again. The marker of a lost entry must not
//! prevent that; see `longshore_kernel::queue`.

use longshore_kernel::queue::Queue;
use longshore_kernel::words;
use longshore_testkit::client;

use super::check;
use super::site::Site;

words! {
    /// A damage to the streams of all queues.
    pub(crate) enum Damage ("damage to streams") {
        /// Each is deleted, together with its group.
        Deleted = "deleted",
        /// Each is trimmed to nothing. Its group and the pending entries remain.
        Trimmed = "trimmed to nothing",
        /// Each is replaced by a key of another type.
        Replaced = "replaced by another type",
        /// No entries can be added to them.
        Refused = "closed to new entries",
    }
}

impl Damage {
    /// Whether it lasts until it is repaired.
    pub(crate) fn lasts(self) -> bool {
        matches!(self, Self::Replaced | Self::Refused)
    }

    /// Inflicts it.
    pub(crate) async fn inflict(self, site: &Site) -> anyhow::Result<()> {
        let (mut redis, queues) = (client::redis(&site.redis.url).await?, check::queues(site)?);
        if self == Self::Refused {
            let mut forbid = redis::cmd("ACL");
            forbid.arg("SETUSER").arg("default").arg("-xadd").exec_async(&mut redis).await?;
            return Ok(());
        }
        for queue in Queue::ALL {
            let keys = queues.keys(queue);
            let mut command = match self {
                Self::Trimmed => redis::cmd("XTRIM"),
                Self::Replaced => redis::cmd("SET"),
                Self::Deleted | Self::Refused => redis::cmd("DEL"),
            };
            command.arg(keys.stream());
            match self {
                Self::Trimmed => _ = command.arg("MAXLEN").arg(0),
                Self::Replaced => _ = command.arg("no stream"),
                Self::Deleted | Self::Refused => {}
            }
            command.exec_async(&mut redis).await?;
        }
        Ok(())
    }

    /// Repairs a lasting damage.
    pub(crate) async fn mend(self, site: &Site) -> anyhow::Result<()> {
        let mut redis = client::redis(&site.redis.url).await?;
        match self {
            Self::Refused => {
                let mut allow = redis::cmd("ACL");
                allow.arg("SETUSER").arg("default").arg("+xadd").exec_async(&mut redis).await?;
            }
            Self::Replaced => {
                let queues = check::queues(site)?;
                for queue in Queue::ALL {
                    redis::cmd("DEL").arg(queues.keys(queue).stream()).exec_async(&mut redis).await?;
                }
            }
            Self::Deleted | Self::Trimmed => {}
        }
        Ok(())
    }
}

/// Ends every read that waits for an entry, as its time limit would.
pub(crate) async fn end_reads(site: &Site) -> anyhow::Result<()> {
    let mut redis = client::redis(&site.redis.url).await?;
    let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut redis).await?;
    for client in clients.lines() {
        let field =
            |name: &str| client.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        if field("flags").is_some_and(|flags| flags.contains('b')) {
            redis::cmd("CLIENT").arg("UNBLOCK").arg(field("id")).exec_async(&mut redis).await?;
        }
    }
    Ok(())
}
