//! The options of every command that calls the service.

use std::fmt;

use clap::error::ErrorKind;
use clap::{Args, Command};
use longshore_client::{Answer, Client, Error, Value};
use serde_json::Map;

use crate::Usage;
use crate::profile;
use crate::table::shown;

/// The variable of the access token. With `_FILE` after it, the variable names a file that has the token.
const TOKEN: &str = "LONGSHORE_TOKEN";

/// The service that is called where nothing names another.
pub(super) const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// The variable of the profile.
pub(super) const PROFILE: &str = "LONGSHORE_PROFILE";

/// The profile that is used where nothing names another.
pub(super) const DEFAULT_PROFILE: &str = "default";

/// Where the service is, and who calls.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Service")]
pub(super) struct Remote {
    /// Base URL of the service. Without it, that of the profile, or http://127.0.0.1:8080.
    #[arg(long, env = "LONGSHORE_URL", value_parser = url)]
    url: Option<String>,
    /// Access token. Without it, that of the profile. Prefer the environment: other users of the machine can see command lines.
    #[arg(long, env = TOKEN, hide_env_values = true)]
    token: Option<Token>,
    /// Profile to use, as made by `longshore login`.
    #[arg(long, env = PROFILE, default_value = DEFAULT_PROFILE)]
    profile: String,
    /// Print the response of the service as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// An access token, which is not printed for debugging.
#[derive(Clone)]
struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<String> for Token {
    fn from(token: String) -> Self {
        Self(token)
    }
}

impl Remote {
    pub(super) fn client(&self) -> anyhow::Result<Client> {
        let (url, token) = self.caller()?;
        let client =
            Client::builder(url, token.0).user_agent(concat!("longshore/", env!("CARGO_PKG_VERSION")));
        Ok(client.build()?)
    }

    fn caller(&self) -> anyhow::Result<(String, Token)> {
        // a variable that is set to nothing is not set
        if let Some(token) = self.token.as_ref().filter(|token| !token.0.is_empty()) {
            return Ok((self.url.clone().unwrap_or_else(|| DEFAULT_URL.to_owned()), token.clone()));
        }
        let name = shown(&self.profile);
        let Some(profile) = profile::find(&self.profile)? else {
            let usage =
                format!("there is no access token: set {TOKEN}, or run `longshore login` (profile {name})");
            return Err(Usage(usage).into());
        };
        // a token is for one service, and another one must not learn it
        if let Some(url) = self.url.as_ref().filter(|url| **url != profile.url) {
            return Err(Usage(format!("profile {name} is of {}, not of {url}", shown(&profile.url))).into());
        }
        Ok((profile.url, Token(profile.token)))
    }
}

pub(super) fn url(text: &str) -> Result<String, String> {
    // a client is cheap to make, and judges the URL
    match Client::new(text, "") {
        Ok(client) => Ok(client.base().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The response as JSON, for programs. Every response that a command shows is an object: no body, or another value, is not of the
/// service.
pub(super) fn json(answer: &Answer) -> Result<Value, Error> {
    answer.read::<Map<String, Value>>().map(Value::Object)
}

/// Why a command failed, without control characters of the service.
pub(super) fn reason(error: &anyhow::Error) -> String {
    let Some(error) = error.downcast_ref::<Error>() else { return shown(&format!("{error:#}")) };
    let text = error.reason();
    let lines: Vec<String> = text.lines().map(shown).collect();
    lines.join("\n")
}

/// Makes the content of the file that `LONGSHORE_TOKEN_FILE` names, without the end of its last line, the default of
/// each `--token`.
///
/// # Errors
/// The file cannot be read, or the token is given twice.
pub(super) fn with_token_from_file(command: Command) -> Result<Command, clap::Error> {
    let file_name = format!("{TOKEN}_FILE");
    let Some(file) = std::env::var_os(&file_name) else { return Ok(command) };
    if std::env::var_os(TOKEN).is_some() {
        let message = format!("{TOKEN} and {file_name} are both set; remove one of them");
        return Err(command.clone().error(ErrorKind::ArgumentConflict, message));
    }
    match std::fs::read_to_string(&file) {
        Ok(text) => Ok(with_default(command, text.trim_end_matches(['\r', '\n']))),
        Err(error) => {
            let message = format!("cannot read the file that {file_name} names: {error}");
            Err(command.clone().error(ErrorKind::Io, message))
        }
    }
}

/// The command with a default for each `--token`.
fn with_default(command: Command, token: &str) -> Command {
    let has_token = command.get_arguments().any(|argument| argument.get_id() == "token");
    let command = if has_token {
        let default = token.to_owned();
        command.mut_arg("token", |argument| {
            argument.default_value(default).hide_default_value(true).required(false)
        })
    } else {
        command
    };
    command.mut_subcommands(|sub| with_default(sub, token))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(subcommand)]
        command: Sub,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Sub {
        List(Remote),
    }

    #[test]
    fn the_content_of_a_file_is_the_token_of_each_command() {
        use clap::{CommandFactory as _, FromArgMatches as _};

        let command = with_default(Program::command(), "lsh_from_a_file");
        let matches = command.try_get_matches_from(["longshore", "list"]).unwrap();
        let Sub::List(remote) = Program::from_arg_matches(&matches).unwrap().command;
        assert_eq!(remote.token.as_ref().unwrap().0, "lsh_from_a_file");
        assert!(!format!("{remote:?}").contains("lsh_from_a_file"));

        let given = Program::try_parse_from(["longshore", "list", "--token", "lsh_given"]).unwrap();
        let Sub::List(remote) = given.command;
        let (url, token) = remote.caller().unwrap();
        assert_eq!((token.0.as_str(), url.as_str()), ("lsh_given", "http://127.0.0.1:8080"));
        let wrong = Program::try_parse_from(["longshore", "list", "--token", "t", "--url", "ftp://there"]);
        assert!(wrong.unwrap_err().to_string().contains("it must be an http or https URL"));
    }
}
