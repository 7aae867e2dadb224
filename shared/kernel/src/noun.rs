//! What people call a record, where the API calls it otherwise: the console says "order", and the API `expedition`.

use std::borrow::Cow;

/// Names of the API that are not those of people with other marks between the words.
const NOUNS: [(&str, &str); 4] = [
    ("eshop", "e-shop"),
    ("expedition", "order"),
    ("product_stock", "stock"),
    ("wms_setting", "setting of the wms"),
];

/// What people call one record of that name in the API.
#[must_use]
pub fn noun(name: &str) -> Cow<'_, str> {
    match NOUNS.iter().find(|(known, _)| *known == name) {
        Some((_, noun)) => Cow::Borrowed(noun),
        None if name.contains('_') => Cow::Owned(name.replace('_', " ")),
        None => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_name_that_people_use() {
        for (name, shown) in [
            ("expedition", "order"),
            ("eshop", "e-shop"),
            ("wms_setting", "setting of the wms"),
            ("integration_setting", "integration setting"),
            ("stock advice", "stock advice"),
        ] {
            assert_eq!(noun(name), shown);
        }
    }
}
