//! Tests of the program `longshore`, without the service.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]

mod wms;
