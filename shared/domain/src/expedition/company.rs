//! Whether a request is served with others, and what came of it then ([`together`](super::together) says which are).

use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::problem::{CONFLICT, Problem};
use longshore_kernel::services::Services;

/// Whether requests are served with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// Others wait with them.
    Together,
    /// No others do.
    Alone,
}

impl Company {
    /// Begins their transaction.
    pub(super) async fn begin(self, services: &Services) -> Result<Change<'_>, Problem> {
        match self {
            Self::Together => Change::begin_together(services).await,
            Self::Alone => Change::begin(services).await,
        }
    }
}

/// How often a request is tried that fails because of a concurrent change.
const ATTEMPTS: usize = 3;

/// What came of one; `None`: another change came first, and it is to be tried alone.
pub(super) type Came = Option<Result<Answer, Problem>>;

/// Serves a request that no other waits with: `serve` answers it alone.
pub(super) async fn alone<S>(serve: impl Fn() -> S) -> Result<Answer, Problem>
where
    S: Future<Output = Result<Vec<Came>, Problem>>,
{
    for _ in 0..ATTEMPTS {
        if let Some(answer) = serve().await?.pop().flatten() {
            return answer;
        }
    }
    Err(Problem::new(&CONFLICT, "a record that the order refers to is being changed; try again"))
}
