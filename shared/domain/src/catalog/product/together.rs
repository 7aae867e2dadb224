//! What updates of the same moment do together: one statement reads their products, one writes them.
//!
//! A statement costs Postgres and the network several times what a row costs them, so the updates that come while others are
//! read or written wait for these, and share the next statement ([`gather`](longshore_kernel::gather)). An update that is
//! alone is read and written at once.

use std::sync::{Arc, OnceLock};

use uuid::Uuid;

use super::read::{Asked, find_each};
use super::record::Product;
use super::write::{Stamp, Write, write};
use longshore_kernel::access::Scope;
use longshore_kernel::change::hand_over;
use longshore_kernel::gather::Gather;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Products of one statement.
const MOST: usize = 64;

/// Statements of a kind at the same time: the fewer, the more each does.
const AT_ONCE: usize = 1;

/// Reads and writes the products of a process; cheap to clone. It begins when it is first asked.
#[derive(Clone, Debug, Default)]
pub struct Batcher(Arc<OnceLock<Gathers>>);

#[derive(Debug)]
struct Gathers {
    reads: Gather<Asked, Option<Product>>,
    writes: Gather<Write, Option<Stamp>>,
}

impl Batcher {
    /// One product that the caller may see.
    pub(super) async fn find(
        &self,
        services: &Services,
        scope: &Scope,
        id: Uuid,
    ) -> Result<Option<Product>, Problem> {
        self.gathers(services).reads.ask(Asked { scope: scope.clone(), id }).await
    }

    /// Writes a product, and hands what became due to the queue. `None`: the read version is no longer the latest, or the
    /// product is being changed.
    pub(super) async fn write(&self, services: &Services, write: Write) -> Result<Option<Stamp>, Problem> {
        self.gathers(services).writes.ask(write).await
    }

    fn gathers(&self, services: &Services) -> &Gathers {
        self.0.get_or_init(|| {
            let (reads, writes) = (services.db.clone(), services.clone());
            Gathers {
                reads: Gather::start(MOST, AT_ONCE, move |asked: Vec<Asked>| {
                    let pool = reads.main.clone();
                    async move { Ok(find_each(&pool, &asked).await?) }
                }),
                writes: Gather::start(MOST, AT_ONCE, move |given: Vec<Write>| {
                    let services = writes.clone();
                    async move {
                        let db = &services.db;
                        let write = async { write(&mut *db.main.acquire().await?, &given).await };
                        let written = db.standby.patiently(write).await?;
                        hand_over(&services, written.lanes);
                        Ok(written.done)
                    }
                }),
            }
        })
    }
}
