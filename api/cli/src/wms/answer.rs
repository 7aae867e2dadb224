//! What a WMS answered.

use longshore_client::StatusCode;
use serde_json::Value;

/// The longest answer that is read, in bytes.
pub(super) const LONGEST: usize = 64 * 1024;

/// What a check found instead of an answer that keeps the rules.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The WMS breaks a rule; the sentence says how.
    Broken(String),
    /// No connection; the sentence says why.
    Unreachable(String),
    /// The WMS leaves the rule open; the sentence says why.
    Unchecked(&'static str),
}

/// Characters of an id that a WMS gives to a hand-over.
const ID: usize = 255;

/// An answer to a call.
#[derive(Debug)]
pub(super) struct Answer {
    /// The call, as in "the PUT of number 1".
    pub(super) call: String,
    /// Its status.
    pub(super) status: StatusCode,
    /// Its JSON, or null.
    pub(super) body: Value,
}

impl Answer {
    /// Reads an answer, as far as it is the same for each rule.
    pub(super) fn of(
        call: String,
        status: StatusCode,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<Self, Trouble> {
        let broken =
            |what: String| Err(Trouble::Broken(format!("{call} was answered {}, {what}", status.as_u16())));
        if status.is_redirection() {
            return broken("and Longshore follows no redirect".to_owned());
        }
        if bytes.len() > LONGEST {
            return broken(format!("with more than {LONGEST} bytes"));
        }
        let is_json = media_type.split(';').next().is_some_and(|name| name.trim().ends_with("json"));
        let mut body = Value::Null;
        // the service reads JSON whatever the answer says that it is
        if !bytes.is_empty() {
            match serde_json::from_slice(bytes) {
                Ok(read) => body = read,
                Err(_) if !is_json => {}
                Err(error) => return broken(format!("and it is not the JSON that it says: {error}")),
            }
        }
        let answer = Self { call, status, body };
        match &answer.body["wmsInternalId"] {
            Value::Null => Ok(answer),
            Value::String(id) if (1..=ID).contains(&id.chars().count()) => Ok(answer),
            other => {
                let what = format!(
                    "{} was answered with wmsInternalId {other}; it must be text of 1 to {ID} characters",
                    answer.call
                );
                Err(Trouble::Broken(what))
            }
        }
    }

    /// The id of the hand-over, if there is one.
    pub(super) fn id(&self) -> Option<&str> {
        self.body["wmsInternalId"].as_str()
    }

    /// An error that says how the answer was, and why it should have been another.
    pub(super) fn broken(&self, why: &str) -> Trouble {
        Trouble::Broken(format!("{} was answered {}; {why}", self.call, self.status.as_u16()))
    }

    /// The answer, if its status is one of these.
    pub(super) fn one_of(self, statuses: &[u16], why: &str) -> Result<Self, Trouble> {
        if statuses.contains(&self.status.as_u16()) { Ok(self) } else { Err(self.broken(why)) }
    }

    /// The answer, if a hand-over was taken by it for the first time.
    pub(super) fn taken(self) -> Result<Self, Trouble> {
        let is_known = self.status == StatusCode::CONFLICT;
        self.one_of(
            &[200, 201, 202, 204],
            if is_known {
                "409 says that it has this number, which it never got"
            } else {
                "an order that is taken is 200, 201, 202 or 204"
            },
        )
    }

    /// The answer, if a hand-over is there after it.
    pub(super) fn has(self) -> Result<Self, Trouble> {
        self.one_of(&[200, 201, 202, 204, 409], "a number that it has is 200, 201, 202, 204 or 409")
    }

    /// The answer, if it refuses a number that is out of date.
    pub(super) fn out_of_date(self, why: &str) -> Result<Self, Trouble> {
        self.one_of(&[410], &format!("it must be 410: {why}"))
    }

    /// The answer, if an order is surely not there after it.
    pub(super) fn given_back(self) -> Result<Self, Trouble> {
        self.one_of(&[200, 204, 404, 410], "an order that is not there any more is 200, 204, 404 or 410")
    }

    /// The answer, if the caller was not believed.
    pub(super) fn mistrusted(self, why: &str) -> Result<Self, Trouble> {
        self.one_of(&[400, 401, 403], &format!("it must be 401: {why}"))
    }
}
