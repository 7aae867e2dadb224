//! Lists of records, and their pages.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// Records on a page, where the query has no limit.
const PAGE: u32 = 1_000;

/// What a list shows: every member is optional.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ListQuery {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    criteria: BTreeMap<String, BTreeMap<String, Value>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sort: Vec<Sort>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    select: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    #[serde(skip_serializing_if = "is_zero")]
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<Count>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    nested: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Sort {
    field: String,
    order: Order,
}

/// A direction of a sort. Nulls come last in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Order {
    /// The smallest, earliest or alphabetically first one first.
    #[serde(rename = "ASC")]
    Ascending,
    /// The largest, latest or alphabetically last one first.
    #[serde(rename = "DESC")]
    Descending,
}

/// How the matches of a list are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Count {
    /// All of them.
    Exact,
    /// Up to 10,000.
    Bounded,
    /// Not at all.
    None,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl ListQuery {
    /// All records that the caller may see, in the default order.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition: only records whose `field` (or dotted path, as in `organisation.name`) matches. The
    /// operators are `eq`, `neq`, `in`, `nin`, `like`, `notLike`, `gt`, `gte`, `lt`, `lte`, `flag` and `null`,
    /// each for the types of fields that have it.
    #[must_use]
    pub fn filter(mut self, field: &str, operator: &str, value: impl Serialize) -> Self {
        // what cannot be written as JSON becomes null, which the service refuses with the field's name
        let value = serde_json::to_value(value).unwrap_or_default();
        self.criteria.entry(field.to_owned()).or_default().insert(operator.to_owned(), value);
        self
    }

    /// Adds a condition, if there is a value: only records whose `field` equals it.
    #[must_use]
    pub fn equal(self, field: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.filter(field, "eq", value),
            None => self,
        }
    }

    /// Adds a condition, unless there is no word: only records whose `field` is one of them.
    #[must_use]
    pub fn among(self, field: &str, words: &[String]) -> Self {
        if words.is_empty() { self } else { self.filter(field, "in", words) }
    }

    /// Adds a field to the order, after those before.
    #[must_use]
    pub fn sort(mut self, field: impl Into<String>, order: Order) -> Self {
        self.sort.push(Sort { field: field.into(), order });
        self
    }

    /// Returns only these top-level fields.
    #[must_use]
    pub fn select<S: Into<String>>(mut self, fields: impl IntoIterator<Item = S>) -> Self {
        self.select = fields.into_iter().map(Into::into).collect();
        self
    }

    /// The largest number of records, 0 to 10,000. A list without a limit returns all of them in one answer.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The number of matches to skip.
    #[must_use]
    pub fn offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Begins behind the page with this [`Paging::next`], of the same sort and criteria.
    #[must_use]
    pub fn after(mut self, cursor: impl Into<String>) -> Self {
        self.after = Some(cursor.into());
        self
    }

    /// How [`Paging::total`] is counted; exactly without it.
    #[must_use]
    pub fn count(mut self, count: Count) -> Self {
        self.count = Some(count);
        self
    }

    /// Expands related records, one level deep, instead of their ids.
    #[must_use]
    pub fn nested(mut self) -> Self {
        self.nested = true;
        self
    }
}

/// A page of a list.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// The records.
    pub results: Vec<T>,
    /// Where the page is in the list.
    pub paging: Paging,
}

/// Where a page is in its list, in records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Paging {
    /// The number of records on the page.
    pub returned: u64,
    /// The number of matches before the page; behind a cursor, of the records on the pages before.
    pub from: u64,
    /// `from` plus `returned`.
    pub to: u64,
    /// All matches; `None` if they were not counted.
    pub total: Option<u64>,
    /// Whether there are more matches than `total`.
    #[serde(default)]
    pub total_at_least: bool,
    /// The cursor of the next page; `None` on the last one.
    pub next: Option<String>,
}

/// The pages of a list, one after the other; made by [`Client::pages`].
///
/// Each begins behind the last record of the one before: what is created or deleted meanwhile moves no other record to another page.
/// A record whose sorted field changes does move: sort by one that does not, such as `createdAt`.
#[derive(Debug)]
pub struct Pages<T> {
    client: Client,
    path: String,
    query: ListQuery,
    ended: bool,
    records: std::marker::PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Pages<T> {
    /// The next page; `None` after the last one. After an error it can be called again, for the same page.
    ///
    /// # Errors
    /// As [`Call::send`].
    pub async fn next(&mut self) -> Result<Option<Page<T>>, Error> {
        if self.ended {
            return Ok(None);
        }
        let page: Page<T> = self.client.list(self.path.clone(), &self.query).send().await?;
        self.query.offset = 0;
        self.query.after.clone_from(&page.paging.next);
        self.ended = page.paging.next.is_none();
        Ok((!page.results.is_empty()).then_some(page))
    }

    /// The records of all pages that are left.
    ///
    /// # Errors
    /// As [`Call::send`].
    pub async fn all(mut self) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        while let Some(page) = self.next().await? {
            all.extend(page.results);
        }
        Ok(all)
    }
}

impl Client {
    /// One page of a list, by its path, as in `/api/product/list`.
    pub fn list<T>(&self, path: impl Into<String>, query: &ListQuery) -> Call<Page<T>> {
        self.post(path).json(query).without_idempotency_key()
    }

    /// The pages of a list, by its path. The limit of the query is the size of a page, 1,000 without it. Matches
    /// are counted only if the query says how.
    #[must_use]
    pub fn pages<T>(&self, path: impl Into<String>, mut query: ListQuery) -> Pages<T> {
        query.limit.get_or_insert(PAGE);
        query.count.get_or_insert(Count::None);
        Pages {
            client: self.clone(),
            path: path.into(),
            query,
            ended: false,
            records: std::marker::PhantomData,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_has_only_the_members_that_were_set() {
        let written = |query: &ListQuery| serde_json::to_value(query).unwrap();
        assert_eq!(written(&ListQuery::new()), json!({}));
        let query = ListQuery::new()
            .filter("state", "in", ["queued", "running"])
            .filter("createdAt", "gte", "2027-01-01T00:00:00Z")
            .filter("createdAt", "lt", "2027-02-01T00:00:00Z")
            .sort("createdAt", Order::Descending)
            .select(["id"])
            .limit(10)
            .offset(20)
            .after("1abc")
            .count(Count::Bounded)
            .nested();
        assert_eq!(
            written(&query),
            json!({
                "criteria": {
                    "state": {"in": ["queued", "running"]},
                    "createdAt": {"gte": "2027-01-01T00:00:00Z", "lt": "2027-02-01T00:00:00Z"},
                },
                "sort": [{"field": "createdAt", "order": "DESC"}],
                "select": ["id"], "limit": 10, "offset": 20, "after": "1abc", "count": "bounded", "nested": true,
            })
        );
    }
}
