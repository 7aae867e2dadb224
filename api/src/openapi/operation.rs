//! One operation: the information from its handler's signature, and the rest from its author.

use std::any::type_name;
use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use longshore_http::extract::body::DEFAULT_LIMIT;
use serde_json::Value;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{
    ContentBuilder, Deprecated, PathItem, Ref, RefOr, Required, Response, ResponseBuilder,
};

use longshore_domain::list::resource::Resource;

use super::record::{self, Described};
use super::routes;
use super::schema::{ID, Said, any_of, array_of, id, named, pattern};
use super::shared;
use crate::signature::{Handler, Inputs};
use crate::urls::Route;

/// The default media type.
pub(super) const JSON: &str = "application/json";

/// The description of an operation.
pub(super) struct Operation {
    /// [`Route::operation`] has its id and its tag.
    pub(super) route: &'static Route,
    inputs: Inputs,
    summary: String,
    description: Vec<String>,
    contents: Vec<Content>,
    answers: BTreeMap<u16, Answer>,
    errors: BTreeSet<u16>,
    headers: Vec<&'static str>,
    /// Schemas of path parameters that are not identifiers.
    parameters: BTreeMap<&'static str, Said>,
    /// Parameters of its query, which all may be absent, with examples.
    query: Vec<(&'static str, Said, Option<Value>, bool)>,
    /// Statuses that it never answers, although similar operations do.
    never: BTreeSet<u16>,
    /// Whether it is an alias of another operation with the same handler.
    is_alias: bool,
    /// Schemas to declare with their names.
    pub(super) schemas: Vec<(String, Said)>,
    /// Resources whose records it returns.
    pub(super) resources: Vec<&'static Resource>,
    /// Those of them whose example is shared by several operations.
    pub(super) examples: Vec<&'static Described>,
}

/// One form of a body.
struct Content {
    media: &'static str,
    schema: Said,
    example: Option<Value>,
    /// The name of a shared example, instead of its own.
    shared: Option<String>,
}

/// The answer with a status.
#[derive(Default)]
struct Answer {
    description: &'static str,
    contents: Vec<Content>,
    headers: Vec<&'static str>,
}

/// The operation of a handler, at its first route.
pub(super) fn operation<I, H: Handler<I>>(_: H, summary: impl Into<String>) -> Operation {
    let handler = type_name::<H>();
    Operation {
        route: route(handler, 0),
        inputs: H::inputs(),
        summary: summary.into(),
        description: Vec::new(),
        contents: Vec::new(),
        answers: BTreeMap::new(),
        errors: BTreeSet::new(),
        headers: Vec::new(),
        parameters: BTreeMap::new(),
        query: Vec::new(),
        never: BTreeSet::new(),
        is_alias: false,
        schemas: Vec::new(),
        resources: Vec::new(),
        examples: Vec::new(),
    }
}

/// A route of a handler. The tests find an operation without one.
fn route(handler: &'static str, number: usize) -> &'static Route {
    static NONE: Route = Route { method: Method::GET, path: "", handler: "", also: None, deprecated: None };
    routes().iter().filter(|route| route.handler == handler).nth(number).unwrap_or(&NONE)
}

/// A list operation, derived from the resource.
pub(super) fn list<I, H: Handler<I>>(
    handler: H,
    described: &'static Described,
    summary: impl Into<String>,
) -> Operation {
    let name = record::name(described.resource);
    let operation = operation(handler, summary).resource(described.resource).form(
        JSON,
        named(format!("{name}Query")),
        Some(record::query_example(described.resource)),
    );
    operation.answers(
        200,
        "The records.",
        named(format!("{name}Page")),
        Some(record::page_example(described)),
    )
}

/// An operation that reads one record.
pub(super) fn read<I, H: Handler<I>>(
    handler: H,
    described: &'static Described,
    summary: impl Into<String>,
) -> Operation {
    let operation = operation(handler, summary).record(200, "The record.", described);
    if operation.inputs.if_none_match { operation.known() } else { operation.with(&["ETag"]) }
}

impl Operation {
    /// Adds a paragraph to the description.
    pub(super) fn says(mut self, text: &str) -> Self {
        self.description.push(text.to_owned());
        self
    }

    /// Marks an alias of an operation with the same handler: its second route.
    pub(super) fn alias(mut self) -> Self {
        self.is_alias = true;
        self.route = route(self.route.handler, 1);
        self.says("An alias of the same operation.")
    }

    /// Sets its JSON body, with a schema of that name.
    pub(super) fn body(self, name: impl Into<String>, schema: impl Into<Said>, example: Value) -> Self {
        let name = name.into();
        self.form(JSON, named(&name), Some(example)).schema(name, schema)
    }

    /// Adds a form of its body.
    pub(super) fn form(mut self, media: &'static str, schema: Said, example: Option<Value>) -> Self {
        self.contents.push(Content { media, schema, example, shared: None });
        self
    }

    /// Adds a schema that it references.
    pub(super) fn schema(mut self, name: impl Into<String>, schema: impl Into<Said>) -> Self {
        self.schemas.push((name.into(), schema.into()));
        self
    }

    fn resource(mut self, resource: &'static Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Adds an answer as JSON.
    pub(super) fn answers(
        self,
        status: u16,
        description: &'static str,
        schema: Said,
        example: Option<Value>,
    ) -> Self {
        self.answers_as(status, description, JSON, schema, example)
    }

    /// Adds an answer with another media type.
    pub(super) fn answers_as(
        mut self,
        status: u16,
        description: &'static str,
        media: &'static str,
        schema: Said,
        example: Option<Value>,
    ) -> Self {
        let contents = vec![Content { media, schema, example, shared: None }];
        self.answers.insert(status, Answer { description, contents, headers: Vec::new() });
        self
    }

    /// Adds a form of the answer with a status.
    pub(super) fn or_as(mut self, status: u16, media: &'static str, schema: Said) -> Self {
        if let Some(answer) = self.answers.get_mut(&status) {
            answer.contents.push(Content { media, schema, example: None, shared: None });
        }
        self
    }

    /// It answers with a record.
    pub(super) fn record(
        self,
        status: u16,
        description: &'static str,
        described: &'static Described,
    ) -> Self {
        let name = record::name(described.resource);
        let content = Content { media: JSON, schema: named(&name), example: None, shared: Some(name) };
        let answer = Answer { description, contents: vec![content], headers: Vec::new() };
        let mut operation = self.resource(described.resource);
        operation.answers.insert(status, answer);
        operation.examples.push(described);
        operation
    }

    /// Allows an array wherever it answers with a record.
    pub(super) fn or_several(mut self, described: &'static Described) -> Self {
        let one = || named(record::name(described.resource));
        for content in self.answers.values_mut().flat_map(|answer| &mut answer.contents) {
            content.schema = any_of([one(), array_of(one())]);
        }
        self
    }

    /// It answers 201 with the new record, its location and its version.
    pub(super) fn created(self, described: &'static Described) -> Self {
        self.record(201, "The new record.", described).with(&["ETag", "Location"])
    }

    /// It answers 200 with the record, its location and its version.
    pub(super) fn updated(self, described: &'static Described) -> Self {
        self.record(200, "The record.", described).with(&["ETag", "Location"])
    }

    /// It answers 204.
    pub(super) fn done(self) -> Self {
        self.bare(204, "Done.")
    }

    /// It answers a status without a body.
    pub(super) fn bare(mut self, status: u16, description: &'static str) -> Self {
        self.answers.insert(status, Answer { description, ..Answer::default() });
        self
    }

    /// It answers 304 to a caller that already has this version.
    pub(super) fn known(self) -> Self {
        self.with(shared::OF_A_VERSION).refuses(&[304])
    }

    /// Adds headers to the answers so far.
    pub(super) fn with(mut self, headers: &[&'static str]) -> Self {
        for answer in self.answers.values_mut() {
            answer.headers.extend(headers);
        }
        self
    }

    /// Adds statuses that only this operation uses to refuse requests.
    pub(super) fn refuses(mut self, statuses: &[u16]) -> Self {
        self.errors.extend(statuses);
        self
    }

    /// Removes statuses that similar operations use to refuse requests.
    pub(super) fn never(mut self, statuses: &[u16]) -> Self {
        self.never.extend(statuses);
        self
    }

    /// Sets the schema of a path parameter that is not an identifier.
    pub(super) fn parameter(mut self, name: &'static str, schema: Said) -> Self {
        self.parameters.insert(name, schema);
        self
    }

    /// Adds a parameter of its query, which may be absent.
    pub(super) fn query(mut self, name: &'static str, schema: Said, example: Option<Value>) -> Self {
        self.query.push((name, schema, example, false));
        self
    }

    /// Adds a query parameter that must be sent.
    pub(super) fn required_query(mut self, name: &'static str, schema: Said, example: Value) -> Self {
        self.query.push((name, schema, Some(example), true));
        self
    }

    /// Whether it belongs to the API itself, rather than to the operation of the service.
    fn is_api(&self) -> bool {
        self.route.path.starts_with("/api/")
    }

    fn errors(&self) -> BTreeSet<u16> {
        let mut errors = self.errors.clone();
        if self.is_api() {
            // as any operation
            errors.insert(500);
        }
        if self.may_be_gone() {
            errors.insert(410);
        }
        if self.inputs.once {
            errors.extend([409, 422]);
        }
        if self.inputs.if_match {
            errors.insert(412);
        }
        errors.retain(|status| !self.never.contains(status));
        errors
    }

    /// Whether its record can be deleted, so that a tombstone may say that it is gone. A record is deleted at a path of fixed words
    /// and then its identifiers; all operations on it have these words first, and these identifiers.
    fn may_be_gone(&self) -> bool {
        let deletions = routes().iter().filter(|route| route.method == Method::DELETE);
        let records = deletions.filter_map(|route| Some(route.path.split_at(route.path.find('{')?)));
        records.filter(|(_, ids)| ids.split('/').all(|id| id.starts_with('{'))).any(|(words, ids)| {
            let own = self.route.path;
            own.starts_with(words) && ids.split('/').all(|id| own.split('/').any(|part| part == id))
        })
    }

    fn text(&self) -> String {
        let mut text = self.description.clone();
        if let Some(limit) =
            self.inputs.body.and_then(|body| body.limit).filter(|limit| *limit != DEFAULT_LIMIT)
        {
            text.push(format!("The body has at most {} KiB.", limit / 1024));
        }
        if let Some(old) = self.route.deprecated {
            let (since, sunset, instead) = (old.begun(), old.sunset(), old.instead);
            text.push(format!("Deprecated since {since}: it ends on {sunset}. Use {instead} instead."));
        }
        text.join("\n\n")
    }

    /// The operation at its path.
    pub(super) fn item(self) -> PathItem {
        let method = match self.route.method {
            Method::POST => HttpMethod::Post,
            Method::PUT => HttpMethod::Put,
            Method::PATCH => HttpMethod::Patch,
            Method::DELETE => HttpMethod::Delete,
            _ => HttpMethod::Get,
        };
        PathItem::new(method, self.build())
    }

    /// The operation as it appears in the document.
    fn build(&self) -> utoipa::openapi::path::Operation {
        let (_, room) = self.route.operation();
        let room = if self.is_api() { room } else { "service" };
        let mut built = OperationBuilder::new()
            .operation_id(Some(self.route.id(self.is_alias)))
            .deprecated(self.route.deprecated.map(|_| Deprecated::True))
            .tag(room)
            .summary(Some(self.summary.as_str()))
            .description(Some(self.text()).filter(|text| !text.is_empty()));
        for parameter in self.route.path.split('/').filter_map(|p| p.strip_prefix('{')) {
            let name = parameter.trim_end_matches('}');
            if name == "id" && !self.parameters.contains_key(name) {
                built = built.parameter_ref(Ref::new(format!("#/components/parameters/{ID}")));
                continue;
            }
            let schema = self.parameters.get(name).cloned().unwrap_or_else(|| {
                if self.inputs.identifier { id() } else { pattern(1..=255, r"^[a-zA-Z0-9_.-]+$") }
            });
            built = built.parameter(
                ParameterBuilder::new()
                    .name(name)
                    .parameter_in(ParameterIn::Path)
                    .required(Required::True)
                    .schema(Some(schema))
                    .build(),
            );
        }
        let asked = [
            (self.inputs.once, "IdempotencyKey"),
            (self.inputs.prefer, "Prefer"),
            (self.inputs.if_match, "IfMatch"),
            (self.inputs.if_none_match, "IfNoneMatch"),
        ];
        for (_, name) in asked.iter().filter(|(is_asked, _)| *is_asked) {
            built = built.parameter_ref(Ref::new(format!("#/components/parameters/{name}")));
        }
        // after the headers: in some generated clients parameters are told apart by their place, and these came later
        for (name, schema, example, is_required) in &self.query {
            built = built.parameter(
                ParameterBuilder::new()
                    .name(*name)
                    .parameter_in(ParameterIn::Query)
                    .required(if *is_required { Required::True } else { Required::False })
                    .example(example.clone())
                    .schema(Some(schema.clone()))
                    .build(),
            );
        }
        built = match self.inputs.permission {
            Some(permission) => {
                let roles = permission.roles().iter().map(|role| role.as_str());
                built.security(SecurityRequirement::new(shared::SCHEME, roles))
            }
            None => built.securities(Some(Vec::new())),
        };
        if let Some(body) = self.inputs.body {
            let mut request = RequestBodyBuilder::new().required(Some(if body.required {
                Required::True
            } else {
                Required::False
            }));
            for content in &self.contents {
                request = request.content(content.media, content.build());
            }
            built = built.request_body(Some(request.build()));
        }
        let mut common = self.headers.clone();
        common.extend(self.inputs.prefer.then_some("Preference-Applied"));
        for (status, answer) in &self.answers {
            let also = self.inputs.also.filter(|_| *status == 200);
            built = built.response(status.to_string(), answer.build(&common, also));
        }
        // its own answers take precedence
        let errors = self.errors().into_iter().filter(|status| !self.answers.contains_key(status));
        for name in errors.map(shared::name).collect::<BTreeSet<_>>() {
            built = built.response(name.as_str(), Ref::from_response_name(&name));
        }
        built.build()
    }
}

impl Content {
    fn build(&self) -> utoipa::openapi::Content {
        let content = ContentBuilder::new().schema(Some(self.schema.clone()));
        match &self.shared {
            Some(name) => {
                let example = Ref::new(format!("#/components/examples/{name}"));
                content.examples_from_iter([("record", RefOr::Ref(example))]).build()
            }
            None => content.example(self.example.clone()).build(),
        }
    }
}

impl Answer {
    fn build(&self, common: &[&'static str], also: Option<&'static str>) -> RefOr<Response> {
        let mut response = ResponseBuilder::new().description(self.description);
        for header in self.headers.iter().chain(common) {
            response = response.header_ref(*header, Ref::new(format!("#/components/headers/{header}")));
        }
        for content in &self.contents {
            response = response.content(content.media, content.build());
        }
        // what it is, the head of the document says once of CSV, and the operation otherwise
        if let Some(media) = also {
            response = response.content(media, ContentBuilder::new().build());
        }
        RefOr::T(response.build())
    }
}

#[cfg(test)]
mod tests {
    use longshore_http::middleware::deprecated::Deprecation;
    use serde_json::json;

    use super::*;
    use crate::routes::activity;

    #[test]
    fn the_document_says_until_when_a_deprecated_operation_works_and_what_to_use_instead() {
        let mut old = operation(activity::read_counts, "Counts").says("Since the beginning.");
        let current = old.build();
        let deprecated = Some(Deprecation::since(2027, 1, 31, "`GET /api/attention`"));
        old.route = Box::leak(Box::new(Route { method: Method::GET, deprecated, ..*old.route }));
        let told = serde_json::to_value(old.build()).unwrap();
        assert_eq!((current.deprecated.is_some(), &told["deprecated"]), (false, &json!(true)));
        let text = "Since the beginning.\n\nDeprecated since 2027-01-31: it ends on 2028-01-31. Use `GET /api/attention` instead.";
        assert_eq!(told["description"], text);
    }
}
