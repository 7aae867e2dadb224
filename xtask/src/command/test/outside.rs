//! Checks of the running service from outside: its document, generated clients, pages, monitoring; and of the chart, which installs
//! it. They are scripts in `api/tests/outside`, in the languages of those who call it.

use std::fs;
use std::path::PathBuf;

use anyhow::ensure;

use super::Test;
use crate::place::{DEV, setting};
use crate::run;
use crate::tools::{self, have};

/// How long schemathesis runs for each of two roles, in seconds.
const FUZZ: &str = "75";

/// What the clients in PHP are built with.
const GUZZLE: &str = "require 'GuzzleHttp/autoload.php'; exit(extension_loaded('curl') && extension_loaded('mbstring') ? 0 : 1);";

/// The result of installing something, unless a signal ended it.
pub(super) fn unless_stopped<T>(installed: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    run::check()?;
    Ok(installed.inspect_err(|error| eprintln!("{error:#}")).ok())
}

pub(super) fn document(test: &mut Test) -> anyhow::Result<()> {
    let Some(python) = unless_stopped(tools::outside_python(test.place))? else {
        test.skip("the document, schemathesis", "the package index of Python cannot be reached");
        return Ok(());
    };
    test.need_programs()?;
    let seconds = setting("LONGSHORE_DEV_FUZZ_SECONDS").unwrap_or_else(|| FUZZ.to_owned());
    let fuzzing = python.clone();
    test.queue("schemathesis", move |test| run::run(test.outside(&fuzzing, "fuzz.py")?.arg(seconds)));
    test.queue("document", move |test| run::run(&mut test.outside(&python, "document.py")?));
    Ok(())
}

/// Clients of five generators, each of which drives the service; and a linter of the document.
pub(super) fn clients(test: &mut Test) -> anyhow::Result<()> {
    let java = tools::ensure(&["java"], &["default-jre-headless"])?;
    let guzzle = || run::succeeds(run::command("php").args(["-r", GUZZLE]));
    let packages = ["php-cli", "php-curl", "php-mbstring", "php-guzzlehttp-guzzle", "php-guzzlehttp-psr7"];
    let php = guzzle() || (tools::install_optional(&packages)? && guzzle());
    let npm = tools::ensure(&["npm"], &["npm"])?;
    let installed =
        |test: &Test| anyhow::Ok((tools::npm(test.place, "clients")?, tools::outside_python(test.place)?));
    let Some((npm, python)) = (if npm { unless_stopped(installed(test))? } else { None }) else {
        let reason = "the package indexes of Python and npm cannot be reached";
        test.skip("generated clients, the document's linter", reason);
        return Ok(());
    };
    let mut clients = vec!["openapi_python_client", "hey_api"];
    if java {
        clients.push("typescript_fetch");
        clients.extend(php.then_some("php"));
        clients.push("python");
        if !php {
            test.skip("the client in PHP", "PHP and Guzzle cannot be installed");
        }
    } else {
        test.skip("clients of openapi-generator", "Java cannot be installed");
    }
    test.check("the document, as redocly reads it", |test| {
        let mut redocly = test.place.command(npm.join("node_modules/.bin/redocly"));
        redocly.env("REDOCLY_TELEMETRY", "off").env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
        redocly.args(["lint", "--config", "api/tests/outside/clients/redocly.yaml", "--format", "summary"]);
        run::run(redocly.arg("api/openapi.json"))
    })?;
    test.need_programs()?;
    test.queue("generated clients", move |test| {
        run::run(test.outside(&python, "clients.py")?.args(clients).env("CLIENT_TOOLS", &npm))
    });
    Ok(())
}

pub(super) fn console(test: &mut Test) -> anyhow::Result<()> {
    let browser = tools::ensure(&["npm"], &["npm"])? && tools::ensure(&["chromium"], &["chromium"])?;
    let npm = if browser { unless_stopped(tools::npm(test.place, "console"))? } else { None };
    let (Some(npm), Some(chromium)) = (npm, tools::which("chromium")) else {
        let reason = "npm, Chromium or the package index of npm is not available";
        test.skip("the console, /docs, in a browser", reason);
        return Ok(());
    };
    test.need_programs()?;
    for (name, script) in [
        ("the pages at /docs, in a browser", "console/docs.mjs"),
        ("the console, in a browser", "console/run.mjs"),
    ] {
        let (npm, chromium) = (npm.clone(), chromium.clone());
        test.queue(name, move |test| {
            let mut node = test.outside("node", script)?;
            node.args(&test.pictures).env("CONSOLE_TOOLS", &npm).env("CHROMIUM", &chromium);
            run::run(&mut node)
        });
    }
    Ok(())
}

/// What Helm makes of the chart; nothing is started.
pub(super) fn chart(test: &mut Test) -> anyhow::Result<()> {
    let name = "the chart of Helm";
    let Some(python) = unless_stopped(tools::outside_python(test.place))? else {
        test.skip(name, "the package index of Python cannot be reached");
        return Ok(());
    };
    test.check(name, |test| {
        let mut chart = test.place.command(&python);
        run::run(chart.arg("api/tests/outside/chart.py").env("PYTHONDONTWRITEBYTECODE", "1"))
    })
}

pub(super) fn monitoring(test: &mut Test) -> anyhow::Result<()> {
    let name = "rules, alerts, dashboard";
    let Some(folder) = unless_stopped(tools::prometheus())? else {
        test.skip(name, "Debian's package of Prometheus cannot be fetched");
        return Ok(());
    };
    test.tools.extend(folder);
    test.need_programs()?;
    test.queue(name, |test| run::run(&mut test.outside("python3", "monitoring.py")?));
    Ok(())
}

/// The pages whose commands are run, besides those in the folders below.
const PAGES: [&str; 10] = [
    "README",
    "docs/operating",
    "docs/upgrades",
    "docs/backup",
    "docs/runbook",
    "docs/security",
    "docs/scaling",
    "docs/command-line",
    "docs/limits",
    "docs/reference/webhooks",
];
const FOLDERS_OF_PAGES: [&str; 2] = ["docs/quick-start", "api/src/openapi/docs/chapter"];

/// Runs every command of every page.
pub(super) fn pages(test: &mut Test) -> anyhow::Result<()> {
    let programs =
        [("curl", "curl"), ("jq", "jq"), ("openssl", "openssl"), ("php", "php-cli"), ("node", "nodejs")];
    let missing: Vec<&str> =
        programs.iter().filter(|(program, _)| !have(&[program])).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        tools::install_optional(&missing)?;
    }
    if !have(&["curl", "jq", "openssl"]) {
        test.skip("pages of docs/", "curl, jq and openssl cannot be installed");
        return Ok(());
    }
    for program in ["php", "node"] {
        if !have(&[program]) {
            test.skip(&format!("pages of docs/: {program}"), "it cannot be installed");
        }
    }
    test.need_programs()?;
    test.check("settings in docs/operating.md", |test| {
        let mut settings = test.place.command("python3");
        let programs = test.place.program(DEV, "");
        run::run(settings.arg("api/tests/outside/settings.py").env("PROGRAMS", programs))
    })?;
    let mut pages = PAGES.map(|page| PathBuf::from(page).with_extension("md")).to_vec();
    for folder in FOLDERS_OF_PAGES {
        let mut found = Vec::new();
        for entry in fs::read_dir(test.place.root.join(folder))? {
            let name = PathBuf::from(entry?.file_name());
            if name.extension().is_some_and(|extension| extension == "md") {
                found.push(PathBuf::from(folder).join(name));
            }
        }
        ensure!(!found.is_empty(), "there are no pages in {folder}");
        found.sort();
        pages.extend(found);
    }
    for page in pages {
        let name = page.display().to_string();
        test.queue(&name, move |test| run::run(test.outside("python3", "pages.py")?.arg(&page)));
    }
    test.queue("docs/quick-start/receivers", |test| run::run(&mut test.outside("python3", "receivers.py")?));
    Ok(())
}
