//! The task runner behind `./dev`: everything around the product on a developer's machine.
//!
//! `./dev` installs system packages, builds this program and hands over to it; `cargo xtask` runs it directly. Each command
//! is one file of [`command`], and `./dev help` describes them. What they start they also stop, by process id; what they
//! write is in `.dev`.
//!
//! - [`place`]: folders, ports and settings;
//! - [`run`]: programs that are run to their end, and signals, which end them first;
//! - [`scratch`]: Postgres and Redis of one run;
//! - [`tail`]: the last lines of what a check printed;
//! - [`tools`]: programs and packages that only some checks need.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people, who read it there")]

mod command;
mod place;
mod run;
mod scratch;
mod tail;
mod tools;

use std::process::ExitCode;

use anyhow::bail;

use crate::place::Place;

/// What `./dev help` prints.
const HELP: &str = include_str!("help.txt");

/// The status for a command that does not exist.
const UNKNOWN: u8 = 2;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_else(|| "help".to_owned());
    let arguments: Vec<String> = arguments.collect();
    let ran = match command.as_str() {
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        known => run::listen().and_then(|()| perform(known, &arguments)),
    };
    ran.unwrap_or_else(|error| {
        run::stopped_by(&error).map_or_else(
            || {
                eprintln!("./dev: {error:#}");
                ExitCode::FAILURE
            },
            ExitCode::from,
        )
    })
}

fn perform(command: &str, arguments: &[String]) -> anyhow::Result<ExitCode> {
    let place = Place::from_environment()?;
    let given: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match (command, given.as_slice()) {
        ("up", []) => command::up::up(&place, false)?,
        ("up", ["--detach"]) => command::up::up(&place, true)?,
        ("up", _) => bail!("up takes --detach only"),
        ("__supervise", []) => command::up::supervise(&place)?,
        ("down", _) => command::up::down(&place)?,
        ("reset", _) => command::up::reset(&place)?,
        ("demo", further) => command::run::demo(&place, further)?,
        ("bench", further) => command::run::bench(&place, further)?,
        ("chaos", further) => command::run::chaos(&place, further)?,
        ("dist", _) => command::dist::dist(&place)?,
        ("fuzz", further) => command::fuzz::fuzz(&place, further)?,
        ("lines", []) => command::lines::lines(&place)?,
        ("prepare", _) => command::prepare::prepare(&place)?,
        ("release", [version]) => command::release::release(&place, version)?,
        ("upgrade", [version]) => command::upgrade::upgrade(&place, version, None)?,
        ("upgrade", [version, "--from", from]) => command::upgrade::upgrade(&place, version, Some(from))?,
        ("psql", further) => command::up::psql(&place, further)?,
        ("logs", further) => command::up::logs(&place, further)?,
        ("test", further) => command::test::test(&place, further)?,
        _ => {
            eprint!("{HELP}");
            return Ok(ExitCode::from(UNKNOWN));
        }
    }
    Ok(ExitCode::SUCCESS)
}
