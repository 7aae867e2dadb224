//! The Debian packages, of the programs of this build, in a Debian that has nothing else: what they install, and what is left
//! when they are removed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};
use nix::unistd::geteuid;

use super::Test;
use crate::command::dist;
use crate::command::dist::debian::{self, PACKAGES};
use crate::place::DEV;
use crate::run;
use crate::scratch::Folder;
use crate::tools;

const NAME: &str = "Debian packages";

const SERVER: &str = "longshore-server";

const PROGRAMS: [&str; 3] = ["longshore", "longshore-api", "longshore-worker"];

const UNITS: [&str; 3] = ["longshore-migrate.service", "longshore-api.service", "longshore-worker@1.service"];

/// Where `systemctl enable` puts its links.
const ENABLED: &str = "etc/systemd/system/multi-user.target.wants";

const SETTINGS: &str = "etc/longshore/longshore.env";

/// The exit status of `longshore` where no service answers.
const UNREACHABLE: i32 = 4;

pub(super) fn packages(test: &mut Test) -> anyhow::Result<()> {
    if !geteuid().is_root() {
        test.skip(NAME, "only root can install them in a system of their own");
        return Ok(());
    }
    let (programs, packages) = (["debootstrap", "lintian"], ["debootstrap", "lintian"]);
    if !debian::can_be_made()? || !tools::ensure(&programs, &packages)? {
        test.skip(NAME, "debootstrap, lintian and dpkg-dev cannot be installed");
        return Ok(());
    }
    let base = match tools::debian() {
        Ok(base) => base,
        Err(error) => {
            run::check()?;
            eprintln!("{error:#}");
            test.skip(NAME, "debootstrap cannot install a system");
            return Ok(());
        }
    };
    test.need_programs()?;
    test.check(NAME, |test| {
        let folder = Folder::create(&test.place.data()?)?;
        let root = Root(folder.path().join("root"));
        run::run(run::command("cp").arg("-a").arg(&base).arg(&root.0))?;
        let out = root.0.join("packages");
        fs::create_dir(&out)?;
        let packages =
            debian::make(test.place, DEV, &dist::time(test.place), &dist::notices::text(test.place)?, &out)?;
        run::run(run::command("lintian").arg("--fail-on=error").args(&packages))?;
        root.install()?;
        root.programs_run()?;
        root.dependencies_are_declared()?;
        root.is_as_documented()?;
        root.nothing_runs_before_it_is_configured()?;
        root.settings_stay_until_they_are_purged()
    })
}

/// The folder of a Debian.
struct Root(PathBuf);

impl Root {
    /// A command in it, without settings of the caller.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = run::command("chroot");
        command.arg(&self.0).args(words).env_clear().current_dir("/");
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    fn run(&self, words: &[&str]) -> anyhow::Result<()> {
        run::run(&mut self.command(words))
    }

    /// What a command prints.
    fn ask(&self, words: &[&str]) -> anyhow::Result<String> {
        let output = self.command(words).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {}: {said}", words.join(" "), output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    fn has(&self, path: &str) -> bool {
        // a link to what is no longer there counts
        self.0.join(path).symlink_metadata().is_ok()
    }

    fn install(&self) -> anyhow::Result<()> {
        self.run(&["sh", "-c", "dpkg --install /packages/*.deb"])
    }

    fn programs_run(&self) -> anyhow::Result<()> {
        for program in PROGRAMS {
            let version = self.ask(&[program, "--version"])?;
            ensure!(version == format!("{program} {}\n", env!("CARGO_PKG_VERSION")), "{version}");
            self.ask(&[program, "--help"])?;
        }
        // it finds certificates, without which it does not begin a call
        let mut call = self.command(&["longshore", "queue", "list"]);
        call.env("LONGSHORE_URL", "http://127.0.0.1:1").env("LONGSHORE_TOKEN", "none");
        let called = call.output()?;
        ensure!(called.status.code() == Some(UNREACHABLE), "{called:?}");
        Ok(())
    }

    /// Each library is in a package that its program's package depends on.
    fn dependencies_are_declared(&self) -> anyhow::Result<()> {
        for program in PROGRAMS {
            let file = format!("/usr/bin/{program}");
            let package = self.package_of(&file)?;
            let depends = self.ask(&["dpkg-query", "--show", "--showformat=${Depends}", &package])?;
            let depends: Vec<&str> =
                depends.split([',', '|']).filter_map(|of| of.split_whitespace().next()).collect();
            let libraries = self.ask(&["ldd", &file])?;
            ensure!(!libraries.contains("not found"), "{libraries}");
            let libraries = libraries.lines().filter_map(|line| line.split_once("=> /")?.1.split(' ').next());
            for library in libraries {
                let name = library.rsplit('/').next().unwrap_or(library);
                let of = self.package_of(&format!("*/{name}"))?;
                ensure!(depends.contains(&of.as_str()), "{package} needs {of} for {name}: {depends:?}");
            }
        }
        Ok(())
    }

    /// The package that a file is of, without its architecture.
    fn package_of(&self, file: &str) -> anyhow::Result<String> {
        let found = self.ask(&["dpkg", "--search", file])?;
        found.split([':', ',']).next().map(str::to_owned).with_context(|| found.clone())
    }

    /// Manual pages, completions, the user, owners and modes, and units that name what is there.
    fn is_as_documented(&self) -> anyhow::Result<()> {
        for (package, _, programs) in PACKAGES {
            for program in programs {
                let page = self.ask(&["zcat", &format!("/usr/share/man/man1/{program}.1.gz")])?;
                ensure!(page.contains(&format!(".TH {program} 1")), "{page}");
            }
            let program = programs[0];
            self.ask(&["bash", "-n", &format!("/usr/share/bash-completion/completions/{program}")])?;
            for (file, text) in [
                (format!("zsh/vendor-completions/_{program}"), format!("#compdef {program}\n")),
                (format!("fish/vendor_completions.d/{program}.fish"), format!("complete -c {program} ")),
            ] {
                let completions = fs::read_to_string(self.0.join("usr/share").join(&file)).context(file)?;
                ensure!(completions.contains(&text), "{completions}");
            }
            ensure!(self.has(&format!("usr/share/doc/{package}/copyright")), "{package} has no copyright");
            let notices = self.ask(&["zcat", &format!("/usr/share/doc/{package}/THIRD-PARTY.gz")])?;
            ensure!(
                notices.contains("\nserde 1.") && notices.contains("Permission is hereby granted"),
                "{notices}"
            );
        }
        let user = self.ask(&["getent", "passwd", "longshore"])?;
        ensure!(user.ends_with(":/var/lib/longshore:/usr/sbin/nologin\n"), "{user}");
        for (file, mode) in [
            (SETTINGS, "640 root:longshore"),
            ("etc/longshore/migrate.env", "600 root:root"),
            ("usr/bin/longshore-api", "755 root:root"),
            ("usr/lib/systemd/system/longshore-api.service", "644 root:root"),
        ] {
            ensure!(self.mode(file)? == mode, "{file} is {}", self.mode(file)?);
        }
        self.run(&[&["systemd-analyze", "verify", "--man=no"], UNITS.as_slice()].concat())?;
        let units = self.ask(&["sh", "-c", "cat /usr/lib/systemd/system/longshore-*.service"])?;
        for page in units.lines().filter_map(|line| line.strip_prefix("Documentation=file:///")) {
            ensure!(self.has(page), "there is no {page}");
        }
        ensure!(!units.contains("/usr/local"), "{units}");
        Ok(())
    }

    fn mode(&self, file: &str) -> anyhow::Result<String> {
        Ok(self.ask(&["stat", "--format=%a %U:%G", &format!("/{file}")])?.trim().to_owned())
    }

    /// Also where an image with a new machine id enables whatever is installed.
    fn nothing_runs_before_it_is_configured(&self) -> anyhow::Result<()> {
        for unit in UNITS {
            self.run(&["systemctl", "preset", unit])?;
            ensure!(!self.has(&format!("{ENABLED}/{unit}")), "{unit} is enabled");
        }
        let running =
            fs::read_dir("/proc")?.filter_map(|entry| fs::read_link(entry.ok()?.path().join("root")).ok());
        ensure!(!running.into_iter().any(|root| root == self.0), "a process runs");
        Ok(())
    }

    fn settings_stay_until_they_are_purged(&self) -> anyhow::Result<()> {
        const MINE: &str = "REDIS_URL=redis://mine\n";
        let is_mine = || -> anyhow::Result<()> {
            ensure!(fs::read_to_string(self.0.join(SETTINGS))? == MINE, "the settings are others");
            ensure!(self.mode(SETTINGS)? == "600 root:root", "{}", self.mode(SETTINGS)?);
            Ok(())
        };
        fs::write(self.0.join(SETTINGS), MINE)?;
        self.run(&["chmod", "600", &format!("/{SETTINGS}")])?;
        self.run(&["chgrp", "root", &format!("/{SETTINGS}")])?;
        self.install()?;
        is_mine()?;
        self.run(&[&["systemctl", "enable"], UNITS.as_slice()].concat())?;
        ensure!(self.has(&format!("{ENABLED}/longshore-worker@1.service")), "a worker cannot be enabled");
        self.run(&["dpkg", "--remove", SERVER])?;
        is_mine()?;
        self.install()?;
        is_mine()?;

        let names = PACKAGES.map(|(package, ..)| package);
        self.run(&[&["dpkg", "--purge"], names.as_slice()].concat())?;
        let left =
            self.ask(&["sh", "-c", "find / -xdev -path /packages -prune -o -name '*longshore*' -print"])?;
        ensure!(left.is_empty(), "a purge leaves {left}");
        self.ask(&["getent", "passwd", "longshore"]).context("what the service stored has no owner")?;
        Ok(())
    }
}
