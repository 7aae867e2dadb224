//! What is done with several records of a list at once: with those that were selected, or with all that match its search.

use longshore_domain::job::chosen::{Bulk, Chosen, DRY_RUN, Wanted};
use longshore_domain::list::matching::Matching;
use longshore_domain::list::resource::Resource;
use longshore_kernel::problem::Problem;
use maud::{Markup, html};
use serde_json::Value;
use uuid::Uuid;

use super::form::Asked;
use super::piece::LONGEST;
use super::visit::Visit;

/// The ids of those that were selected, at most a page of them.
pub(super) fn selected<I: From<Uuid>>(asked: &Asked, records: &str) -> Result<Vec<I>, Problem> {
    let ids = asked.ids("id")?;
    if (1..=LONGEST).contains(&ids.len()) {
        return Ok(ids);
    }
    Err(Problem::violation("", "invalid_count", format!("select 1 to {LONGEST} {records}")))
}

/// All that match, of which as many are expected as the question said.
pub(super) fn matching(
    resource: &'static Resource,
    criteria: Value,
    asked: &Asked,
) -> Result<Chosen, Problem> {
    let expect: Option<i64> = asked.among("expect", |text| text.parse().ok())?;
    // a form without it was not asked for
    let expect = Some(expect.unwrap_or_default());
    Ok(Chosen::Matching(Wanted { matching: Matching::of(resource, criteria)?, expect }))
}

/// How many they are, and the fields with which a form names them.
pub(super) async fn counted<P>(visit: &Visit<P>, chosen: &Chosen) -> Result<(i64, Markup), Problem> {
    Ok(match chosen {
        Chosen::Ids(ids) => {
            let fields = html! { @for id in ids { input type="hidden" name="id" value=(id); } };
            (i64::try_from(ids.len()).unwrap_or(i64::MAX), fields)
        }
        Chosen::Matching(wanted) => {
            let count = wanted.matching.count(visit.services(), visit.scope()).await?;
            let fields = html! { input type="hidden" name="all" value="true"; input type="hidden" name="expect" value=(count); };
            (count, fields)
        }
    })
}

/// The button of a form that only tries: the first one, so that Enter does no more.
pub(super) fn try_first() -> Markup {
    html! { div.buttons { button type="submit" name=(DRY_RUN) value="true" { "Find out first what it would do" } } }
}

/// What is done with records, or only tried, if it was sent by that button.
pub(super) fn asked(form: &Asked, chosen: Chosen) -> Bulk {
    Bulk { chosen, is_dry_run: form.get(DRY_RUN).is_some() }
}

/// What narrows a search, of these fields; without any, it includes `everything`.
pub(super) fn filters(asked: &Asked, names: &[&str], everything: &str) -> Markup {
    let narrowed: Vec<_> = names.iter().filter_map(|name| Some((name, asked.get(name)?))).collect();
    html! {
        @if narrowed.is_empty() { p { strong { "There are no filters: this includes " (everything) "." } } }
        @else { ul { @for (name, value) in &narrowed { li { (name) ": " strong { (value) } } } } }
    }
}
