//! Countries: the codes of ISO 3166-1 alpha-2 with that of Kosovo, and the rule that reads one.

use serde_json::Value;

use super::input::{Reader, Rule, Schema, custom};

/// Every officially assigned code, in alphabetical order, and `XK`: Kosovo has none, and the EU, carriers and shops use that.
const CODES: [&str; 250] = [
    "AD", "AE", "AF", "AG", "AI", "AL", "AM", "AO", "AQ", "AR", "AS", "AT", "AU", "AW", "AX", "AZ", "BA",
    "BB", "BD", "BE", "BF", "BG", "BH", "BI", "BJ", "BL", "BM", "BN", "BO", "BQ", "BR", "BS", "BT", "BV",
    "BW", "BY", "BZ", "CA", "CC", "CD", "CF", "CG", "CH", "CI", "CK", "CL", "CM", "CN", "CO", "CR", "CU",
    "CV", "CW", "CX", "CY", "CZ", "DE", "DJ", "DK", "DM", "DO", "DZ", "EC", "EE", "EG", "EH", "ER", "ES",
    "ET", "FI", "FJ", "FK", "FM", "FO", "FR", "GA", "GB", "GD", "GE", "GF", "GG", "GH", "GI", "GL", "GM",
    "GN", "GP", "GQ", "GR", "GS", "GT", "GU", "GW", "GY", "HK", "HM", "HN", "HR", "HT", "HU", "ID", "IE",
    "IL", "IM", "IN", "IO", "IQ", "IR", "IS", "IT", "JE", "JM", "JO", "JP", "KE", "KG", "KH", "KI", "KM",
    "KN", "KP", "KR", "KW", "KY", "KZ", "LA", "LB", "LC", "LI", "LK", "LR", "LS", "LT", "LU", "LV", "LY",
    "MA", "MC", "MD", "ME", "MF", "MG", "MH", "MK", "ML", "MM", "MN", "MO", "MP", "MQ", "MR", "MS", "MT",
    "MU", "MV", "MW", "MX", "MY", "MZ", "NA", "NC", "NE", "NF", "NG", "NI", "NL", "NO", "NP", "NR", "NU",
    "NZ", "OM", "PA", "PE", "PF", "PG", "PH", "PK", "PL", "PM", "PN", "PR", "PS", "PT", "PW", "PY", "QA",
    "RE", "RO", "RS", "RU", "RW", "SA", "SB", "SC", "SD", "SE", "SG", "SH", "SI", "SJ", "SK", "SL", "SM",
    "SN", "SO", "SR", "SS", "ST", "SV", "SX", "SY", "SZ", "TC", "TD", "TF", "TG", "TH", "TJ", "TK", "TL",
    "TM", "TN", "TO", "TR", "TT", "TV", "TW", "TZ", "UA", "UG", "UM", "US", "UY", "UZ", "VA", "VC", "VE",
    "VG", "VI", "VN", "VU", "WF", "WS", "XK", "YE", "YT", "ZA", "ZM", "ZW",
];

/// Whether these are the two uppercase letters of a country.
#[must_use]
pub fn is_country(code: &str) -> bool {
    CODES.binary_search(&code).is_ok()
}

/// A country, as it is written in ISO 3166-1 alpha-2; Kosovo is `XK`.
pub fn country() -> impl Rule<Out = String> + Clone {
    custom(Schema::Text { length: 2..=2, pattern: Some("^[A-Z]{2}$"), format: None }, read)
}

fn read(reader: &mut Reader, value: Value) -> Option<String> {
    match value {
        Value::String(code) if is_country(&code) => Some(code),
        Value::String(code) => {
            let code = if code.chars().count() == 2 { "unknown_country" } else { "invalid_length" };
            reader.refuse(code, "must be an ISO 3166-1 code, such as GB");
            None
        }
        other => {
            reader.wrong_type("a country code", &other);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_code_is_found_and_no_other() {
        assert!(CODES.is_sorted());
        let letters = || (b'A'..=b'Z').map(char::from);
        let found: Vec<String> = letters()
            .flat_map(|a| letters().map(move |b| format!("{a}{b}")))
            .filter(|code| is_country(code))
            .collect();
        assert_eq!(found, CODES);
        assert!(is_country("XK"), "Kosovo");
        for wrong in ["", "C", "cz", "CZE", "Cz", "XX", "UK", "ÄÖ", "D "] {
            assert!(!is_country(wrong), "{wrong}");
        }
    }
}
