//! The parameters of a request: the query of its URL, or the fields of a form.

use axum::extract::{FromRequest, FromRequestParts, Request};
use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use http::request::Parts;
use longshore_http::extract::Failure;
use longshore_http::extract::body::{must_be, read};
use longshore_kernel::crypto::sha256;
use longshore_kernel::ids::parse_id;
use longshore_kernel::precondition::NOTHING;
use longshore_kernel::problem::{Kind, PRECONDITION_FAILED, Problem, Violation};
use serde_json::Value;
use url::form_urlencoded;
use uuid::Uuid;

/// Maximum bytes of a form: many times a page of ids.
pub(super) const LIMIT: usize = 64 * 1024;
/// Maximum characters of a search field.
pub(super) const CHARACTERS: usize = 200;

/// Query parameters that report an action on the page after it.
pub(super) const OF_ACTION: [&str; 3] = ["done", "count", "left"];
/// Query parameters that belong to one page of a list, and not to the search.
pub(super) const OF_PAGE: [&str; 4] = ["after", "done", "count", "left"];

/// Named values in their order. An empty value counts as missing, because browsers send empty fields that
/// way.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(pub(super) Vec<(String, String)>);

/// The beginning of a day and that of the next.
pub(super) type Day = (DateTime<Utc>, DateTime<Utc>);

/// The fields of a submitted form.
#[derive(Debug)]
pub(super) struct Form(pub(super) Asked);

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default().as_bytes()))
    }
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        must_be(request.headers(), &["application/x-www-form-urlencoded"])?;
        Ok(Self(Asked::parse(&read(request, LIMIT).await?)))
    }
}

impl Asked {
    /// The fields of a form that shows something stored.
    pub(super) fn of(fields: Vec<(&str, String)>) -> Self {
        Self(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).into_owned().collect())
    }

    /// The first value with this name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values with this name.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(n, _)| n == name)
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    }

    /// A text of limited length.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        if text.chars().count() > CHARACTERS || text.contains('\0') {
            let message = format!("must have at most {CHARACTERS} characters and must not contain U+0000");
            return Err(Problem::violation(name, "invalid_length", message));
        }
        Ok(Some(text.to_owned()))
    }

    /// A value of a closed list.
    pub(super) fn among<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        self.typed(name, "is not one of the options", read)
    }

    /// An id of the kind that is asked for.
    pub(super) fn id<I: From<Uuid>>(&self, name: &str) -> Result<Option<I>, Problem> {
        self.typed(name, "must be a UUID", |text| parse_id(text).map(I::from))
    }

    /// All ids with this name.
    pub(super) fn ids<I: From<Uuid>>(&self, name: &str) -> Result<Vec<I>, Problem> {
        self.all(name)
            .enumerate()
            .map(|(place, text)| {
                parse_id(text).map(I::from).ok_or_else(|| {
                    Problem::violation(format!("{name}[{place}]"), "invalid_id", "must be a UUID")
                })
            })
            .collect()
    }

    /// A day as browsers write it: its beginning and its end, in UTC.
    pub(super) fn day(&self, name: &str) -> Result<Option<Day>, Problem> {
        self.typed(name, "must be a date, such as 2026-03-01", |text| {
            let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
            let start = |day: NaiveDate| Some(day.and_hms_opt(0, 0, 0)?.and_utc());
            Some((start(day)?, start(day.succ_opt()?)?))
        })
    }

    /// A moment as browsers write it, in UTC.
    pub(super) fn moment(&self, name: &str) -> Result<Option<DateTime<Utc>>, Problem> {
        self.typed(name, "must be a date and a time, such as 2026-03-01T14:30:05", |text| {
            let read = |format| NaiveDateTime::parse_from_str(text, format).ok();
            read("%Y-%m-%dT%H:%M").or_else(|| read("%Y-%m-%dT%H:%M:%S")).map(|at| at.and_utc())
        })
    }

    /// The version of the record that a form was made of.
    pub(super) fn version(&self) -> Option<i64> {
        self.get(VERSION)?.parse().ok()
    }

    /// The fields of a form that was made of `stored`, on its present version; and which fields are stored otherwise.
    fn rebased(&self, stored: &Self) -> (Self, Vec<(String, String)>) {
        let mut typed = self.clone();
        typed.0.retain(|(name, _)| name != VERSION);
        typed.0.extend(stored.0.iter().filter(|(name, _)| name == VERSION).cloned());
        let values =
            |fields: &Self, name: &str| fields.all(name).map(str::trim).collect::<Vec<_>>().join(", ");
        let mut others: Vec<(String, String)> =
            stored.0.iter().map(|(name, _)| (name.clone(), values(stored, name))).collect();
        others.dedup();
        // a switch that is off is not sent
        let is_same = |name: &str, value: &str| {
            values(self, name) == value || (value == "false" && self.get(name).is_none())
        };
        others.retain(|(name, value)| name != VERSION && !is_same(name, value));
        (typed, others)
    }

    fn typed<T>(
        &self,
        name: &str,
        message: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let refused = || Problem::invalid(vec![Violation::new(name, "invalid_value", message)]);
        read(text).map(Some).ok_or_else(refused)
    }

    /// A URL with these fields, without the named ones, and with others added.
    pub(super) fn address(&self, path: &str, without: &[&str], with: &[(&str, &str)]) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in
            self.0.iter().filter(|(name, value)| !value.is_empty() && !without.contains(&name.as_str()))
        {
            query.append_pair(name, value);
        }
        query.extend_pairs(with);
        let query = query.finish();
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    }
}

/// Refuses to store over another version than the one that a form was made of.
pub(super) fn unchanged(
    version: Option<i64>,
    otherwise: &'static str,
) -> impl Fn(i64) -> Result<(), Problem> {
    move |found| {
        if version.unwrap_or(NOTHING) == found {
            Ok(())
        } else {
            Err(Problem::new(&PRECONDITION_FAILED, otherwise))
        }
    }
}

/// Why a search or a form is refused: it is shown again, with this.
#[derive(Clone, Debug, Default)]
pub(super) struct Refused {
    /// What is wrong with the fields.
    violations: Vec<Violation>,
    /// What else there is to say, in sentences.
    said: Vec<String>,
    /// The kind of the problem; none of a search.
    kind: Option<&'static Kind>,
}

impl Refused {
    /// The search that was read, or a default one that finds nothing and what is wrong with the fields. Other problems remain.
    pub(super) fn of<T: Default>(read: Result<T, Problem>) -> Result<(T, Self), Problem> {
        match read {
            Ok(wanted) => Ok((wanted, Self::default())),
            Err(problem) => Ok((T::default(), Self::fields(problem)?)),
        }
    }

    /// What is wrong with the fields of a search. Other problems remain.
    pub(super) fn fields(problem: Problem) -> Result<Self, Problem> {
        if problem.violations().is_empty() {
            return Err(problem);
        }
        Ok(Self { violations: problem.violations().to_vec(), ..Self::default() })
    }

    /// Why a form was refused: what is wrong with its fields, or what the problem says. The log has the cause of a failure under the
    /// id of the request.
    pub(super) fn form(problem: &Problem, request_id: &str) -> Self {
        let mut said = Vec::new();
        if problem.violations().is_empty() {
            said.push(format!("{}.", sentence(&problem.said())));
        }
        if problem.kind().status >= 500 {
            said.push(format!("Request {request_id}."));
        }
        Self { violations: problem.violations().to_vec(), said, kind: Some(problem.kind()) }
    }

    /// The same with one more sentence.
    pub(super) fn and(mut self, sentence: &str) -> Self {
        self.said.push(sentence.to_owned());
        self
    }

    /// Whether a form was refused for a problem of that kind.
    pub(super) fn is(&self, kind: &'static Kind) -> bool {
        self.kind == Some(kind)
    }

    /// What is shown in a form that was refused: what was typed. If another one has stored something since the form was opened, it goes
    /// on from there, and says what is stored.
    pub(super) fn typed(&mut self, typed: &Asked, stored: &Asked) -> Asked {
        if !self.is(&PRECONDITION_FAILED) {
            return typed.clone();
        }
        let (typed, others) = typed.rebased(stored);
        self.said.extend(others.into_iter().map(|(name, value)| match value.as_str() {
            "" => format!("Stored now: {name} is empty."),
            value => format!("Stored now: {name} is {value}."),
        }));
        typed
    }

    /// What is wrong with what has no field.
    pub(super) fn others(&self, names: &[&str]) -> Vec<String> {
        let is_of = |violation: &&Violation| names.iter().any(|name| is_of(&violation.property_path, name));
        let others = self.violations.iter().filter(|violation| !is_of(violation));
        let others = others.map(|violation| full(&violation.to_string()));
        self.said.iter().cloned().chain(others).collect()
    }

    /// Whether all is right.
    pub(super) fn is_empty(&self) -> bool {
        self.violations.is_empty() && self.kind.is_none()
    }

    /// What is wrong with a field.
    pub(super) fn message(&self, name: &str) -> Option<&str> {
        self.violations
            .iter()
            .find(|violation| is_of(&violation.property_path, name))
            .map(|violation| violation.message.as_ref())
    }
}

/// Whether a path is that of a field, or within the list that the field has.
fn is_of(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
}

/// A form that was refused, for the page that shows it again.
#[derive(Clone, Debug)]
pub(super) struct Again {
    pub(super) typed: Asked,
    pub(super) refused: Refused,
}

/// A text with a capital first letter.
pub(super) fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// A whole sentence; one that ends as a question has its end.
pub(super) fn full(text: &str) -> String {
    let end = if text.ends_with('?') { "" } else { "." };
    format!("{}{end}", sentence(text))
}

/// The field of the version of the record that a form was made of.
pub(super) const VERSION: &str = "version";
/// The field of the form token.
pub(super) const FORM_TOKEN: &str = "form_token";

/// The token of the forms of a session.
pub(super) fn form_token(token: &str) -> String {
    let hash = sha256(format!("longshore console form {token}").as_bytes());
    hash.iter().fold(String::with_capacity(64), |text, byte| format!("{text}{byte:02x}"))
}

/// Compares two form tokens without revealing anything by the time it takes.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    sha256(one.as_bytes()) == sha256(other.as_bytes())
}

/// A whole number of a field as the API takes it. What is none is refused by the rule of the API, at its path.
pub(crate) fn integer(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from)
}

#[cfg(test)]
mod tests {
    use longshore_kernel::problem::CONFLICT;

    use super::*;

    #[test]
    fn fields_are_read_by_type_and_invalid_ones_are_named() {
        let asked = Asked::parse(b"a=1&b=&c=x%20y&at=2026-03-01T14:30&id=no&c=z");
        assert_eq!((asked.get("a"), asked.get("b"), asked.get("c")), (Some("1"), None, Some("x y")));
        assert_eq!(asked.all("c").collect::<Vec<_>>(), ["x y", "z"]);
        assert_eq!(asked.moment("at").unwrap().unwrap().to_rfc3339(), "2026-03-01T14:30:00+00:00");
        let asked_to_the_second = Asked::parse(b"at=2026-03-01T14:30:05");
        assert_eq!(
            asked_to_the_second.moment("at").unwrap().unwrap().to_rfc3339(),
            "2026-03-01T14:30:05+00:00"
        );
        assert_eq!(asked.id::<Uuid>("id").unwrap_err().violations()[0].property_path, "id");
        assert!(asked.id::<Uuid>("absent").unwrap().is_none());
    }

    #[test]
    fn what_is_wrong_within_a_list_marks_its_field() {
        let wrong = Violation::new("conditions.countries[1]", "invalid_value", "must be a country");
        let refused = Refused { violations: vec![wrong], ..Refused::default() };
        assert_eq!(refused.message("conditions.countries"), Some("must be a country"));
        assert_eq!(refused.message("conditions.country"), None);
        assert!(refused.others(&["conditions.countries"]).is_empty());
        assert_eq!(refused.others(&["conditions"]), ["Conditions.countries[1] must be a country."]);
    }

    #[test]
    fn a_form_that_another_one_overtook_goes_on_from_what_is_stored() {
        let stored =
            Asked::parse(b"version=8&destination=https://a.example&maxInFlight=8&ordered=false&event=*");
        let typed = Asked::parse(b"version=7&destination=https://b.example&maxInFlight=8&event=");
        let problem = Problem::new(&PRECONDITION_FAILED, "the webhook was changed");
        let mut refused = Refused::form(&problem, "7");
        let shown = refused.typed(&typed, &stored);
        assert_eq!((shown.version(), shown.get("destination")), (Some(8), Some("https://b.example")));
        assert_eq!(
            refused.others(&[]),
            [
                "The webhook was changed.",
                "Stored now: destination is https://a.example.",
                "Stored now: event is *."
            ]
        );
        // of another problem, what was typed is all there is
        let mut refused = Refused::form(&Problem::new(&CONFLICT, "it is in use"), "7");
        assert_eq!(refused.typed(&typed, &stored).version(), Some(7));
        assert_eq!(refused.others(&[]), ["It is in use."]);
    }

    #[test]
    fn a_url_keeps_the_parameters_of_the_request() {
        let asked = Asked::parse(b"state=failed&after=5&error=a%26b&kind=");
        assert_eq!(asked.address("/x", &["after"], &[("after", "9")]), "/x?state=failed&error=a%26b&after=9");
        assert_eq!(Asked::default().address("/x", &[], &[]), "/x");
    }
}
