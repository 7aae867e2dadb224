//! Currencies: the codes of ISO 4217, and the rule that reads one.

use serde_json::Value;

use super::input::{Reader, Rule, Schema, custom};

/// Every code of money that people pay with, in alphabetical order: no funds, metals, or codes for tests. Those that were
/// superseded lately stay, because old orders are imported.
const CODES: [&str; 161] = [
    "AED", "AFN", "ALL", "AMD", "ANG", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BGN", "BHD",
    "BIF", "BMD", "BND", "BOB", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHF", "CLP", "CNY",
    "COP", "CRC", "CUC", "CUP", "CVE", "CZK", "DJF", "DKK", "DOP", "DZD", "EGP", "ERN", "ETB", "EUR", "FJD",
    "FKP", "GBP", "GEL", "GHS", "GIP", "GMD", "GNF", "GTQ", "GYD", "HKD", "HNL", "HRK", "HTG", "HUF", "IDR",
    "ILS", "INR", "IQD", "IRR", "ISK", "JMD", "JOD", "JPY", "KES", "KGS", "KHR", "KMF", "KPW", "KRW", "KWD",
    "KYD", "KZT", "LAK", "LBP", "LKR", "LRD", "LSL", "LYD", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT", "MOP",
    "MRU", "MUR", "MVR", "MWK", "MXN", "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "OMR", "PAB",
    "PEN", "PGK", "PHP", "PKR", "PLN", "PYG", "QAR", "RON", "RSD", "RUB", "RWF", "SAR", "SBD", "SCR", "SDG",
    "SEK", "SGD", "SHP", "SLE", "SLL", "SOS", "SRD", "SSP", "STN", "SVC", "SYP", "SZL", "THB", "TJS", "TMT",
    "TND", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH", "UGX", "USD", "UYU", "UZS", "VED", "VES", "VND", "VUV",
    "WST", "XAF", "XCD", "XCG", "XOF", "XPF", "YER", "ZAR", "ZMW", "ZWG", "ZWL",
];

/// Whether these are the three uppercase letters of a currency.
fn is_currency(code: &str) -> bool {
    CODES.binary_search(&code).is_ok()
}

/// A currency, as it is written in ISO 4217.
pub fn currency() -> impl Rule<Out = String> + Clone {
    custom(Schema::Text { length: 3..=3, pattern: Some("^[A-Z]{3}$"), format: None }, read)
}

fn read(reader: &mut Reader, value: Value) -> Option<String> {
    match value {
        Value::String(code) if is_currency(&code) => Some(code),
        Value::String(_) => {
            reader.refuse("unknown_currency", "must be an ISO 4217 currency code, such as EUR");
            None
        }
        other => {
            reader.wrong_type("a currency code", &other);
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
        assert!(CODES.iter().all(|code| is_currency(code)));
        for wrong in ["", "EU", "eur", "EURO", "Eur", "XXX", "XTS", "XAU", "AAA", "ÄÖÜ", "E R"] {
            assert!(!is_currency(wrong), "{wrong}");
        }
    }
}
