//! The streams of the queues are damaged, while Redis itself is well.
//!
//! What an entry was for is still due in Postgres, and is put on its queue again. The marker of an entry that is gone must not keep
//! it away; see `longshore_shared::platform::queue`.

use longshore_shared::platform::queue::Queue;

use super::check;
use super::site::Site;
use crate::client;

/// What is done to the streams of all queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Each is deleted, and its group with it.
    Deleted,
    /// Each is trimmed to nothing. Its group stays, and so does what is pending in it.
    Trimmed,
    /// A key of another type takes the place of each.
    Replaced,
    /// Nothing may be added to any.
    Refused,
}

/// All of them.
pub(crate) const DAMAGES: [Damage; 4] = [Damage::Deleted, Damage::Trimmed, Damage::Replaced, Damage::Refused];

impl Damage {
    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Trimmed => "trimmed to nothing",
            Self::Replaced => "replaced by another type",
            Self::Refused => "closed to new entries",
        }
    }

    /// Whether it stays until it is mended.
    pub(crate) fn lasts(self) -> bool {
        matches!(self, Self::Replaced | Self::Refused)
    }

    /// Does it.
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

    /// Ends what lasts.
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
