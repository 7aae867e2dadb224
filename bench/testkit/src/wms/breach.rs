//! Rules that a WMS may break, one by one: what a check of its conformance has to find.

use std::time::Duration;

/// How late a [`Breach::Slow`] answers.
pub(super) const SLOW: Duration = Duration::from_secs(30);

/// The size of an answer of [`Breach::Large`]: one byte more than is read.
pub(super) const LARGE: usize = 64 * 1024 + 1;

/// A rule that a fake breaks for as long as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Breach {
    /// The same number again is another hand-over, with another id.
    TakesTwice,
    /// It refuses the same number with another body, as some libraries for idempotency keys do.
    ComparesBodies,
    /// It takes a lower number than one it knows.
    TakesLower,
    /// It takes a number that a withdrawal has named.
    TakesWithdrawn,
    /// The same, only where the withdrawal was the first it heard of the order.
    TakesUnknownWithdrawn,
    /// It takes a number that it has refused, once there is nothing against the order any more.
    TakesRefused,
    /// It takes an order that it has under another id.
    TakesDuplicate,
    /// It refuses the number after one that was withdrawn.
    RefusesNext,
    /// A withdrawal of a lower number withdraws the higher one, too.
    WithdrawsHigher,
    /// It answers 500 when an order that it does not know is withdrawn.
    FailsUnknown,
    /// It takes calls without a valid signature.
    TrustsForged,
    /// It takes signed calls of any age.
    TrustsOld,
    /// It refuses calls with a valid signature.
    TrustsNone,
    /// It looks at the first of several signatures only.
    ReadsOneSignature,
    /// It finds each order that a connection test asks for.
    FindsAny,
    /// It answers connection tests without a valid signature, as a web server answers 404 to everything.
    TestsUnverified,
    /// It does not know connection tests: 405.
    KnowsNoTest,
    /// It refuses orders without a reason.
    RefusesSilently,
    /// It answers after 30 seconds.
    Slow,
    /// Its answers have more than 64 KiB.
    Large,
    /// It redirects each call.
    Redirects,
    /// It calls its answers JSON, and they are not.
    NoJson,
    /// Its id of a hand-over is an object.
    OddId,
}

/// The rule that a WMS breaks, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Breaches(pub(super) Option<Breach>);

impl Breaches {
    pub(super) fn has(self, breach: Breach) -> bool {
        self.0 == Some(breach)
    }
}
