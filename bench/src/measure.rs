//! Measurements: a figure of the service, a floor measured in the same run, and their ratio.
//!
//! Each file has one measurement, a function that runs on a [`Stack`] and returns [`Row`]s; [`all`] is their
//! table. A figure is the median of several runs, which alternate with runs of its floor, so that a slow
//! minute of the machine affects both. [`floor`] runs floors in SQL over one plain connection to the same
//! server. [`compare`] compares two stored tables. To add a measurement: a file here, and a line in [`all`].

mod batch;
mod bulk;
pub mod compare;
mod console;
mod csv;
mod drain;
mod fairness;
mod fetch;
mod floor;
mod growth;
mod idle;
mod latency;
mod load;
mod memory;
mod meter;
pub(crate) mod orders;
mod page;
mod preview;
pub mod process;
mod read;
mod stock;
mod sync;
mod update;
mod workers;

use std::fmt;

use longshore_testkit::stack::{Stack, StackSettings};
use serde::{Deserialize, Serialize};

use orders::{handover, import, news, page as order_page, place, receipt, wait};
use process::{forget_peak, peak};

/// The effort of a run.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Runs per figure; their median counts.
    pub runs: usize,
    /// The divisor of all sizes.
    pub divisor: usize,
}

impl Effort {
    /// A size with this effort.
    fn of(self, size: usize) -> usize {
        size / self.divisor
    }
}

impl Effort {
    /// The full table.
    pub const FULL: Self = Self { runs: 3, divisor: 1 };
    /// About a minute.
    pub const QUICK: Self = Self { runs: 1, divisor: 10 };
}

/// The target of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// At least this share of the floor.
    RatioAtLeast(f64),
    /// At most this many times the floor.
    RatioAtMost(f64),
    /// At least this figure.
    AtLeast(f64),
    /// At most this figure.
    AtMost(f64),
    /// None: the figure is only shown.
    Anywhere,
}

/// A row of the table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The figure of the service.
    pub figure: f64,
    /// The unit of the figure and the floor.
    pub unit: String,
    /// The figure of the same work without the service, measured in the same run.
    pub floor: Option<f64>,
    /// What the floor contains.
    pub floor_is: Option<String>,
    /// How far apart the slowest and the fastest run of the floor were, as a share of their median.
    #[serde(default)]
    pub floor_varied: Option<f64>,
    /// The figure divided by the floor.
    pub ratio: Option<f64>,
    /// The target.
    pub reach: Reach,
    /// Whether the target is met.
    pub ok: bool,
}

/// The same work without the service, and a description of it.
#[derive(Debug)]
pub(crate) struct Floor {
    pub(crate) figure: f64,
    pub(crate) is: &'static str,
    varied: Option<f64>,
}

impl Floor {
    /// A floor of one figure.
    pub(crate) fn of(figure: f64, is: &'static str) -> Self {
        Self { figure, is, varied: None }
    }

    /// A floor of several runs.
    pub(crate) fn median(runs: Vec<f64>, is: &'static str) -> Self {
        let ends =
            runs.iter().copied().min_by(f64::total_cmp).zip(runs.iter().copied().max_by(f64::total_cmp));
        let figure = median(runs);
        Self { figure, is, varied: ends.map(|(least, most)| (most - least) / figure) }
    }
}

/// The variation of a floor beyond which its ratio says little.
const STEADY: f64 = 0.25;

impl Row {
    /// A row without a floor.
    pub(crate) fn absolute(what: impl Into<String>, figure: f64, unit: &str, reach: Reach) -> Self {
        Self::new(what.into(), figure, unit, None, reach)
    }

    /// A row with a floor.
    pub(crate) fn relative(
        what: impl Into<String>,
        figure: f64,
        unit: &str,
        floor: Floor,
        reach: Reach,
    ) -> Self {
        Self::new(what.into(), figure, unit, Some(floor), reach)
    }

    fn new(what: String, figure: f64, unit: &str, floor: Option<Floor>, reach: Reach) -> Self {
        let ratio = floor.as_ref().map(|floor| figure / floor.figure);
        let ok = match reach {
            Reach::RatioAtLeast(least) => ratio.is_some_and(|ratio| ratio >= least),
            Reach::RatioAtMost(most) => ratio.is_some_and(|ratio| ratio <= most),
            Reach::AtLeast(least) => figure >= least,
            Reach::AtMost(most) => figure <= most,
            Reach::Anywhere => true,
        };
        let floor_is = floor.as_ref().map(|floor| floor.is.to_owned());
        let floor_varied = floor.as_ref().and_then(|floor| floor.varied);
        let floor = floor.map(|floor| floor.figure);
        Self { what, figure, unit: unit.to_owned(), floor, floor_is, floor_varied, ratio, reach, ok }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioAtLeast(least) => f.pad(&format!("≥ {least} ×")),
            Self::RatioAtMost(most) => f.pad(&format!("≤ {most} ×")),
            Self::AtLeast(least) => f.pad(&format!("≥ {least}")),
            Self::AtMost(most) => f.pad(&format!("≤ {most}")),
            Self::Anywhere => f.pad("–"),
        }
    }
}

/// The header of the table; rows are printed below it.
pub const HEAD: &str = "what                                                                      figure      floor  ratio     reach  ";

/// A figure in the format of the table.
fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = format!("{} [{}]", self.what, self.unit);
        let or_dash = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
        let (figure, floor, ratio) = (number(self.figure), or_dash(self.floor), or_dash(self.ratio));
        let verdict = match (self.ok, self.reach) {
            (_, Reach::Anywhere) => "",
            (true, _) => "ok",
            (false, _) => "SHORT",
        };
        write!(f, "{what:<69} {figure:>10} {floor:>10} {ratio:>6} {:>9}  {verdict}", self.reach)?;
        if let Some(is) = &self.floor_is {
            write!(f, "\n    floor: {is}")?;
        }
        if let Some(varied) = self.floor_varied.filter(|varied| *varied > STEADY) {
            write!(f, "\n    NOT STEADY: the floor varied by {:.0} %; measure again", 100.0 * varied)?;
        }
        Ok(())
    }
}

/// The names of the measurements: those on a common stack, then those with a million products. `orders` is all of
/// [`OF_ORDERS`].
pub const NAMES: [&str; 26] = [
    "idle",
    "latency",
    "update",
    "bulk",
    "sync",
    "csv",
    "preview",
    "fetch",
    "stock",
    "orders",
    "place",
    "receipt",
    "import",
    "handover",
    "news",
    "wait",
    "order_page",
    "drain",
    "batch",
    "fairness",
    "workers",
    "growth",
    "console",
    "memory",
    "read",
    "page",
];

/// The measurements of orders.
const OF_ORDERS: &[&str] = &["place", "receipt", "import", "handover", "news", "wait", "order_page"];

/// Those of [`NAMES`] that run on a separate stack, with the products that `memory` has synced.
const OF_A_MILLION: &[&str] = &["memory", "read", "page"];

/// Runs measurements (all of [`NAMES`] if none is named), and reports each row when it is done. A measurement
/// that another depends on is run, too.
///
/// # Errors
/// When one cannot be measured; those before it were reported.
pub async fn all(
    settings: &StackSettings,
    effort: Effort,
    only: &[String],
    mut tell: impl FnMut(&Row),
) -> anyhow::Result<Vec<Row>> {
    let named = |name: &str| only.iter().any(|only| only == name);
    let wanted =
        |name: &str| only.is_empty() || named(name) || (named("orders") && OF_ORDERS.contains(&name));
    let mut rows = Vec::new();
    let mut take = |taken: Vec<Row>| {
        taken.iter().for_each(&mut tell);
        rows.extend(taken);
    };
    let elsewhere = |name: &&str| ["growth", "console"].contains(name) || OF_A_MILLION.contains(name);
    if NAMES.iter().any(|name| wanted(name) && !elsewhere(name)) {
        let stack = Stack::start(settings).await?;
        macro_rules! measure {
            ($($name:ident)*) => {
                $(if wanted(stringify!($name)) {
                    take($name::measure(&stack, effort).await?);
                })*
            };
        }
        // Idle first, before anything has happened; workers last, because it kills the workers that it adds.
        measure!(idle latency update bulk sync csv preview fetch stock);
        let worker = stack.worker_pid()?;
        forget_peak(worker)?;
        measure!(place receipt import handover news wait);
        if wanted("orders") {
            let memory = peak(worker)?;
            take(vec![Row::absolute(
                "memory of the worker for all orders",
                memory,
                "MiB",
                Reach::AtMost(100.0),
            )]);
        }
        measure!(order_page drain batch fairness workers);
    }
    if wanted("sync") {
        take(sync::measure_first(settings, effort).await?);
    }
    if wanted("growth") {
        // A new stack, so that its memory contains nothing else, and no later measurement finds its webhooks.
        let stack = Stack::start(settings).await?;
        take(growth::measure(&stack, effort).await?);
    }
    if wanted("console") {
        take(console::measure(settings, effort).await?);
    }
    if OF_A_MILLION.iter().any(|name| wanted(name)) {
        // New processes and a new database, so that only the million products are measured.
        let stack = Stack::start(settings).await?;
        let (measured, site) = memory::measure(&stack, effort).await?;
        take(measured);
        if wanted("read") {
            take(read::measure(&stack, &site, effort).await?);
        }
        if wanted("page") {
            take(page::measure(&stack, &site, effort).await?);
        }
    }
    Ok(rows)
}

/// The median; for an even number, the lower middle value.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    percentile(&figures, 50)
}

/// The figure that this percentage of the sorted figures does not exceed.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).clamp(1, sorted.len().max(1));
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_figure_that_was_measured() {
        let figures: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(
            (percentile(&figures, 50), percentile(&figures, 99), percentile(&figures, 100)),
            (50.0, 99.0, 100.0)
        );
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn a_row_is_ok_if_it_meets_its_target() {
        let floor = || Floor::of(100.0, "a loop");
        let relative = |reach| Row::relative("drain", 50.0, "1/s", floor(), reach).ok;
        assert!(relative(Reach::RatioAtLeast(0.5)) && !relative(Reach::RatioAtLeast(0.51)));
        assert!(relative(Reach::RatioAtMost(0.5)) && !relative(Reach::RatioAtMost(0.49)));
        let absolute = |reach| Row::absolute("idle", 0.4, "%", reach).ok;
        assert!(absolute(Reach::AtMost(0.5)) && !absolute(Reach::AtLeast(0.5)));
        // A figure that is not a number never meets a target.
        assert!(!Row::absolute("idle", f64::NAN, "%", Reach::AtMost(0.5)).ok);
    }

    #[test]
    fn a_row_says_that_its_floor_was_not_steady() {
        let row = |runs| Row::relative("drain", 50.0, "1/s", Floor::median(runs, "a loop"), Reach::Anywhere);
        assert!(
            row(vec![100.0, 80.0, 110.0])
                .to_string()
                .ends_with("NOT STEADY: the floor varied by 30 %; measure again")
        );
        assert!(!row(vec![100.0, 90.0, 110.0]).to_string().contains("NOT STEADY"));
    }
}
