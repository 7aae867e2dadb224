//! The conditions of a carrier preference: in words, and as the fields of a form.

use longshore_kernel::figure::number;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use crate::form::{Asked, Refused, integer};
use crate::piece::{checked, options};

/// Conditions that are lists, and their labels.
const LISTS: [(&str, &str); 2] = [
    ("countries", "Countries of delivery (CZ, SK)"),
    ("deliveryMethods", "Delivery methods, to the letter, separated by commas"),
];
/// Those that are whole numbers.
const WEIGHTS: [(&str, &str); 2] = [("minWeight", "Weight from (g)"), ("maxWeight", "Weight up to (g)")];
/// Those that are texts.
const VALUES: [(&str, &str); 3] =
    [("minValue", "Value from"), ("maxValue", "Value up to"), ("currency", "Currency (EUR)")];
/// Those that are true or false: labels, and what they say.
const FLAGS: [(&str, &str, [&str; 2]); 3] = [
    ("cod", "Cash on delivery", ["cash on delivery", "no cash on delivery"]),
    ("pickupPlace", "Pickup place", ["to a pickup place", "to no pickup place"]),
    ("b2b", "Business", ["business", "no business"]),
];

/// The names of their fields in a form: their paths in the body of the API.
pub(super) const FIELDS: [&str; 10] = [
    "conditions.countries",
    "conditions.deliveryMethods",
    "conditions.minWeight",
    "conditions.maxWeight",
    "conditions.minValue",
    "conditions.maxValue",
    "conditions.currency",
    "conditions.cod",
    "conditions.pickupPlace",
    "conditions.b2b",
];

fn path(name: &str) -> String {
    format!("conditions.{name}")
}

/// What they ask of an order, each in a few words.
pub(super) fn in_words(conditions: &Value) -> Vec<String> {
    let list = |name: &str| {
        let all: Vec<&str> = conditions[name].as_array()?.iter().filter_map(Value::as_str).collect();
        Some(all.join(", "))
    };
    let grams = |name: &str| Some(number(conditions[name].as_i64()?));
    let amount = |name: &str| conditions.get(name).map(ToString::to_string);
    let between = |from: Option<String>, to: Option<String>| match (from, to) {
        (Some(from), Some(to)) => Some(format!("{from} to {to}")),
        (Some(from), None) => Some(format!("from {from}")),
        (None, to) => to.map(|to| format!("up to {to}")),
    };
    let currency = conditions["currency"].as_str();
    let value = between(amount("minValue"), amount("maxValue"));
    let flag = |(name, _, [yes, no]): &(&str, &str, [&str; 2])| {
        Some(if conditions[*name].as_bool()? { *yes } else { *no }.to_owned())
    };
    let said = [
        list("countries").map(|countries| format!("to {countries}")),
        list("deliveryMethods").map(|methods| format!("by {methods}")),
        between(grams("minWeight"), grams("maxWeight")).map(|weight| format!("{weight} g")),
        match (value, currency) {
            (Some(value), Some(currency)) => Some(format!("value {value} {currency}")),
            (Some(value), None) => Some(format!("value {value}")),
            (None, currency) => currency.map(|currency| format!("in {currency}")),
        },
    ];
    said.into_iter().chain(FLAGS.iter().map(flag)).flatten().collect()
}

/// The fields of a form that shows them.
pub(super) fn shown(conditions: &Value) -> Vec<(&'static str, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    let field = |name: &'static str| {
        let value = conditions.get(name.strip_prefix("conditions.")?)?;
        Some((name, text(value)))
    };
    FIELDS.into_iter().filter_map(field).collect()
}

/// What a form says of them, as the body of the API.
pub(super) fn body(form: &Asked) -> Value {
    let mut body = Map::new();
    for (name, _) in LISTS {
        let all =
            form.get(&path(name)).map(|text| text.split(',').map(str::trim).filter(|one| !one.is_empty()));
        body.extend(all.map(|all| (name.to_owned(), json!(all.collect::<Vec<_>>()))));
    }
    for (name, _) in WEIGHTS {
        // what is no number is refused by the rule of the API, at its path
        let grams = form.get(&path(name)).map(integer);
        body.extend(grams.map(|grams| (name.to_owned(), grams)));
    }
    for (name, _) in VALUES {
        body.extend(form.get(&path(name)).map(|text| (name.to_owned(), json!(text))));
    }
    for (name, ..) in FLAGS {
        body.extend(form.get(&path(name)).map(|text| (name.to_owned(), json!(text == "true"))));
    }
    body.into()
}

/// The fields of a form.
pub(super) fn fields(form: &Asked, refused: &Refused) -> Markup {
    html! {
        fieldset {
            legend { "Conditions" }
            p.muted { "All that are given must hold. Bounds are included; a value needs its currency." }
            @for (name, label) in LISTS { (checked(form, refused, &path(name), label, "text")) }
            @for (name, label) in WEIGHTS { (checked(form, refused, &path(name), label, "number")) }
            @for (name, label) in VALUES { (checked(form, refused, &path(name), label, "text")) }
            @for (name, label, _) in FLAGS {
                (options(form, refused, &path(name), label, [("", "either"), ("true", "yes"), ("false", "no")]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_come_back_from_the_form_that_shows_them() {
        let conditions = json!({
            "countries": ["CZ", "SK"], "deliveryMethods": ["express"], "minWeight": 0, "maxWeight": 30_000, "minValue": 0.5,
            "maxValue": 100, "currency": "EUR", "cod": false, "pickupPlace": true, "b2b": false,
        });
        let fields = shown(&conditions);
        assert_eq!(fields.iter().map(|(name, _)| *name).collect::<Vec<_>>(), FIELDS);
        let mut expected = conditions.clone();
        (expected["minValue"], expected["maxValue"]) = (json!("0.5"), json!("100"));
        assert_eq!(body(&Asked::of(fields)), expected);
        assert_eq!(body(&Asked::default()), json!({}));
    }

    #[test]
    fn conditions_are_said_in_words() {
        let conditions = json!({"countries": ["CZ"], "maxWeight": 2_000, "minValue": 0.5, "currency": "EUR", "cod": false});
        assert_eq!(
            in_words(&conditions),
            ["to CZ", "up to 2,000 g", "value from 0.5 EUR", "no cash on delivery"]
        );
        assert!(in_words(&json!({})).is_empty());
    }
}
