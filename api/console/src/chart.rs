//! Charts. A page contains each as a drawing in SVG, as figures for the script, which draws it anew with axes and the values
//! under the pointer or the keys, and as a table. Their colours are in the style sheet, for dark and light themes.

use std::fmt::Write as _;

use chrono::{DateTime, TimeDelta, Utc};
use maud::{Markup, html};
use serde_json::json;
use url::form_urlencoded::Serializer;

use super::piece::{milliseconds, number};

/// Size of the drawing; the page stretches it.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 100.0;

/// One series of a chart: a class of the style sheet, and an optional value for each step.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) class: &'static str,
    pub(super) values: Vec<Option<f64>>,
    /// Whether it has a scale of its own, on the right.
    pub(super) apart: bool,
}

/// A chart over steps of time.
#[derive(Debug)]
pub(super) struct Chart<'c> {
    pub(super) title: &'c str,
    /// A summary in words.
    pub(super) summary: &'c str,
    pub(super) from: DateTime<Utc>,
    pub(super) step: TimeDelta,
    /// Bars; empty for a chart of lines.
    pub(super) bars: Vec<Series>,
    pub(super) lines: Vec<Series>,
    /// Words and classes of the legend.
    pub(super) legend: &'c [(&'static str, &'static str)],
    pub(super) unit: Unit,
    /// The list that shows what it counts, which takes `since` and `until`.
    pub(super) list: Option<&'c str>,
}

/// What values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Count,
    Milliseconds,
    Megabytes,
}

impl Unit {
    /// A value in words.
    pub(super) fn write(self, value: f64) -> String {
        #[expect(clippy::cast_possible_truncation, reason = "counts of two hours are far below")]
        match self {
            Self::Count => number(value as i64),
            Self::Milliseconds => milliseconds(value),
            Self::Megabytes => format!("{} MB", number(value as i64)),
        }
    }

    /// As the script knows it.
    fn word(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Milliseconds => "ms",
            Self::Megabytes => "MB",
        }
    }
}

/// The course of a figure, without axes: it is a decoration of the figure.
pub(super) fn spark(class: &str, values: &[Option<f64>]) -> Markup {
    let top = values.iter().copied().flatten().fold(0.0, f64::max);
    let width = WIDTH / count(values.len().max(1));
    html! {
        svg.spark viewBox={"0 0 " (WIDTH) " " (HEIGHT)} preserveAspectRatio="none" aria-hidden="true" {
            path.line.(class) d=(line(values, width, top)) {}
        }
    }
}

impl Chart<'_> {
    pub(super) fn draw(&self) -> Markup {
        let steps =
            self.bars.iter().chain(&self.lines).map(|series| series.values.len()).max().unwrap_or(0).max(1);
        let top = self.top(steps);
        let width = WIDTH / count(steps);
        let mut floor = vec![0.0; steps];
        let bars: Vec<_> = self
            .bars
            .iter()
            .map(|series| (series.class, stack(&series.values, &mut floor, width, top)))
            .collect();
        let apart = highest(self.lines.iter().filter(|series| series.apart));
        let top_of = |series: &Series| if series.apart { apart } else { top };
        let lines: Vec<_> = self
            .lines
            .iter()
            .map(|series| (series.class, line(&series.values, width, top_of(series))))
            .collect();
        let nothing = top <= 0.0 && apart <= 0.0;
        html! {
            // without a value there is nothing to draw, and axes would say what is not there
            figure.chart data-plot=[(!nothing).then(|| self.figures())] {
                figcaption {
                    strong { (self.title) }
                    span.muted { (self.summary) }
                }
                div.plot.leads[self.list.is_some()] tabindex="0" role="group" aria-label={(self.title) ": " (self.summary)} {
                    @if nothing { p.muted.nothing { "No data in this period." } }
                    svg viewBox={"0 0 " (WIDTH) " " (HEIGHT)} preserveAspectRatio="none" role="img"
                        aria-label={(self.title) ": " (self.summary)} {
                        path.grid d="M0 .5H600M0 50H600M0 99.5H600" {}
                        @for (class, d) in &bars { path.stack.(class) d=(d) {} }
                        @for (class, d) in &lines { path.line.(class) d=(d) {} }
                    }
                    @if !nothing { span.top.muted { (self.unit.write(top)) } }
                    @if apart > 0.0 { span.top.apart { (self.unit.write(apart)) } }
                }
                div.axis {
                    span { (self.from.format(self.clock(steps))) " UTC" }
                    span.legend {
                        @for (class, word) in self.legend { span { i.(class) {} (word) } }
                    }
                    span { "now" }
                }
                (self.table(steps))
            }
        }
    }

    /// The figures for the script.
    fn figures(&self) -> String {
        let series = |series: &Series, is_bar: bool, name: &str| json!({"name": name, "class": series.class, "bar": is_bar, "apart": series.apart, "values": series.values});
        let bars = self.bars.iter().map(|one| (one, true));
        let all = bars.chain(self.lines.iter().map(|one| (one, false))).zip(self.legend);
        let all: Vec<_> = all.map(|((one, is_bar), (_, name))| series(one, is_bar, name)).collect();
        let unit = self.unit.word();
        let (from, step) = (self.from.timestamp(), self.step.num_seconds());
        json!({"from": from, "step": step, "unit": unit, "series": all, "list": self.list}).to_string()
    }

    /// The figures as a table; steps without any are left out.
    fn table(&self, steps: usize) -> Markup {
        let series = || self.bars.iter().chain(&self.lines);
        let value = |one: &Series, step: usize| one.values.get(step).copied().flatten();
        let is_shown = |step: &usize| series().any(|one| value(one, *step).is_some_and(|value| value > 0.0));
        html! {
            details.numbers {
                summary { "Table" span.hidden { ": " (self.title) } }
                div.scroll tabindex="0" role="region" aria-label={(self.title) ", table"} {
                    table {
                        thead { tr { th { "From (UTC)" } @for (_, word) in self.legend { th.number { (word) } } } }
                        tbody {
                            @for step in (0..steps).rev().filter(is_shown) {
                                tr {
                                    td { @match self.address(step) {
                                        Some(address) => a href=(address) { (self.at(step).format(self.clock(steps))) },
                                        None => (self.at(step).format(self.clock(steps))),
                                    } }
                                    @for one in series() {
                                        td.number { (value(one, step).map_or_else(|| "–".to_owned(), |value| self.unit.write(value))) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// When a step begins.
    fn at(&self, step: usize) -> DateTime<Utc> {
        self.from + self.step * i32::try_from(step).unwrap_or(i32::MAX)
    }

    /// The list of what happened in a step.
    fn address(&self, step: usize) -> Option<String> {
        let (path, place) =
            self.list?.split_once('#').map_or((self.list?, ""), |(path, place)| (path, place));
        let bounds = [self.at(step), self.at(step + 1)].map(|at| at.format("%Y-%m-%dT%H:%M:%S").to_string());
        let [since, until] = bounds.each_ref().map(String::as_str);
        let query =
            Serializer::new(String::new()).extend_pairs([("since", since), ("until", until)]).finish();
        let mark = if path.contains('?') { '&' } else { '?' };
        let place = if place.is_empty() { String::new() } else { format!("#{place}") };
        Some(format!("{path}{mark}{query}{place}"))
    }

    /// The format of times, with the day if the chart spans more than half a day.
    fn clock(&self, steps: usize) -> &'static str {
        let whole = self.step * i32::try_from(steps).unwrap_or(i32::MAX);
        if whole > TimeDelta::hours(12) { "%a %H:%M" } else { "%H:%M" }
    }

    /// The largest value of the scale that all have but those apart.
    fn top(&self, steps: usize) -> f64 {
        let value = |series: &Series, step: usize| series.values.get(step).copied().flatten().unwrap_or(0.0);
        let stacked = (0..steps).map(|step| self.bars.iter().map(|series| value(series, step)).sum::<f64>());
        stacked.fold(highest(self.lines.iter().filter(|series| !series.apart)), f64::max)
    }
}

/// The largest value of some series.
fn highest<'s>(series: impl Iterator<Item = &'s Series>) -> f64 {
    series.flat_map(|series| series.values.iter().copied().flatten()).fold(0.0, f64::max)
}

/// A path of bars stacked on those below.
fn stack(values: &[Option<f64>], floor: &mut [f64], width: f64, top: f64) -> String {
    let mut path = String::new();
    for (step, value) in values.iter().enumerate() {
        let (Some(value), Some(below)) = (value, floor.get_mut(step)) else { continue };
        if *value <= 0.0 || top <= 0.0 {
            continue;
        }
        let height = value / top * HEIGHT;
        let y = HEIGHT - *below / top * HEIGHT - height;
        *below += value;
        let (x, bar) = (width * count(step) + width * 0.1, width * 0.8);
        let _ = write!(path, "M{} {}h{}v{}h-{}z", fixed(x), fixed(y), fixed(bar), fixed(height), fixed(bar));
    }
    path
}

/// A path of a line, interrupted where a value is missing.
fn line(values: &[Option<f64>], width: f64, top: f64) -> String {
    let mut path = String::new();
    let mut drawing = false;
    for (step, value) in values.iter().enumerate() {
        let Some(value) = value.filter(|_| top > 0.0) else {
            drawing = false;
            continue;
        };
        let (x, y) = (width * count(step), HEIGHT - value / top * (HEIGHT - 1.0) - 0.5);
        let command = if drawing { 'L' } else { 'M' };
        let _ = write!(path, "{command}{} {}h{}", fixed(x), fixed(y), fixed(width));
        drawing = true;
    }
    path
}

fn fixed(value: f64) -> String {
    format!("{value:.2}")
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_leads_to_the_list_of_its_period() {
        let from = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let chart = |list| Chart {
            title: "",
            summary: "",
            from,
            step: TimeDelta::minutes(5),
            bars: vec![],
            lines: vec![],
            legend: &[],
            unit: Unit::Count,
            list,
        };
        let period = "since=2027-01-15T08%3A05%3A00&until=2027-01-15T08%3A10%3A00";
        assert_eq!(chart(None).address(1), None);
        assert_eq!(chart(Some("/x")).address(1).unwrap(), format!("/x?{period}"));
        assert_eq!(chart(Some("/x?a=b#c")).address(1).unwrap(), format!("/x?a=b&{period}#c"));
    }

    #[test]
    fn failures_have_a_scale_of_their_own() {
        let series = |class, value, apart| Series { class, values: vec![Some(value)], apart };
        let chart = Chart {
            title: "Calls",
            summary: "",
            from: DateTime::UNIX_EPOCH,
            step: TimeDelta::minutes(1),
            bars: vec![series("good", 9_000.0, false)],
            lines: vec![series("bad", 3.0, true)],
            legend: &[("good", "done"), ("bad", "failed")],
            unit: Unit::Count,
            list: None,
        };
        let page = chart.draw().into_string();
        assert!(page.contains(r#"<path class="line bad" d="M0.00 0.50h600.00">"#), "{page}");
        assert!(page.contains(">9,000</span>") && page.contains(">3</span>"), "{page}");
    }

    #[test]
    fn bars_are_stacked_and_lines_break_at_missing_values() {
        let mut floor = vec![0.0; 2];
        assert_eq!(stack(&[Some(1.0), Some(0.0)], &mut floor, 10.0, 2.0), "M1.00 50.00h8.00v50.00h-8.00z");
        assert_eq!(stack(&[Some(1.0), None], &mut floor, 10.0, 2.0), "M1.00 0.00h8.00v50.00h-8.00z");
        assert_eq!(
            line(&[Some(2.0), None, Some(0.0), Some(2.0)], 10.0, 2.0),
            "M0.00 0.50h10.00M20.00 99.50h10.00L30.00 0.50h10.00"
        );
    }
}
