//! Shell completions and manual pages for the command line.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, Exit};
use crate::output::stdout;

#[derive(Args, Debug)]
pub(super) struct Completions {
    /// Shell to print them for.
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "longshore", &mut text);
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use clap::{Arg, Command};

    use super::*;

    const PAGE: &str = include_str!("../../../docs/command-line.md");

    /// Options of all commands that call the service.
    const OF_SERVICE: [&str; 4] = ["url", "token", "profile", "json"];

    /// Options of all lists.
    const OF_LISTS: [&str; 5] = ["limit", "offset", "all", "ids", "csv"];

    /// The options of each command.
    type Options = BTreeMap<String, BTreeSet<String>>;

    fn read_commands(command: &Command, path: &str, found: &mut Options) {
        for sub in command.get_subcommands() {
            let path = format!("{path}{}", sub.get_name());
            if sub.has_subcommands() {
                read_commands(sub, &format!("{path} "), found);
            } else {
                let options = sub.get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect();
                found.insert(path, options);
            }
        }
    }

    fn commands() -> Options {
        let mut found = Options::new();
        read_commands(&Cli::command(), "", &mut found);
        found
    }

    fn code(text: &str) -> impl Iterator<Item = &str> {
        text.split('`').skip(1).step_by(2)
    }

    /// The options that a row of the page names, without those that the page explains once.
    fn named_options(row: &str) -> BTreeSet<String> {
        let words = code(row).flat_map(str::split_whitespace);
        let options = words.filter_map(|word| word.strip_prefix("--")).map(str::to_owned);
        options.filter(|name| !is_common(name)).collect()
    }

    fn is_common(name: &str) -> bool {
        OF_SERVICE.contains(&name) || OF_LISTS.contains(&name)
    }

    /// The commands of a row. Where one has no group, it is of that of the command before it.
    fn named_commands(row: &str, known: &Options) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for text in code(row.split('|').nth(1).unwrap()) {
            let is_word = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
            let name = text.split_whitespace().take_while(is_word).collect::<Vec<_>>().join(" ");
            let group = found.last().and_then(|before| before.split(' ').next()).unwrap_or_default();
            found.push(if known.contains_key(&name) { name } else { format!("{group} {name}") });
        }
        found
    }

    #[test]
    fn the_page_has_each_command_with_its_options_and_no_other() {
        let known = commands();
        let part = PAGE.split("\n## ").find(|part| part.starts_with("For scripts")).unwrap();
        let mut missing: BTreeSet<_> = known.keys().cloned().collect();
        for row in part.lines().filter(|line| line.starts_with("| `")) {
            let mut of_row = BTreeSet::new();
            for command in named_commands(row, &known) {
                let options =
                    known.get(&command).unwrap_or_else(|| panic!("there is no command {command}: {row}"));
                assert!(missing.remove(&command), "{command} has two rows");
                of_row.extend(options.iter().filter(|name| !is_common(name)).cloned());
            }
            assert_eq!(named_options(row), of_row, "{row}");
        }
        assert!(missing.is_empty(), "the page has no {missing:?}");
    }

    #[test]
    fn the_options_that_the_page_explains_once_are_those_of_all_commands() {
        let has =
            |options: &BTreeSet<String>, wanted: &[&str]| wanted.iter().all(|name| options.contains(*name));
        for (command, options) in commands() {
            let alone = ["wms check", "completions", "man", "login", "logout"].contains(&command.as_str());
            assert!(alone || has(&options, &OF_SERVICE), "{command}");
            let is_list = command.ends_with(" list")
                || ["audit", "job changes", "job errors", "job preview", "wms lost"]
                    .contains(&command.as_str());
            let is_whole = ["queue list", "attention list"].contains(&command.as_str());
            assert_eq!(has(&options, &OF_LISTS), is_list && !is_whole, "{command}");
        }
    }

    #[test]
    fn the_page_and_the_help_state_each_exit_status() {
        let help = Cli::command().render_long_help().to_string();
        for exit in [Exit::Done, Exit::Failed, Exit::Usage, Exit::Refused, Exit::Unreachable, Exit::Refusals]
        {
            let status = exit as u8;
            assert!(PAGE.contains(&format!("\n| {status} | ")), "{status}");
            assert!(help.contains(&format!("\n  {status}  ")), "{status}: {help}");
        }
    }
}
