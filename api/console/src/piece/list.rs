//! Lists: their search forms, orders and pages.

use std::fmt::Display;

use longshore_kernel::figure::number;
use longshore_kernel::problem::Problem;
use maud::{Markup, html};

use super::{plain, sentence};
use crate::form::{Asked, OF_PAGE, Refused, full};

/// Where the next page of a list leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Older,
    Newer,
    /// In an order that is not that of time.
    Further,
}

/// The word of the order of a list by time that is not the usual one.
pub(crate) const OLDEST: &str = "oldest";
/// The orders of a list by time.
pub(crate) const ORDERS: [(&str, &str); 2] = [("", "newest first"), (OLDEST, "oldest first")];

/// Whether a list by time begins with the oldest record.
pub(crate) fn is_oldest_first(asked: &Asked) -> Result<bool, Problem> {
    Ok(asked.among("sort", |word| (word == OLDEST).then_some(()))?.is_some())
}

impl Way {
    /// The way of a list by time.
    pub(crate) fn of(asked: &Asked) -> Self {
        if asked.get("sort") == Some(OLDEST) { Self::Newer } else { Self::Older }
    }
}

/// The links below a page of a list of the newest records.
pub(crate) fn pager(shown: usize, first: Option<&str>, next: Option<&str>, cut_short: Option<i64>) -> Markup {
    pager_to(Way::Older, shown, first, next, cut_short)
}

/// The links below a page of a list.
pub(crate) fn pager_to(
    way: Way,
    shown: impl Display,
    first: Option<&str>,
    next: Option<&str>,
    cut_short: Option<i64>,
) -> Markup {
    let (begin, edge, further) = match way {
        Way::Older => ("Newest", "newest", "Older"),
        Way::Newer => ("Oldest", "oldest", "Newer"),
        Way::Further => ("First", "first", "Next"),
    };
    html! {
        nav.pager aria-label="Pages of the list" {
            span.muted {
                "On this page: " (shown) "."
                @if let Some(window) = cut_short {
                    " Searched the " (edge) " " (number(window)) " records."
                }
            }
            @if let Some(first) = first { a.button href=(first) { (begin) } }
            @if let Some(next) = next {
                a.button href=(next) rel="next" {
                    @if cut_short.is_some() { "Search " (further.to_lowercase()) } @else { (further) }
                }
            }
        }
    }
}

/// The numbers of rows that a page of a list may have, besides the usual one.
const SIZES: [(&str, &str); 4] = [("", "50"), ("25", "25"), ("100", "100"), ("200", "200")];

/// The most of them.
pub(crate) const LONGEST: usize = 200;

/// How many rows a page is to have.
pub(crate) fn size(asked: &Asked) -> Result<Option<usize>, Problem> {
    let known = |word: &str| SIZES.iter().find(|(known, _)| *known == word)?.0.parse().ok();
    asked.among("size", known)
}

/// The choice of that.
pub(crate) fn rows(asked: &Asked, refused: &Refused) -> Markup {
    options(asked, refused, "size", "Rows", SIZES)
}

/// The values of a field with how many records have each, as links to the list: the rest of the search is kept, except what
/// belongs to one page of it.
pub(crate) fn tabs(
    asked: &Asked,
    path: &str,
    of_page: &[&str],
    field: &str,
    label: &str,
    all: &str,
    values: &[(&str, String)],
) -> Markup {
    let without: Vec<&str> = of_page.iter().copied().chain([field]).collect();
    let chosen = asked.get(field);
    html! {
        nav.switch aria-label=(label) {
            a href=(asked.address(path, &without, &[])) aria-current=[chosen.is_none().then_some("true")] { "all " (all) }
            @for (value, count) in values {
                a href=(asked.address(path, &without, &[(field, *value)])) aria-current=[(chosen == Some(*value)).then_some("true")] {
                    (plain(value)) " " (count)
                }
            }
        }
    }
}

/// The head of a column that sorts a list: the orders by it, each with its word in an address and whether it ascends. A click leads
/// to the next of them.
pub(crate) fn sorting(asked: &Asked, path: &str, label: &str, orders: &[(&str, bool)]) -> Markup {
    let chosen = asked.get("sort").unwrap_or_default();
    let place = orders.iter().position(|(word, _)| *word == chosen);
    let next = place.map_or(0, |place| (place + 1) % orders.len());
    let word = orders.get(next).map_or("", |(word, _)| *word);
    let without: Vec<&str> = OF_PAGE.into_iter().chain(["sort"]).collect();
    let with = [("sort", word)];
    let address = asked.address(path, &without, if word.is_empty() { &[] } else { &with });
    let is_ascending = place.and_then(|place| orders.get(place)).map(|(_, is_ascending)| *is_ascending);
    let sort = is_ascending.map(|is_ascending| if is_ascending { "ascending" } else { "descending" });
    html! { th aria-sort=[sort] { a.sort href=(address) { (label) } } }
}

/// What is asked in these fields, hidden in another form.
pub(crate) fn kept(asked: &Asked, names: &[&str]) -> Markup {
    html! { @for name in names { @if let Some(value) = asked.get(name) { input type="hidden" name=(name) value=(value); } } }
}

/// The check box of a row of a list.
pub(crate) fn select(name: &str, id: impl Display, what: &str) -> Markup {
    html! { input.select type="checkbox" name=(name) value=(id) aria-label={"Select " (what) " " (id)}; " " }
}

/// The check box of a row that cannot be chosen, so that all rows begin alike.
pub(crate) fn unselectable(why: &str) -> Markup {
    html! { input.select type="checkbox" disabled title=(why) aria-label=(why); " " }
}

/// A field of a search form with what was asked, and with what is wrong with that.
pub(crate) fn checked(asked: &Asked, refused: &Refused, name: &str, label: &str, kind: &str) -> Markup {
    // by default browsers offer minutes, but a minute may contain tens of thousands of deliveries
    let step = (kind == "datetime-local").then_some("1");
    let wrong = refused.message(name);
    html! {
        label { (label)
            input type=(kind) name=(name) value=[asked.get(name)] step=[step] autocomplete="off" spellcheck="false"
                aria-invalid=[wrong.map(|_| "true")] aria-describedby=[wrong.map(|_| format!("wrong-{name}"))];
            @if let Some(wrong) = wrong { span.wrong id={"wrong-" (name)} { (full(wrong)) } }
        }
    }
}

/// A field for a name, with the names that it may be, among others.
pub(crate) fn suggested(
    asked: &Asked,
    refused: &Refused,
    name: &str,
    label: &str,
    names: &[String],
) -> Markup {
    let wrong = refused.message(name);
    html! {
        label { (label)
            // without autocomplete="off", with which some browsers suggest nothing
            input type="text" name=(name) value=[asked.get(name)] list={"names-" (name)} spellcheck="false"
                aria-invalid=[wrong.map(|_| "true")] aria-describedby=[wrong.map(|_| format!("wrong-{name}"))];
            @if let Some(wrong) = wrong { span.wrong id={"wrong-" (name)} { (sentence(wrong)) "." } }
        }
        datalist id={"names-" (name)} { @for name in names { option value=(name); } }
    }
}

/// A field of a form for a few words, at most so many characters.
pub(crate) fn worded(asked: &Asked, refused: &Refused, name: &str, label: &str, characters: usize) -> Markup {
    let wrong = refused.message(name);
    html! {
        label { (label)
            input type="text" name=(name) value=[asked.get(name)] maxlength=(characters) autocomplete="off"
                aria-invalid=[wrong.map(|_| "true")] aria-describedby=[wrong.map(|_| format!("wrong-{name}"))];
            @if let Some(wrong) = wrong { span.wrong id={"wrong-" (name)} { (sentence(wrong)) "." } }
        }
    }
}

/// Why a form was refused, except what its fields say themselves.
pub(crate) fn alert(refused: &Refused, names: &[&str]) -> Markup {
    let others = refused.others(names);
    html! { @if !others.is_empty() { div.error role="alert" { @for other in &others { p { (other) } } } } }
}

/// A check box of a form.
pub(crate) fn switch(asked: &Asked, name: &str, label: &str) -> Markup {
    html! {
        label.switch-box { input type="checkbox" name=(name) value="true" checked[asked.get(name) == Some("true")]; (label) }
    }
}

/// A drop-down list of a form with what was asked, and with what is wrong with that.
pub(crate) fn options<'w>(
    asked: &Asked,
    refused: &Refused,
    name: &str,
    label: &str,
    words: impl IntoIterator<Item = (&'w str, &'w str)>,
) -> Markup {
    let wrong = refused.message(name);
    html! {
        label { (label)
            select name=(name) aria-invalid=[wrong.map(|_| "true")] aria-describedby=[wrong.map(|_| format!("wrong-{name}"))] {
                @for (word, text) in words { option value=(word) selected[asked.get(name).unwrap_or_default() == word] { (text) } }
            }
            @if let Some(wrong) = wrong { span.wrong id={"wrong-" (name)} { (sentence(wrong)) "." } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_column_leads_to_its_next_order() {
        let orders = [("", false), ("oldest", true)];
        let head = |sort: &str| {
            let asked = Asked::of(vec![
                ("state", "failed".to_owned()),
                ("after", "7".to_owned()),
                ("sort", sort.to_owned()),
            ]);
            sorting(&asked, "/list", "Made", &orders).into_string()
        };
        let link =
            |query: &str| format!("<a class=\"sort\" href=\"/list?state=failed{query}\">Made</a></th>");
        assert_eq!(head(""), format!("<th aria-sort=\"descending\">{}", link("&amp;sort=oldest")));
        assert_eq!(head("oldest"), format!("<th aria-sort=\"ascending\">{}", link("")));
        assert_eq!(head("name"), format!("<th>{}", link("")));
    }
}
