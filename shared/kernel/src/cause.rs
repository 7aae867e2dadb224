//! An error with its causes as one text, each cause once.

use std::error::Error;
use std::fmt;

/// An error that shows its causes, too.
#[derive(Clone, Copy, Debug)]
pub struct Causes<'e>(&'e (dyn Error + 'static));

/// The error with its causes, for a log line or a terminal.
#[must_use]
pub fn causes<'e>(error: &'e (dyn Error + 'static)) -> Causes<'e> {
    Causes(error)
}

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        let mut source = self.0.source();
        while let Some(cause) = source {
            let cause_said = cause.to_string();
            // many errors say in their own sentence what their cause says, too
            if !said.contains(&cause_said) {
                said.push_str(": ");
                said.push_str(&cause_said);
            }
            source = cause.source();
        }
        f.write_str(&said)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::problem::Problem;
    use crate::queue::QueueError;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Self>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|beneath| beneath as _)
        }
    }

    fn said(layers: &[&'static str]) -> String {
        let layered = layers.iter().rev().fold(None, |beneath, text| Some(Box::new(Layer(text, beneath))));
        causes(&*layered.unwrap()).to_string()
    }

    #[test]
    fn each_cause_is_said_once() {
        assert_eq!(said(&["it failed"]), "it failed");
        assert_eq!(said(&["it failed", "no room", "disk full"]), "it failed: no room: disk full");
        assert_eq!(said(&["it failed: no room", "no room", "disk full"]), "it failed: no room: disk full");
        assert_eq!(said(&["it failed (no room) today", "no room"]), "it failed (no room) today");
        assert_eq!(said(&["a", "b", "a", "b", ""]), "a: b");
    }

    #[test]
    fn a_cause_of_postgres_or_redis_is_shown_once() {
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, "Connection refused");
        let problem = Problem::from(sqlx::Error::Io(refused()));
        assert_eq!(
            causes(&problem).to_string(),
            "unavailable: the database is not available; try again in a moment: error communicating with database: \
             Connection refused"
        );
        let error = QueueError::from(redis::RedisError::from(refused()));
        assert_eq!(causes(&error).to_string().matches("Connection refused").count(), 1, "{}", causes(&error));
    }
}
