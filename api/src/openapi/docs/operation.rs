//! The page of an operation or of a webhook event.

use maud::{Markup, html};
use serde_json::Value;

use super::page::Page;
use super::{Site, elements, markdown, members, schema, text};

/// An operation of the document.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: &'static str,
    pub(super) method: String,
    pub(super) path: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) operation: &'static Value,
    /// Whether the service makes the call: a webhook event.
    pub(super) is_told: bool,
}

/// The operations of path items.
pub(super) fn entries(items: &'static Value, is_told: bool) -> impl Iterator<Item = Entry> {
    members(items).flat_map(move |(path, item)| {
        members(item).map(move |(method, operation)| Entry {
            id: text(&operation["operationId"]),
            method: method.to_uppercase(),
            path,
            tag: text(&operation["tags"][0]),
            summary: text(&operation["summary"]),
            operation,
            is_told,
        })
    })
}

impl Entry {
    pub(super) fn page(&self, site: &Site) -> Page<'_> {
        let operation = self.operation;
        let content = html! {
            h1 { (self.summary) }
            p.call { span.method { (self.method) } " " code { (self.path) } }
            (markdown::render(text(&operation["description"])))
            @let roles: Vec<_> = elements(&operation["security"][0]["accessToken"]).map(text).collect();
            @if !roles.is_empty() { p { "Roles: " (roles.join(", ")) "." } }
            @if !self.is_told {
                h2 { "Call" }
                pre { code { (self.command()) } }
            }
            (parameters(site, &operation["parameters"]))
            @if let Some(body) = operation.get("requestBody") {
                h2 { "Body" }
                @if body["required"] != true { p { "It may be left out." } }
                (contents(site, &body["content"], true))
            }
            h2 { "Answers" }
            (self.answers(site))
        };
        Page { name: self.id, title: self.summary, tag: self.tag, content }
    }

    /// An example call with curl.
    fn command(&self) -> String {
        let mut command = format!("curl -sS \"$BASE_URL{}\"", self.path.replace('{', "$").replace('}', ""));
        let body = members(&self.operation["requestBody"]["content"]).next();
        if self.method != if body.is_some() { "POST" } else { "GET" } {
            command.extend([" -X ", &self.method]);
        }
        if elements(&self.operation["security"]).next().is_some() {
            command += " \\\n  -H \"Authorization: Bearer $TOKEN\"";
        }
        match body {
            Some((media, _)) if media == "multipart/form-data" => command += " \\\n  -F image=@picture.jpg",
            Some((media, content)) => {
                let example = content["example"]
                    .as_str()
                    .map_or_else(|| format!("{:#}", content["example"]), str::to_owned);
                let quoted = example.replace('\'', "'\\''");
                command.extend([" \\\n  -H 'Content-Type: ", media, "' --data-binary '", &quoted, "'"]);
            }
            None => {}
        }
        command
    }

    fn answers(&self, site: &Site) -> Markup {
        let (errors, answers): (Vec<_>, Vec<_>) = members(&self.operation["responses"])
            .map(|(status, answer)| (status, site.follow(answer)))
            .partition(|(status, answer)| !status.starts_with(['2', '3']) && is_problem(answer));
        html! {
            @for (status, answer) in answers {
                h3 { (status) }
                (markdown::render(text(&answer["description"])))
                (headers(&answer["headers"]))
                (contents(site, &answer["content"], false))
            }
            @if !errors.is_empty() {
                h3 { "Errors" }
                p { "Each is a " a href="/docs/Problem" { "Problem" } "; " a href="/docs/errors" { "Errors" } " says more." }
                dl {
                    @for (status, answer) in errors {
                        dt { @if status == "default" { "Others" } @else { (status) } }
                        dd { (markdown::render(text(&answer["description"]))) }
                    }
                }
            }
        }
    }
}

/// Whether its only body is that of an error.
fn is_problem(answer: &Value) -> bool {
    members(&answer["content"]).all(|(media, _)| media == "application/problem+json")
}

fn parameters(site: &Site, parameters: &Value) -> Markup {
    let parameters: Vec<_> = elements(parameters).map(|parameter| site.follow(parameter)).collect();
    html! {
        @if !parameters.is_empty() {
            h2 { "Parameters" }
            table.members {
                thead { tr { th { "Name" } th { "In" } th { "Value" } th { "Meaning" } } }
                tbody {
                    @for parameter in parameters {
                        tr {
                            td { code { (text(&parameter["name"])) } }
                            td { (text(&parameter["in"])) }
                            td { (schema::kind(&parameter["schema"])) }
                            td { (markdown::render(text(&parameter["description"]))) }
                        }
                    }
                }
            }
        }
    }
}

fn headers(headers: &Value) -> Markup {
    let names: Vec<_> = members(headers).map(|(name, _)| name).collect();
    html! {
        @if !names.is_empty() {
            p.headers { "Headers: " @for (at, name) in names.iter().enumerate() { @if at > 0 { ", " } code { (name) } } }
        }
    }
}

/// Each form of a body: its schema and an example.
fn contents(site: &Site, contents: &Value, is_open: bool) -> Markup {
    html! {
        @for (media, content) in members(contents) {
            p { code { (media) } @if let Some(schema) = content.get("schema") { ": " (schema::kind(schema)) } }
            (schema::objects(site, &content["schema"], is_open))
            @for example in examples(site, content) {
                details open { summary { "Example" } pre { code { (example) } } }
            }
        }
    }
}

fn examples(site: &Site, content: &Value) -> Vec<String> {
    let own = content.get("example");
    let shared = members(&content["examples"]).map(|(_, example)| &site.follow(example)["value"]);
    let shown = |example: &Value| example.as_str().map_or_else(|| format!("{example:#}"), str::to_owned);
    own.into_iter().chain(shared).map(shown).collect()
}
