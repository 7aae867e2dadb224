//! One statement for all callers of the same moment.
//!
//! A single caller is served at once. Callers that arrive during a statement wait for its end and are then served together: with
//! more load, each statement does more, and each caller costs less. No caller waits for others to arrive.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::{mpsc, oneshot};

use super::problem::Problem;
use super::share;

/// What those who wait are refused.
const TURNS: &str = "turns for changes and look-ups";

/// Serves questions that are asked one by one, together. Cheap to clone; what was asked is served after the last is dropped.
pub struct Gather<Q, A>(mpsc::UnboundedSender<Ask<Q, A>>);

struct Ask<Q, A> {
    question: Q,
    /// it is served, or the caller has given up
    settled: Arc<AtomicBool>,
    answer: oneshot::Sender<Result<A, Problem>>,
}

impl<Q: Send + 'static, A: Send + 'static> Gather<Q, A> {
    /// Starts it in a separate task, which makes all calls of `serve`. A call answers up to `most` questions, in their order; `at_once`
    /// of them run at the same time.
    pub fn start<F, S>(most: usize, at_once: usize, serve: F) -> Self
    where
        F: Fn(Vec<Q>) -> S + Send + Sync + 'static,
        S: Future<Output = Result<Vec<A>, Problem>> + Send,
    {
        let (sender, mut asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let (mut served, mut is_open) = (FuturesUnordered::new(), true);
            let mut asks: Vec<Ask<Q, A>> = Vec::new();
            while is_open || !served.is_empty() {
                // questions that arrive before there is a slot belong to the next group
                tokio::select! {
                    Some(_) = served.next() => {}
                    count = asked.recv_many(&mut asks, most), if is_open && served.len() < at_once => {
                        is_open = count > 0;
                        asks.retain(|ask| !ask.answer.is_closed() && !ask.settled.swap(true, Ordering::SeqCst));
                        if !asks.is_empty() {
                            // a call that panics ends alone
                            served.push(AssertUnwindSafe(answer(mem::take(&mut asks), &serve)).catch_unwind());
                        }
                    }
                }
            }
        });
        Self(sender)
    }

    /// Asks, and waits for the answer: a request as long as it may ([`share`]), until the question is served.
    ///
    /// # Errors
    /// The error of `serve`, whichever question caused it; 503 where the question was not served in time.
    pub async fn ask(&self, question: Q) -> Result<A, Problem> {
        let (answer, mut answered) = oneshot::channel();
        let settled = Arc::new(AtomicBool::new(false));
        // a task that has ended, or a call that has panicked, drops the other side
        let _ = self.0.send(Ask { question, settled: Arc::clone(&settled), answer });
        let came = match share::patiently(TURNS, &mut answered).await {
            Err(refusal) if !settled.swap(true, Ordering::SeqCst) => return Err(refusal.into()),
            Err(_) => answered.await,
            Ok(came) => came,
        };
        came.unwrap_or_else(|error| Err(Problem::internal(error)))
    }
}

async fn answer<Q, A, F, S>(asks: Vec<Ask<Q, A>>, serve: &F)
where
    F: Fn(Vec<Q>) -> S,
    S: Future<Output = Result<Vec<A>, Problem>>,
{
    let (questions, askers): (Vec<Q>, Vec<_>) = asks.into_iter().map(|a| (a.question, a.answer)).unzip();
    match serve(questions).await {
        Ok(answers) => {
            debug_assert_eq!(answers.len(), askers.len(), "one answer a question");
            for (asker, answer) in askers.into_iter().zip(answers) {
                // a caller that is gone needs no answer
                let _ = asker.send(Ok(answer));
            }
        }
        Err(problem) => {
            let shared = Arc::new(problem);
            for asker in askers {
                let _ = asker.send(Err(Problem::shared(&shared)));
            }
        }
    }
}

impl<Q, A> Clone for Gather<Q, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Q, A> fmt::Debug for Gather<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather").finish_non_exhaustive()
    }
}

/// A [`Gather`] for each key that has callers: those of one key wait for each other only. Cheap to clone.
pub struct GatherBy<K, Q, A>(Arc<By<K, Q, A>>);

struct By<K, Q, A> {
    start: Box<Start<K, Q, A>>,
    kept: Mutex<HashMap<K, Kept<Q, A>>>,
}

type Start<K, Q, A> = dyn Fn(&K) -> Gather<Q, A> + Send + Sync;

struct Kept<Q, A> {
    callers: usize,
    gather: Gather<Q, A>,
}

impl<K: Clone + Eq + Hash, Q: Send + 'static, A: Send + 'static> GatherBy<K, Q, A> {
    /// `start` begins that of a key.
    pub fn new(start: impl Fn(&K) -> Gather<Q, A> + Send + Sync + 'static) -> Self {
        Self(Arc::new(By { start: Box::new(start), kept: Mutex::default() }))
    }

    /// Asks that of a key, and waits for the answer.
    ///
    /// # Errors
    /// Those of [`Gather::ask`].
    pub async fn ask(&self, key: &K, question: Q) -> Result<A, Problem> {
        let (gather, _caller) = self.enter(key);
        gather.ask(question).await
    }

    fn enter(&self, key: &K) -> (Gather<Q, A>, Caller<'_, K, Q, A>) {
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept =
            kept.entry(key.clone()).or_insert_with(|| Kept { callers: 0, gather: (self.0.start)(key) });
        kept.callers += 1;
        (kept.gather.clone(), Caller { of: &self.0, key: key.clone() })
    }
}

/// One who waits. The last of a key drops its [`Gather`].
struct Caller<'b, K: Eq + Hash, Q, A> {
    of: &'b By<K, Q, A>,
    key: K,
}

impl<K: Eq + Hash, Q, A> Drop for Caller<'_, K, Q, A> {
    fn drop(&mut self) {
        let mut kept = self.of.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of) = kept.get_mut(&self.key) {
            of.callers -= 1;
            if of.callers == 0 {
                kept.remove(&self.key);
            }
        }
    }
}

impl<K, Q, A> Clone for GatherBy<K, Q, A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, Q, A> fmt::Debug for GatherBy<K, Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatherBy").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use tokio::sync::Notify;

    use super::*;
    use crate::problem::UNAVAILABLE;
    use crate::share::Asker;

    type Companies = Arc<Mutex<Vec<Vec<u32>>>>;

    /// Doubles numbers; the first company is served when it is let go.
    fn doubling(most: usize, at_once: usize) -> (Gather<u32, u32>, Companies, Arc<Notify>) {
        let (companies, go) = (Companies::default(), Arc::new(Notify::new()));
        let (seen, gate) = (Arc::clone(&companies), Arc::clone(&go));
        let gather = Gather::start(most, at_once, move |numbers: Vec<u32>| {
            let first = {
                let mut seen = seen.lock().unwrap();
                seen.push(numbers.clone());
                seen.len() == 1
            };
            let gate = Arc::clone(&gate);
            async move {
                if first {
                    gate.notified().await;
                }
                Ok(numbers.into_iter().map(|n| n * 2).collect())
            }
        });
        (gather, companies, go)
    }

    #[tokio::test]
    async fn concurrent_questions_are_served_together_and_each_gets_its_own_answer() {
        let (gather, companies, go) = doubling(3, 1);
        let asked = join_all((1..=6).map(|n| gather.ask(n)));
        let (answers, ()) = tokio::join!(asked, async {
            // the first alone, or with those that asked before the task began
            while companies.lock().unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
            go.notify_one();
        });
        let answers: Vec<u32> = answers.into_iter().map(Result::unwrap).collect();
        assert_eq!(answers, [2, 4, 6, 8, 10, 12]);
        let companies = companies.lock().unwrap();
        assert!(companies.len() < 6 && companies.iter().all(|c| c.len() <= 3), "{companies:?}");
        assert_eq!(companies.concat(), [1, 2, 3, 4, 5, 6]);
    }

    #[tokio::test]
    async fn a_slow_company_does_not_hold_up_the_next_where_two_may_be_served() {
        let (gather, companies, go) = doubling(10, 2);
        let slow = tokio::spawn({
            let gather = gather.clone();
            async move { gather.ask(1).await.unwrap() }
        });
        while companies.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(gather.ask(2).await.unwrap(), 4);
        go.notify_one();
        assert_eq!(slow.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_failure_reaches_all_of_a_group_and_the_next_group_is_served() {
        let gather = Gather::start(10, 1, |numbers: Vec<u32>| async move {
            if numbers.contains(&13) { Err(Problem::unavailable("away")) } else { Ok(numbers) }
        });
        let failed = join_all([13, 14].map(|n| gather.ask(n))).await;
        let problem = failed[0].as_ref().unwrap_err();
        assert_eq!(problem.kind(), &UNAVAILABLE);
        assert!(problem.retry_after_hint().is_some() && problem.cause().is_some());
        assert_eq!(gather.ask(15).await.unwrap(), 15);
    }

    #[tokio::test]
    async fn a_panic_fails_its_company_alone() {
        let gather = Gather::start(10, 1, |numbers: Vec<u32>| async move {
            assert!(!numbers.contains(&13), "made to fail");
            Ok(numbers)
        });
        gather.ask(13).await.unwrap_err();
        assert_eq!(gather.ask(15).await.unwrap(), 15);
    }

    #[tokio::test]
    async fn an_abandoned_question_does_not_disturb_the_others() {
        let (gather, companies, go) = doubling(10, 1);
        let gone = tokio::spawn({
            let gather = gather.clone();
            async move { gather.ask(1).await }
        });
        while companies.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let waiting = tokio::spawn({
            let gather = gather.clone();
            async move { gather.ask(3).await }
        });
        tokio::task::yield_now().await;
        for abandoned in [gone, waiting] {
            abandoned.abort();
            abandoned.await.unwrap_err();
        }
        go.notify_one();
        assert_eq!(gather.ask(2).await.unwrap(), 4);
        assert_eq!(*companies.lock().unwrap(), [[1], [2]], "what was given up is not done");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_gives_up_what_is_not_served_in_time_and_nothing_else() {
        let (gather, companies, go) = doubling(10, 1);
        let ask = |number| {
            let gather = gather.clone();
            tokio::spawn(share::as_asker(Asker::default(), async move { gather.ask(number).await }))
        };
        let served = ask(1);
        while companies.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let refused = ask(2).await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), &UNAVAILABLE);
        assert!(refused.retry_after_hint().is_some());
        assert!(!served.is_finished());
        let last = ask(3);
        tokio::task::yield_now().await;
        go.notify_one();
        assert_eq!(served.await.unwrap().unwrap(), 2);
        assert_eq!(last.await.unwrap().unwrap(), 6);
        assert_eq!(*companies.lock().unwrap(), [[1], [3]], "what was given up is not done");
    }

    #[tokio::test]
    async fn a_slow_key_holds_up_no_other_and_none_is_kept_without_callers() {
        let (companies, go) = (Companies::default(), Arc::new(Notify::new()));
        let gather = {
            let (companies, go) = (Arc::clone(&companies), Arc::clone(&go));
            GatherBy::new(move |is_slow: &bool| {
                let (is_slow, companies, go) = (*is_slow, Arc::clone(&companies), Arc::clone(&go));
                Gather::start(10, 1, move |numbers: Vec<u32>| {
                    companies.lock().unwrap().push(numbers.clone());
                    let go = Arc::clone(&go);
                    async move {
                        if is_slow {
                            go.notified().await;
                        }
                        Ok(numbers)
                    }
                })
            })
        };
        let slow = tokio::spawn({
            let gather = gather.clone();
            async move { gather.ask(&true, 1).await.unwrap() }
        });
        while companies.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(gather.ask(&false, 2).await.unwrap(), 2);
        assert_eq!(gather.0.kept.lock().unwrap().len(), 1);
        go.notify_one();
        assert_eq!(slow.await.unwrap(), 1);
        assert!(gather.0.kept.lock().unwrap().is_empty());
    }
}
