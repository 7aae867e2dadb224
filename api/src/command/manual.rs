//! Shell completions and manual pages for the command line.

use std::io::{Write as _, stdout};
use std::path::PathBuf;

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

#[derive(Args, Debug)]
pub(super) struct Man {
    /// Folder to write the pages of all commands to; without it, the first page goes to standard output.
    #[arg(long)]
    folder: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        match &self.folder {
            Some(folder) => {
                std::fs::create_dir_all(folder)?;
                clap_mangen::generate_to(Cli::command(), folder)?;
            }
            None => clap_mangen::Man::new(Cli::command()).render(&mut stdout())?,
        }
        Ok(Exit::Done)
    }
}
