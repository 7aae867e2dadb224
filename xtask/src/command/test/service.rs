//! Checks of how the service is deployed: beside a standby of Postgres, behind a pooler, by docker compose, by systemd.

use std::fs;

use anyhow::{Context as _, bail, ensure};
use longshore_stack::port::on_free_port;
use longshore_stack::postgres::{self, Cluster};
use nix::unistd::geteuid;

use super::outside::unless_stopped;
use super::{Test, copy};
use crate::place::DEV;
use crate::run;
use crate::tools::{self, have, install_optional};

/// The exposure that `systemd-analyze security` may find in a unit.
const EXPOSURE: &str = "--threshold=20";

/// An api process that knows only a standby of Postgres.
pub(super) fn standby(test: &mut Test) -> anyhow::Result<()> {
    test.need_programs()?;
    test.check("a standby that answers what only reads", |test| {
        let scratch = test.started()?;
        let cluster = Cluster::in_folder(scratch.folder.path().join("standby"))?;
        cluster.copy_from(scratch.postgres_port)?;
        let settings = [("hot_standby", "on"), ("max_connections", "400")];
        let (server, port) = on_free_port(|port| cluster.start(port, &settings))?;
        let ran = run::run(test.outside("python3", "standby.py")?.env("STANDBY_PORT", port.to_string()));
        cluster.stop();
        drop(server);
        ran
    })
}

/// The service behind a pooler, and behind one that loses something.
pub(super) fn pooler(test: &mut Test) -> anyhow::Result<()> {
    let name = "a pooler";
    let pgbouncer = match tools::pgbouncer() {
        Ok(pgbouncer) => pgbouncer,
        Err(error) => {
            run::check()?;
            eprintln!("{error:#}");
            test.skip(name, "PgBouncer of Debian 13 cannot be fetched");
            return Ok(());
        }
    };
    test.need_programs()?;
    test.check(name, |test| {
        let scratch = test.started()?;
        let mut python = test.place.command("python3");
        python.arg("api/tests/outside/pooler.py").env("PGBOUNCER", &pgbouncer);
        python.env("PROGRAMS", test.place.program(DEV, "")).env("PYTHONDONTWRITEBYTECODE", "1");
        python.env("DATABASE_URL", &scratch.database_url).env("REDIS_URL", &scratch.redis_url);
        run::run(&mut python)
    })
}

pub(super) fn compose(test: &mut Test) -> anyhow::Result<()> {
    let known = || -> Option<&'static [&'static str]> {
        let commands: [&[&str]; 2] = [&["docker", "compose"], &["docker-compose"]];
        commands
            .into_iter()
            .find(|command| run::succeeds(run::command(command[0]).args(&command[1..]).arg("version")))
    };
    let mut compose = known();
    if compose.is_none() && install_optional(&["docker-compose"])? {
        compose = known();
    }
    let Some(compose) = compose else {
        test.skip("docker-compose.yml", "docker compose cannot be installed");
        return Ok(());
    };
    test.scratch()?;
    test.check("docker-compose.yml", |test| {
        // The command at its head writes what it needs; nothing is started.
        let folder = test.started()?.folder.path().join("compose");
        copy(&test.place.root.join("deploy/docker"), &folder.join("deploy/docker"))?;
        fs::copy(test.place.root.join("docker-compose.yml"), folder.join("docker-compose.yml"))?;
        let command = |arguments: &[&str]| {
            let mut command = run::command(compose[0]);
            command.args(&compose[1..]).args(arguments).current_dir(&folder);
            command
        };
        run::run(&mut run::command(folder.join("deploy/docker/secrets")))?;
        run::run(&mut command(&["config", "--quiet"]))?;
        let tls = ["-f", "docker-compose.yml", "-f", "deploy/docker/tls.yml", "config", "--quiet"];
        run::run(command(&tls).env("LONGSHORE_HOST", "longshore.example"))?;
        let monitoring = command(&["--profile", "monitoring", "config"]).output()?;
        let monitoring = String::from_utf8_lossy(&monitoring.stdout).contains("grafana/grafana");
        ensure!(monitoring, "the profile monitoring has no Grafana");
        // Without secrets everything is refused: no password is known.
        let without = run::succeeds(&mut command(&["--env-file", "/dev/null", "config", "--quiet"]));
        ensure!(!without, "it starts without secrets");
        Ok(())
    })?;
    installation(test, &compose.join(" "))
}

/// The same file with what runs in its containers, but for the engine.
fn installation(test: &mut Test, compose: &str) -> anyhow::Result<()> {
    let name = "an installation by docker-compose.yml";
    if !geteuid().is_root() {
        test.skip(name, "only root can run its containers without an engine");
        return Ok(());
    }
    let (programs, packages) = (["bwrap", "ip", "curl", "jq"], ["bubblewrap", "iproute2", "curl", "jq"]);
    let python = || anyhow::Ok((tools::caddy()?, tools::outside_python(test.place)?));
    let installed = if tools::ensure(&programs, &packages)? { unless_stopped(python())? } else { None };
    let Some((caddy, python)) = installed else {
        test.skip(name, "bubblewrap, iproute2, curl, jq, Caddy or the package index of Python cannot be had");
        return Ok(());
    };
    test.need_programs()?;
    let caddy = caddy.unwrap_or_else(|| "/usr/bin".into());
    let compose = compose.to_owned();
    test.queue(name, move |test| {
        let mut install = test.place.command(&python);
        install.arg("api/tests/outside/compose.py").env("PROGRAMS", test.place.program(DEV, ""));
        install.env("POSTGRES", postgres::programs()?).env("CADDY", &caddy).env("COMPOSE", &compose);
        run::run(install.env("PYTHONDONTWRITEBYTECODE", "1"))
    });
    Ok(())
}

/// The units as systemd reads them, with the programs of this build in place of installed ones; and how much they may do.
pub(super) fn units(test: &mut Test) -> anyhow::Result<()> {
    let name = "systemd units";
    if !have(&["systemd-analyze"]) {
        test.skip(name, "systemd is not installed");
        return Ok(());
    }
    test.need_programs()?;
    test.check(name, |test| {
        let folder = test.started()?.folder.path().join("units");
        fs::create_dir_all(&folder)?;
        let programs = test.place.program(DEV, "");
        let mut units = Vec::new();
        for entry in fs::read_dir(test.place.root.join("deploy/systemd"))? {
            let file = entry?.path();
            if file.extension().is_none_or(|extension| extension != "service") {
                continue;
            }
            let unit = fs::read_to_string(&file)?
                .replace("ExecStart=/usr/local/bin/", &format!("ExecStart={}", programs.display()));
            let name = file.file_name().context("a unit")?.to_string_lossy().replace("@.", "@1.");
            fs::write(folder.join(&name), unit)?;
            units.push(folder.join(name));
        }
        ensure!(!units.is_empty(), "there are no units");
        run::run(run::command("systemd-analyze").args(["verify", "--man=no"]).args(&units))?;
        for unit in units {
            let mut security = run::command("systemd-analyze");
            security.args(["security", "--offline=yes", EXPOSURE, "--no-pager"]).arg(unit);
            let said = security.output()?;
            let text = String::from_utf8_lossy(&said.stdout).into_owned();
            println!("{}", text.lines().last().unwrap_or_default());
            if !said.status.success() {
                bail!("{}", String::from_utf8_lossy(&said.stderr));
            }
        }
        Ok(())
    })
}
