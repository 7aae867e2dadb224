//! Schemas: their pages, and their tables in the pages of operations.

use maud::{Markup, html};
use serde_json::Value;

use super::page::Page;
use super::{Site, elements, markdown, members, text};

const PREFIX: &str = "#/components/schemas/";

/// The page of a schema.
pub(super) fn page<'p>(site: &Site, name: &'p str, schema: &Value) -> Page<'p> {
    let reference = format!("\"{PREFIX}{name}\"");
    let uses = |value: &Value| value.to_string().contains(&reference);
    let operations: Vec<_> = site.entries.iter().filter(|entry| uses(entry.operation)).collect();
    let others = members(&site.document["components"]["schemas"]).filter(|(_, other)| uses(other));
    let others: Vec<_> = others.map(|(other, _)| other).collect();
    let content = html! {
        h1 { (name) }
        (markdown::render(text(&schema["description"])))
        p { (kind(schema)) }
        @if schema.get("properties").is_some() { (members_of(site, schema, 0)) }
        @if !operations.is_empty() || !others.is_empty() {
            h2 { "Where it is used" }
            ul {
                @for entry in operations { li { a href={ "/docs/" (entry.id) } { (entry.summary) } } }
                @for other in others { li { a href={ "/docs/" (other) } { (other) } } }
            }
        }
    };
    Page { name, title: name, tag: "", content }
}

/// The name of the schema that a reference leads to.
fn name(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix(PREFIX)
}

/// A short description of the values, with links to named schemas.
pub(super) fn kind(schema: &Value) -> Markup {
    if let Some(name) = name(schema) {
        return html! { a href={ "/docs/" (name) } { (name) } };
    }
    let forms: Vec<_> = elements(&schema["anyOf"]).chain(elements(&schema["oneOf"])).collect();
    if !forms.is_empty() {
        return html! { @for (at, form) in forms.iter().enumerate() { @if at > 0 { " or " } (kind(form)) } };
    }
    let types: Vec<_> = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        several => elements(several).map(text).collect(),
    };
    let values: Vec<_> = elements(&schema["enum"]).collect();
    html! {
        @if types.is_empty() { "anything" }
        @for (at, name) in types.iter().enumerate() {
            @if at > 0 { " or " }
            @match *name {
                "array" => { "array of " (kind(&schema["items"])) }
                "string" if !values.is_empty() => {
                    "one of " @for (at, value) in values.iter().filter(|value| !value.is_null()).enumerate() {
                        @if at > 0 { ", " } code { (text(value)) }
                    }
                }
                "string" => {
                    @match text(&schema["format"]) {
                        "date-time" => { "date and time with offset" }
                        "uri" => { "URL" }
                        "uuid" => { "UUID" }
                        "binary" => { "bytes" }
                        _ => { "string" }
                    }
                }
                other => { (other) }
            }
        }
        (bounds(schema))
    }
}

fn bounds(schema: &Value) -> Markup {
    let of = |least: &str, most: &str, what: &str| {
        let (least, most) = (schema[least].as_i64(), schema[most].as_i64());
        // the bounds of the integer type itself are not shown
        let most = most.filter(|most| *most < i64::MAX);
        match (least.filter(|least| *least > i64::MIN), most) {
            (Some(least), Some(most)) if least == most => Some(format!("{least}{what}")),
            (least, Some(most)) => Some(format!("{} to {most}{what}", least.unwrap_or(0))),
            (Some(least), None) => Some(format!("{least} or more{what}")),
            (None, None) => None,
        }
    };
    let said = [
        of("minLength", "maxLength", " characters"),
        of("minimum", "maximum", ""),
        of("minItems", "maxItems", " elements"),
    ];
    html! { @for said in said.into_iter().flatten() { ", " (said) } }
}

/// How deep the objects of a body are shown within one another.
const DEPTH: usize = 3;

/// The objects that a body consists of, each with its members, and with the objects of these.
pub(super) fn objects(site: &Site, schema: &Value, is_open: bool) -> Markup {
    shown(site, &named_objects(site, schema), is_open, DEPTH)
}

fn shown(site: &Site, objects: &[(&str, &Value)], is_open: bool, depth: usize) -> Markup {
    html! {
        @for (name, object) in objects {
            details open[is_open] { summary { "Members of " (name) } (members_of(site, object, depth)) }
        }
    }
}

/// The named objects that a value may be, or that its elements may be.
fn named_objects<'v>(site: &'v Site, schema: &'v Value) -> Vec<(&'v str, &'v Value)> {
    let object = site.follow(schema);
    if let Some(name) = name(schema).filter(|_| object.get("properties").is_some()) {
        return vec![(name, object)];
    }
    let forms = elements(&object["anyOf"]).chain(elements(&object["oneOf"])).chain(object.get("items"));
    forms.flat_map(|form| named_objects(site, form)).collect()
}

/// The members of an object, with the objects in them to this depth.
pub(super) fn members_of(site: &Site, schema: &Value, depth: usize) -> Markup {
    let required: Vec<_> = elements(&schema["required"]).map(text).collect();
    // the members of criteria are many, and of few kinds
    let has_paths = schema["additionalProperties"].is_object();
    let depth = if has_paths { 0 } else { depth };
    html! {
        table.members {
            thead { tr { th { "Member" } th { "Value" } th { "Meaning" } } }
            tbody {
                @for (name, member) in members(&schema["properties"]) {
                    tr {
                        td { code { (name) } @if required.contains(&name.as_str()) { " " span.required { "required" } } }
                        td { (kind(member)) }
                        td { (markdown::render(text(&member["description"]))) }
                    }
                    @let objects = if depth == 0 { Vec::new() } else { named_objects(site, member) };
                    @if !objects.is_empty() {
                        tr { td.inner colspan="3" { (shown(site, &objects, false, depth - 1)) } }
                    }
                }
                @if has_paths {
                    tr {
                        td { "dotted paths" }
                        td { (kind(&schema["additionalProperties"])) }
                        td { "Fields of related records, with the operators of their kind." }
                    }
                }
            }
        }
    }
}
