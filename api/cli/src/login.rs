//! `longshore login` and `logout`: profiles, so that no command needs a URL and a token.

use std::io::{self, BufRead as _, Write as _, stderr};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use console::Term;
use longshore_client::{Client, DateTime, Uuid};

use crate::output::stdout;
use crate::profile::{self, Profile};
use crate::remote::{self, DEFAULT_PROFILE, DEFAULT_URL, PROFILE};
use crate::{Exit, Usage, table};

#[derive(Args, Debug)]
pub(super) struct Login {
    /// Base URL of the service.
    #[arg(long, env = "LONGSHORE_URL", default_value = DEFAULT_URL, value_parser = remote::url)]
    url: String,
    /// Name of the profile.
    #[arg(long, env = PROFILE, default_value = DEFAULT_PROFILE)]
    profile: String,
    /// Kind of the account.
    #[arg(long = "as", value_enum, default_value_t = Kind::Admin)]
    kind: Kind,
    /// E-mail address of the account. The password is asked for, or is the first line of standard input.
    #[arg(long = "login", value_name = "EMAIL", required_unless_present = "with_token")]
    account: Option<String>,
    /// Code of the second factor; without it, it is asked for when it is needed.
    #[arg(long, requires = "account")]
    code: Option<String>,
    /// Keep an access token, which is the first line of standard input, instead of logging in.
    #[arg(long, conflicts_with_all = ["account", "kind"])]
    with_token: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// An admin of the service.
    Admin,
    /// A business user of an organisation.
    User,
}

#[derive(Args, Debug)]
pub(super) struct Logout {
    /// Name of the profile.
    #[arg(long, env = PROFILE, default_value = DEFAULT_PROFILE)]
    profile: String,
}

impl Login {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let made = match &self.account {
            Some(account) => self.log_in(account).await?,
            None => self.of_token().await?,
        };
        let until =
            made.expires_at.map_or_else(String::new, |end| format!(", until {}", end.format("%F %T UTC")));
        profile::keep(&self.profile, Some(made))?;
        writeln!(stdout(), "profile {} is of {}{until}", table::shown(&self.profile), self.url)?;
        Ok(Exit::Done)
    }

    async fn log_in(&self, login: &str) -> anyhow::Result<Profile> {
        let client = Client::new(&self.url, "")?;
        let password = secret("Password")?;
        let is_admin = self.kind == Kind::Admin;
        let mut answer = client.log_in(is_admin, login, &password, self.code.as_deref()).send().await;
        let needs_code =
            |error: &longshore_client::Error| error.problem().is_some_and(|p| p.code == "code_required");
        if self.code.is_none() && answer.as_ref().is_err_and(needs_code) && Term::stderr().is_term() {
            let code = secret("Code of the second factor")?;
            answer = client.log_in(is_admin, login, &password, Some(&code)).send().await;
        }
        let answer = answer?;
        Ok(Profile {
            url: self.url.clone(),
            token: answer.token,
            account: Some(login.to_owned()),
            expires_at: DateTime::from_timestamp(answer.exp, 0),
        })
    }

    async fn of_token(&self) -> anyhow::Result<Profile> {
        let token = secret("Access token")?;
        // each role may ask for a job; only an unknown token is 401
        let asked = Client::new(&self.url, &token)?.job(Uuid::nil()).once().await?;
        if asked.status().as_u16() == 401 {
            asked.success()?;
        }
        Ok(Profile { url: self.url.clone(), token, account: None, expires_at: None })
    }
}

impl Logout {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        let name = table::shown(&self.profile);
        let before = profile::keep(&self.profile, None)?;
        let before = before
            .with_context(|| format!("there is no profile {name}"))
            .map_err(|error| Usage(error.to_string()))?;
        let until = before
            .expires_at
            .map_or_else(String::new, |end| format!("; its token ends at {}", end.format("%F %T UTC")));
        writeln!(stdout(), "profile {name} is removed{until}")?;
        Ok(Exit::Done)
    }
}

/// Asks for something that is not shown while it is typed; without a terminal, the next line of standard input.
fn secret(what: &str) -> anyhow::Result<String> {
    let terminal = Term::stderr();
    let line = if io::IsTerminal::is_terminal(&io::stdin()) && terminal.is_term() {
        write!(stderr(), "{what}: ")?;
        terminal.read_secure_line()?
    } else {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        line
    };
    let line = line.trim_end_matches(['\r', '\n']);
    if line.is_empty() {
        return Err(Usage(format!("{what}: standard input is empty")).into());
    }
    Ok(line.to_owned())
}
