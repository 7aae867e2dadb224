#![no_main]

#[path = "../bodies.rs"]
#[allow(dead_code, reason = "it holds the other targets too")]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::csv(data));
