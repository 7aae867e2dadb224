//! JSON as a tree whose parts fold, also without script. Its text is the JSON itself, so that what is copied is whole.

use maud::{Markup, html};
use serde_json::Value;

/// Objects and arrays down to this depth are unfolded.
const OPEN: usize = 2;

/// A value with a button that copies it.
pub(super) fn draw(value: &Value) -> Markup {
    html! {
        div.json {
            button.copy type="button" data-copy-of=".tree" hidden { "copy" }
            div.tree tabindex="0" role="region" aria-label="JSON" { (node(None, value, true, 0)) }
        }
    }
}

/// A value under its name, with the comma behind it unless it is the last one.
fn node(name: Option<&str>, value: &Value, is_last: bool, depth: usize) -> Markup {
    let key = html! { @if let Some(name) = name { span.key { (Value::from(name)) } ": " } };
    let comma = if is_last { "" } else { "," };
    let inner = match value {
        Value::Object(members) if !members.is_empty() => {
            let last = members.len() - 1;
            let each = members.iter().enumerate();
            html! { @for (place, (name, value)) in each { li { (node(Some(name), value, place == last, depth + 1)) } } }
        }
        Value::Array(elements) if !elements.is_empty() => {
            let last = elements.len() - 1;
            let each = elements.iter().enumerate();
            html! { @for (place, value) in each { li { (node(None, value, place == last, depth + 1)) } } }
        }
        scalar => return html! { (key) span.(kind(scalar)) { (scalar) } (comma) },
    };
    let [begin, end, count] = match value {
        Value::Object(members) => ["{", "}", &members.len().to_string()],
        other => ["[", "]", &other.as_array().map_or(0, Vec::len).to_string()],
    };
    html! {
        details open[depth < OPEN] {
            summary data-count=(count) { (key) (begin) }
            ul { (inner) }
            (end) (comma)
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "text",
        Value::Null => "null",
        _ => "value",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The text of a page, as a browser shows it.
    fn text(page: &str) -> String {
        let parts = page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
        parts
            .collect::<String>()
            .replace("&quot;", "\"")
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&")
    }

    #[test]
    fn the_text_of_a_tree_is_the_json_and_nothing_else() {
        for value in [
            json!({"a": [1, 2.5, -7], "b": {"c": null, "d": {}}, "e\"<b>": "<script>alert('x')</script> & \"more\""}),
            json!([]),
            json!("text"),
            json!([[[[[[1]]]], []], {"deep": {"deeper": {"deepest": true}}}]),
            serde_json::from_str("{\"n\": 12345678901234567890}").unwrap(),
        ] {
            let tree = node(None, &value, true, 0).into_string();
            assert!(!tree.contains("<script"), "{tree}");
            assert_eq!(serde_json::from_str::<Value>(&text(&tree)).unwrap(), value, "{tree}");
        }
    }
}
