//! Enums that are stored and shown as words: states and kinds. [`words!`](crate::words) gives such an enum its words and its
//! form in SQL, in JSON and in text, all from one table.

/// A word of programs as people say it: `waiting_for_goods` is "waits for goods", and `product.sync` a "product sync".
#[must_use]
pub fn plain(word: &str) -> String {
    let word = word.replace(['_', '.'], " ");
    let waits = word.strip_prefix("waiting for ").or_else(|| word.strip_prefix("awaiting "));
    waits.map_or_else(|| word.clone(), |what| format!("waits for {what}"))
}

/// A word that its enum does not have: it was stored by another version, or is a wrong input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {enumeration} {word:?}")]
pub struct UnknownWord {
    /// What the enum lists, for a sentence.
    pub enumeration: &'static str,
    /// The word.
    pub word: String,
}

/// Defines an enum whose values are words: `words! { /// … pub enum State ("state of a job") { /// … Queued = "queued" } }`.
///
/// It can be read as a column (`state AS "state: State"`) and bound as a parameter. A stored word that it does not have is
/// an error of the query that names the word.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* $visible:vis enum $name:ident ($enumeration:literal) {
        $($(#[$about_value:meta])* $value:ident = $word:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visible enum $name {
            $($(#[$about_value])* $value,)+
        }

        impl $name {
            /// Every value, in the order of the table.
            $visible const ALL: [Self; [$($word),+].len()] = [$(Self::$value),+];

            /// The word of every value, in the same order.
            $visible const WORDS: [&'static str; [$($word),+].len()] = [$($word),+];

            /// Its word.
            #[must_use]
            $visible const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::word::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$value),)+
                    _ => Err($crate::word::UnknownWord { enumeration: $enumeration, word: word.to_owned() }),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str> as serde::Deserialize<'de>>::deserialize(deserializer)?;
                word.parse().map_err(serde::de::Error::custom)
            }
        }

        impl sqlx::Type<sqlx::Postgres> for $name {
            fn type_info() -> sqlx::postgres::PgTypeInfo {
                <str as sqlx::Type<sqlx::Postgres>>::type_info()
            }

            fn compatible(info: &sqlx::postgres::PgTypeInfo) -> bool {
                <str as sqlx::Type<sqlx::Postgres>>::compatible(info)
            }
        }

        impl<'r> sqlx::Decode<'r, sqlx::Postgres> for $name {
            fn decode(value: sqlx::postgres::PgValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
                Ok(<&str as sqlx::Decode<'r, sqlx::Postgres>>::decode(value)?.parse()?)
            }
        }

        impl<'q> sqlx::Encode<'q, sqlx::Postgres> for $name {
            fn encode_by_ref(
                &self,
                buffer: &mut sqlx::postgres::PgArgumentBuffer,
            ) -> Result<sqlx::encode::IsNull, sqlx::error::BoxDynError> {
                <&str as sqlx::Encode<'q, sqlx::Postgres>>::encode_by_ref(&self.as_str(), buffer)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::plain;

    words! {
        /// A colour.
        enum Colour ("colour") {
            /// Like the sky.
            Blue = "blue",
            /// Like grass.
            Green = "green",
        }
    }

    #[test]
    fn a_word_reads_back_in_text_and_in_json() {
        for (value, word) in Colour::ALL.into_iter().zip(Colour::WORDS) {
            assert_eq!(word.parse(), Ok(value));
            assert_eq!((value.as_str(), value.to_string().as_str()), (word, word));
            let json = serde_json::to_value(value).unwrap();
            assert_eq!(json, word);
            assert_eq!(serde_json::from_value::<Colour>(json).unwrap(), value);
        }
        assert_eq!((Colour::ALL, Colour::WORDS), ([Colour::Blue, Colour::Green], ["blue", "green"]));
    }

    #[test]
    fn words_of_programs_are_said_plainly() {
        let said =
            ["waiting_for_goods", "awaiting_processing", "product.sync", "waiting", "failed"].map(plain);
        assert_eq!(said, ["waits for goods", "waits for processing", "product sync", "waiting", "failed"]);
    }

    #[test]
    fn an_unknown_word_is_an_error_that_names_it() {
        let error = "red".parse::<Colour>().unwrap_err();
        assert_eq!(error.to_string(), "there is no colour \"red\"");
        assert!(
            serde_json::from_str::<Colour>("\"red\"")
                .unwrap_err()
                .to_string()
                .starts_with("there is no colour")
        );
    }
}
