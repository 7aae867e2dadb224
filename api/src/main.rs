//! `longshore-api`: the HTTP API, and the commands that set it up.

use std::io::{self, Write as _};
use std::process::ExitCode;

use longshore_api::command::{Cli, moved};
use longshore_kernel::config;
use longshore_kernel::share::pace;
use tokio::runtime::Builder;

/// Calls start on one thread and end on another, for which the system's allocator has to lock its arenas.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(sentence) = moved(std::env::args()) {
        let _ = writeln!(io::stderr(), "{sentence}");
        return ExitCode::from(2);
    }
    let runtime = Builder::new_multi_thread().worker_threads(pace::threads()).enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(config::parse::<Cli>().run()),
        Err(error) => {
            let _ = writeln!(io::stderr(), "cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}
