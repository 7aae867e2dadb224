//! Objects: their members, each by its rule, and what is said of unknown ones.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::{Member, Reader, Rule, Schema, Step};

/// An object that is being read, member by member.
#[derive(Debug)]
pub struct Object<'r> {
    reader: &'r mut Reader,
    members: Map<String, Value>,
    /// Names that were asked for.
    known: Vec<&'static str>,
    holds_secrets: bool,
    empty_is_null: bool,
    /// What it was asked for, where it is asked for its schema.
    noted: Option<Vec<Member>>,
}

/// What became of an optional member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Given<T> {
    /// Not there, or there and refused.
    #[default]
    Absent,
    /// There, and null.
    Null,
    /// There, with a value.
    Value(T),
}

impl<T> Given<T> {
    /// Whether it was given, null included.
    #[must_use]
    pub fn is_given(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// The value, if there is one.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            _ => None,
        }
    }

    /// What a nullable field becomes: the given value, cleared on null, else as it was.
    pub fn or_keep(self, current: Option<T>) -> Option<T> {
        match self {
            Self::Absent => current,
            Self::Null => None,
            Self::Value(value) => Some(value),
        }
    }
}

impl<'r> Object<'r> {
    /// An object before anything was read.
    pub(super) fn new(reader: &'r mut Reader, members: Map<String, Value>) -> Self {
        Self { reader, members, known: Vec::new(), holds_secrets: false, empty_is_null: false, noted: None }
    }
}

impl Object<'_> {
    /// The schema of the objects that `read` reads.
    pub fn schema<T>(read: impl FnOnce(&mut Object<'_>) -> T) -> Schema {
        let mut reader = Reader::default();
        let mut object = Object { noted: Some(Vec::new()), ..Object::new(&mut reader, Map::new()) };
        read(&mut object);
        Schema::Object(object.noted.unwrap_or_default())
    }

    /// A member that must be there.
    pub fn required<R: Rule>(&mut self, name: &'static str, rule: R) -> Option<R::Out> {
        self.required_if(true, name, rule)
    }

    /// A member that must be there in some bodies, and may be absent in others, but not null.
    pub fn required_if<R: Rule>(&mut self, is_required: bool, name: &'static str, rule: R) -> Option<R::Out> {
        self.note(|| Member { name, schema: rule.schema(), is_required, default: None });
        match self.take(name) {
            Some(value) => self.apply(name, rule, value),
            None if is_required => {
                self.reader.refuse_member(name, "required", "is required");
                None
            }
            None => None,
        }
    }

    /// A member that may be absent, but not null.
    pub fn optional<R: Rule>(&mut self, name: &'static str, rule: R) -> Option<R::Out> {
        self.required_if(false, name, rule)
    }

    /// A member that may be absent, but not null; then it has this value.
    pub fn optional_or<R: Rule<Out: Clone + Into<Value>>>(
        &mut self,
        name: &'static str,
        rule: R,
        default: R::Out,
    ) -> R::Out {
        self.optional_with(name, rule, Some(default.clone())).unwrap_or(default)
    }

    /// The same where only some bodies have a default.
    pub fn optional_with<R: Rule<Out: Clone + Into<Value>>>(
        &mut self,
        name: &'static str,
        rule: R,
        default: Option<R::Out>,
    ) -> Option<R::Out> {
        let given = self.optional(name, rule);
        if let Some(member) = self.noted.as_mut().and_then(|noted| noted.last_mut()) {
            member.default = default.clone().map(Into::into);
        }
        given.or(default)
    }

    /// A member that may be absent or null.
    pub fn nullable<R: Rule>(&mut self, name: &'static str, rule: R) -> Given<R::Out> {
        let empty_is_null = self.empty_is_null;
        self.note(|| {
            let schema = if empty_is_null { rule.schema().or_empty() } else { rule.schema() };
            let schema = Schema::OrNull(Box::new(schema));
            Member { name, schema, is_required: false, default: None }
        });
        match self.take(name) {
            None => Given::Absent,
            Some(Value::Null) => Given::Null,
            Some(Value::String(text)) if empty_is_null && text.is_empty() => Given::Null,
            Some(value) => self.apply(name, rule, value).map_or(Given::Absent, Given::Value),
        }
    }

    fn note(&mut self, member: impl FnOnce() -> Member) {
        if let Some(noted) = &mut self.noted {
            noted.push(member());
        }
    }

    /// Whether a member is there (before it is read).
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// A member as it came.
    pub fn take(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.members.remove(name)
    }

    /// Takes the members with these names that were not read yet.
    pub fn take_others(&mut self, is_wanted: impl Fn(&str) -> bool) -> Map<String, Value> {
        let (taken, left) =
            std::mem::take(&mut self.members).into_iter().partition(|(name, _)| is_wanted(name));
        self.members = left;
        taken
    }

    /// Says that in members that may be null, an empty string is null: some clients send every field, the empty ones as `""`.
    pub fn empty_is_null(&mut self) {
        self.empty_is_null = true;
    }

    /// Says that a member that is unknown may be a secret whose name was misspelt.
    pub fn holds_secrets(&mut self) {
        self.holds_secrets = true;
    }

    /// Notes what is wrong with a member.
    pub fn refuse(&mut self, name: &'static str, code: &'static str, message: impl Into<String>) {
        self.reader.refuse_member(name, code, message);
    }

    /// Notes what is wrong with a member of a name that the caller chose.
    pub fn refuse_other(&mut self, name: &str, code: &'static str, message: impl Into<String>) {
        self.reader.member(name, |reader| reader.refuse(code, message));
    }

    /// The end of the object: what is left is unknown, and refused.
    pub fn finish(self) {
        let Self { reader, members, known, holds_secrets, .. } = self;
        reader.secrets += usize::from(holds_secrets);
        for (name, _) in members {
            reader.member(&name, |reader| reader.refuse_unknown(&name, known.iter().copied(), ""));
        }
        reader.secrets -= usize::from(holds_secrets);
    }

    fn apply<R: Rule>(&mut self, name: &'static str, rule: R, value: Value) -> Option<R::Out> {
        self.reader.path.push(Step::Static(name));
        let out = rule.apply(self.reader, value);
        self.reader.path.pop();
        out
    }
}

/// Characters of names that are compared: a name that a caller made up may have any number.
const COMPARED: RangeInclusive<usize> = 3..=64;

/// The closest known name: equal without case and underscores, or one or two letters or one word different.
#[must_use]
pub fn closest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    if !COMPARED.contains(&name.len()) {
        return None;
    }
    let name = plain(name);
    let likeness = |known: &&'k str| {
        let known = plain(known);
        match strsim::damerau_levenshtein(&name, &known) {
            slips if slips <= name.len() / 4 => Some(slips),
            _ if known.contains(&name) => Some(usize::MAX),
            _ => None,
        }
    };
    known
        .filter_map(|known| Some((likeness(&known)?, known)))
        .min_by_key(|(likeness, _)| *likeness)
        .map(|(_, k)| k)
}
