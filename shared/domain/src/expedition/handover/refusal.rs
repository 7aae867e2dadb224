//! Why a warehouse refuses an order: the `violations` of its answer, as the `errors` of the order. They are text of another system.

use serde_json::{Value, json};

use longshore_kernel::refused::Parameters;

/// Violations that are kept.
const MOST: usize = 100;

/// Characters that are kept of a path, a message and a code.
const LENGTHS: [usize; 3] = [255, 1_000, 100];

/// Characters that are kept of an answer without violations.
const SAID: usize = 200;

/// The errors of a refusal, by the body of its answer; where it names none, one in general with its message, or with what it
/// `said` in plain text.
#[must_use]
pub fn errors(body: &Value, said: &str) -> Value {
    let read = |violation: &Value| {
        let text = |name: &str, length: usize| {
            let text = violation[name].as_str()?;
            let text: String = text.chars().filter(|c| *c != '\0').take(length).collect();
            (!text.trim().is_empty()).then_some(text)
        };
        let [path, message, code] = LENGTHS;
        let (path, code) = (text("propertyPath", path), text("code", code));
        let message = text("message", message)?;
        Some(error(&path.unwrap_or_default(), &code.unwrap_or_else(|| REFUSED.to_owned()), &message))
    };
    let errors: Vec<Value> =
        body["violations"].as_array().into_iter().flatten().filter_map(read).take(MOST).collect();
    if !errors.is_empty() {
        return errors.into();
    }
    let message = ["message", "detail", "title", "error"].iter().find_map(|name| body[name].as_str());
    let is_text = body.is_null() && !said.starts_with(['<', '{', '[']);
    let said = message.or(is_text.then_some(said)).unwrap_or_default();
    let said: String = said.trim().chars().filter(|c| *c != '\0').take(SAID).collect();
    let said = if said.is_empty() { said } else { format!(": {said}") };
    alone(REFUSED, &format!("the warehouse does not take the order{said}"))
}

/// The code of a violation that has none.
const REFUSED: &str = "refused_by_warehouse";

/// One error about the whole order.
#[must_use]
pub fn alone(code: &str, message: &str) -> Value {
    json!([error("", code, message)])
}

/// The errors of a number that the warehouse takes no more.
#[must_use]
pub fn out_of_date() -> Value {
    alone("out_of_date", "the warehouse knows a later hand-over of the order, or has withdrawn this one")
}

fn error(path: &str, code: &str, message: &str) -> Value {
    json!({"propertyPath": path, "message": message, "code": code,
           "parameters": Parameters::default()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_become_errors_and_what_is_none_is_left_out() {
        let body = json!({"violations": [
            {"propertyPath": "items[0].product", "message": "unknown\0 here", "code": "unknown_product", "more": [1]},
            {"message": "x".repeat(2_000)}, {"message": 7}, "no", {"message": " "},
        ]});
        let errors = errors(&body, "no");
        assert_eq!(errors.as_array().unwrap().len(), 2);
        assert_eq!(errors[0]["propertyPath"], "items[0].product");
        assert_eq!(errors[0]["message"], "unknown here");
        assert_eq!(errors[0]["code"], "unknown_product");
        assert_eq!(errors[1]["code"], "refused_by_warehouse");
        assert_eq!(errors[1]["message"].as_str().unwrap().len(), 1_000);
    }

    #[test]
    fn a_refusal_that_says_nothing_is_an_error_about_the_whole_order() {
        for body in
            [Value::Null, json!([]), json!({"violations": []}), json!({"violations": {"message": "x"}})]
        {
            let errors = errors(&body, &body.to_string());
            assert_eq!(errors[0]["propertyPath"], "");
            assert_eq!(errors[0]["code"], "refused_by_warehouse");
        }
    }

    #[test]
    fn a_refusal_without_violations_has_what_the_warehouse_said() {
        for (body, said, message) in [
            (Value::Null, "No DHL here", ": No DHL here"),
            (Value::Null, "<html>No</html>", ""),
            (json!({"title": "No", "detail": "No DHL\0 here"}), "{", ": No DHL here"),
            (json!({"detail": [1]}), "{", ""),
        ] {
            let errors = errors(&body, said);
            assert_eq!(errors[0]["message"], format!("the warehouse does not take the order{message}"));
        }
    }

    #[test]
    fn no_more_than_a_hundred_are_kept() {
        let body = json!({"violations": vec![json!({"message": "x"}); 1_000]});
        assert_eq!(errors(&body, "").as_array().unwrap().len(), MOST);
    }
}
