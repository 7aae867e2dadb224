//! Shell completions for the command line.

use std::io::{Write as _, stdout};

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, Exit};

#[derive(Args, Debug)]
pub(super) struct Completions {
    /// Shell to print them for.
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "longshore-api", &mut text);
        stdout().write_all(&text)?;
        Ok(Exit::Done)
    }
}
