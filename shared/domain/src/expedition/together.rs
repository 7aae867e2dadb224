//! What requests of the same moment do together: orders that are created, and commands, share the statements that look up, lock
//! and write ([`gather`](longshore_kernel::gather)). A stock that all of them want is locked once for all of them.
//!
//! Those of one scope are served together, and wait for no others. One that fails with others is tried alone; so is one whose
//! order or stock stays locked, so that it does not hold up those that want another.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::command::{self, Command};
use super::company::{Came, Company};
use super::create;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::context::Context;
use longshore_kernel::gather::{Gather, GatherBy};
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::precondition::Precondition;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Orders of one transaction.
const MOST: usize = 64;

/// Transactions of a scope at the same time: the fewer, the more each does.
const AT_ONCE: usize = 2;

/// An order with more items is created alone.
const ITEMS: usize = 50;

/// Creates orders and does commands of a process; cheap to clone. It begins when it is first asked.
#[derive(Clone, Debug, Default)]
pub struct Batcher(Arc<OnceLock<Gathers>>);

#[derive(Debug)]
struct Gathers {
    creates: GatherBy<Scope, Arc<create::Asked>, Came>,
    commands: GatherBy<Scope, Arc<command::Asked>, Came>,
}

impl Batcher {
    /// Creates an order: 201 with the record.
    pub async fn create(
        &self,
        services: &Services,
        context: &Context,
        body: Value,
    ) -> Result<Answer, Problem> {
        let asked = Arc::new(create::Asked::read(context, body));
        if asked.count_of_items() <= ITEMS {
            let came = self.gathers(services).creates.ask(context.scope(), Arc::clone(&asked)).await;
            if let Some(answer) = settled(came) {
                return answer;
            }
        }
        create::alone(services, context.scope(), &asked).await
    }

    /// Does a command on one order: 200 with the record.
    pub async fn run(
        &self,
        services: &Services,
        context: &Context,
        id: ExpeditionId,
        command: &Command,
        precondition: &Precondition,
    ) -> Result<Answer, Problem> {
        let asked = Arc::new(command::Asked::new(context, id, command, precondition));
        let came = self.gathers(services).commands.ask(context.scope(), Arc::clone(&asked)).await;
        match settled(came) {
            Some(answer) => answer,
            None => command::alone(services, context.scope(), &asked).await,
        }
    }

    fn gathers(&self, services: &Services) -> &Gathers {
        self.0.get_or_init(|| {
            let (creates, commands) = (services.clone(), services.clone());
            Gathers {
                creates: GatherBy::new(move |scope: &Scope| {
                    let (services, scope) = (creates.clone(), scope.clone());
                    Gather::start(MOST, AT_ONCE, move |asked: Vec<Arc<create::Asked>>| {
                        let (services, scope) = (services.clone(), scope.clone());
                        async move {
                            let create = create::each(&services, &scope, &asked, Company::Together);
                            services.db.standby.patiently(create).await
                        }
                    })
                }),
                commands: GatherBy::new(move |scope: &Scope| {
                    let (services, scope) = (commands.clone(), scope.clone());
                    Gather::start(MOST, AT_ONCE, move |asked: Vec<Arc<command::Asked>>| {
                        let (services, scope) = (services.clone(), scope.clone());
                        async move {
                            let command = command::each(&services, &scope, &asked, Company::Together);
                            services.db.standby.patiently(command).await
                        }
                    })
                }),
            }
        })
    }
}

/// The answer, unless it is to be tried alone: then an error belongs to the right one.
fn settled(came: Result<Came, Problem>) -> Option<Result<Answer, Problem>> {
    match came {
        Ok(came) => came,
        Err(problem) if problem.is_away() => Some(Err(problem)),
        Err(_) => None,
    }
}
