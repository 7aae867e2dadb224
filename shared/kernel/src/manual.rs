//! Manual pages of a program, made of its command line.

use std::io::{self, stdout};
use std::path::PathBuf;

use clap::{Args, Command};

/// Where the pages go.
#[derive(Args, Debug)]
pub struct Man {
    /// Folder to write the pages of all commands to; without it, the first page goes to standard output.
    #[arg(long)]
    folder: Option<PathBuf>,
}

impl Man {
    /// Writes them.
    ///
    /// # Errors
    /// The folder or standard output cannot be written to.
    pub fn write(&self, program: Command) -> io::Result<()> {
        match &self.folder {
            Some(folder) => {
                std::fs::create_dir_all(folder)?;
                clap_mangen::generate_to(program, folder)
            }
            None => clap_mangen::Man::new(program).render(&mut stdout()),
        }
    }
}
