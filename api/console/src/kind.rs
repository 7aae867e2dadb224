//! The jobs of each kind: a table, which leads to the charts of a kind.

use longshore_domain::job::kind::JobKind;
use longshore_operate::course::{Kinds, OfKind};
use maud::{Markup, html};

use super::chart::spark;
use super::course::{self, float};
use super::form::{Asked, OF_PAGE};
use super::piece::{empty, milliseconds, none, number, plain};

/// The charts of a kind, or where none is chosen the table, with the choice of the span.
pub(super) fn part(asked: &Asked, here: &str, kinds: &Kinds, chosen: Option<JobKind>) -> Markup {
    match chosen {
        Some(kind) => course::of_kind(asked, here, kinds, kind.as_str()),
        None => course::section(
            asked,
            here,
            kinds.steps.span,
            &html! { "By kind" },
            &rows(asked, here, kinds, None),
        ),
    }
}

/// The table, below charts of the same span.
pub(super) fn table(asked: &Asked, here: &str, kinds: &Kinds, chosen: Option<JobKind>) -> Markup {
    let all = asked.address(here, &without(), &[]);
    html! {
        section aria-labelledby="kinds-title" {
            header.title {
                h2 #kinds-title { "By kind" }
                @if chosen.is_some() { a href=(all) { "All kinds" } }
            }
            (rows(asked, here, kinds, chosen))
        }
    }
}

/// What an address of a kind does not keep of another.
fn without() -> Vec<&'static str> {
    OF_PAGE.into_iter().chain(["kind"]).collect()
}

fn rows(asked: &Asked, here: &str, kinds: &Kinds, chosen: Option<JobKind>) -> Markup {
    if kinds.kinds.is_empty() {
        return empty("No job ended in this period.", "Choose a longer one.");
    }
    let chosen = chosen.map(JobKind::as_str);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Jobs by kind, table" {
            table.stack {
                thead { tr {
                    th { "Kind" } th { "Finished" } th.number { "Done" } th.number { "Failed" }
                    th.number { "Mean" } th.number { "Slowest" }
                } }
                tbody { @for kind in &kinds.kinds { (row(asked, here, kind, chosen)) } }
            }
        }
    }
}

fn row(asked: &Asked, here: &str, kind: &OfKind, chosen: Option<&str>) -> Markup {
    let name = kind.kind.as_str();
    let address = asked.address(here, &without(), &[("kind", name)]);
    let (good, bad) = kind.jobs.iter().fold((0, 0), |(good, bad), step| (good + step.good, bad + step.bad));
    let course: Vec<_> = kind.jobs.iter().map(|step| Some(float(step.good + step.bad))).collect();
    let slowest = kind.jobs.iter().filter_map(|step| step.slowest_ms).reduce(f64::max);
    let duration = |ms: Option<f64>| ms.map_or_else(none, |ms| html! { (milliseconds(ms)) });
    html! {
        tr {
            td { a href=(address) aria-current=[(chosen == Some(name)).then_some("true")] { strong { (plain(name)) } } }
            td.course { (spark("good", &course)) }
            td.number data-label="Done" { (number(good)) }
            td.number.refused[bad > 0] data-label="Failed" { (number(bad)) }
            td.number data-label="Mean" { (duration(mean(kind))) }
            td.number data-label="Slowest" { (duration(slowest)) }
        }
    }
}

/// The mean duration over all steps.
fn mean(kind: &OfKind) -> Option<f64> {
    let sums = kind.jobs.iter().filter_map(|step| {
        let jobs = float(step.good + step.bad);
        step.mean_ms.map(|mean| (mean * jobs, jobs))
    });
    let (took, jobs) = sums.fold((0.0, 0.0), |(took, jobs), (more, of)| (took + more, jobs + of));
    (jobs > 0.0).then(|| took / jobs)
}

#[cfg(test)]
mod tests {
    use longshore_operate::course::Runs;

    use super::*;

    #[test]
    fn the_mean_of_a_period_weighs_its_steps_by_their_jobs() {
        let step = |good, mean_ms| Runs { good, bad: 0, mean_ms, slowest_ms: None };
        let of = |jobs| mean(&OfKind { kind: "product.sync".to_owned(), jobs });
        assert_eq!(of(vec![step(1, Some(100.0)), step(0, None), step(3, Some(20.0))]), Some(40.0));
        assert_eq!(of(vec![step(0, None)]), None);
    }
}
