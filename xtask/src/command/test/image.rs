//! The image: `Dockerfile` is built without an engine, and its programs run in what comes out.
//!
//! The images that it begins with are made here, under the names that it says, of Debian's packages and of the toolchain and crates
//! of this machine. A build takes minutes, so a run of all checks leaves it out while nothing that it is made of has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use nix::unistd::geteuid;

use super::Test;
use super::outside::unless_stopped;
use crate::place::{DEV, Place, sha256};
use crate::run::{self, step};
use crate::tools;

const NAME: &str = "the image";

/// What is built; removed at the end.
const BUILT: &str = "localhost/longshore:test";

/// What the image of the toolchain has besides what a build sees of this machine. No crate is fetched: all are there.
const COMPILER: &str = "
RUN apt-get update \\
    && apt-get install -y --no-install-recommends -o DPkg::Options::=--force-unsafe-io ca-certificates gcc libc6-dev \\
    && rm -rf /var/lib/apt/lists/* \\
    && mkdir -p /usr/local/cargo && ln -s /mnt/config.toml /usr/local/cargo/config.toml
ENV CARGO_HOME=/usr/local/cargo CARGO_NET_OFFLINE=true CARGO_INCREMENTAL=0
ENV PATH=/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
";

/// Everything that tells whether the image can be built, but for the code that all other checks compile.
const INPUTS: [&str; 9] = [
    "Dockerfile",
    ".dockerignore",
    "*Cargo.toml",
    "Cargo.lock",
    "deploy/docker/ready",
    "rust-toolchain.toml",
    "docs/glossary.md",
    "xtask/src/command/test/image.rs",
    "api/tests/outside/image.py",
];

pub(super) fn image(test: &mut Test) -> anyhow::Result<()> {
    if !geteuid().is_root() {
        test.skip(NAME, "only root can build it without an engine");
        return Ok(());
    }
    let cache = tools::cache("image")?;
    let (last, inputs) = (cache.join("inputs"), inputs(test.place)?);
    match fs::read_to_string(&last) {
        _ if test.by_name => {}
        Ok(last) if last == inputs => {
            test.unchanged(NAME);
            return Ok(());
        }
        Ok(_) => {}
        Err(_) => {
            test.skip(
                NAME,
                "it takes minutes, and was not built on this machine yet: ./dev test --only image",
            );
            return Ok(());
        }
    }
    let programs = ["buildah", "debootstrap", "bwrap"];
    if !tools::ensure(&programs, &["buildah", "debootstrap", "bubblewrap"])? {
        test.skip(NAME, "buildah, debootstrap and bubblewrap cannot be installed");
        return Ok(());
    }
    test.scratch()?;
    let builder = Builder::new(test, &cache)?;
    if unless_stopped(builder.bases(test))?.is_none() {
        test.skip(NAME, "the packages of Debian that it begins with cannot be had");
        return Ok(());
    }
    test.check(NAME, |test| {
        builder.build()?;
        let scratch = test.started()?;
        let mut runs = test.place.command("python3");
        runs.arg("api/tests/outside/image.py").arg(builder.root()?).arg(builder.configuration()?);
        runs.env("DATABASE_URL", scratch.url("postgres")).env("REDIS_URL", &scratch.redis_url);
        run::run(&mut runs)?;
        Ok(fs::write(&last, &inputs)?)
    })
}

/// A digest of [`INPUTS`], and of which files the code includes.
fn inputs(place: &Place) -> anyhow::Result<String> {
    let git = |arguments: &[&str]| -> anyhow::Result<Vec<u8>> {
        let said = place.command("git").args(arguments).output()?;
        ensure!(said.status.success(), "git: {}", String::from_utf8_lossy(&said.stderr));
        Ok(said.stdout)
    };
    let listed = git(&[&["ls-files", "-z", "--"], INPUTS.as_slice()].concat())?;
    let mut all = git(&["grep", "-h", "-E", r"include(_str|_bytes)?!\(|migrate!\(", "--", "*.rs"])?;
    for file in String::from_utf8(listed)?.split_terminator('\0') {
        all.extend([file.as_bytes(), &fs::read(place.root.join(file))?].concat());
    }
    sha256(&all)
}

/// buildah with a storage of its own in the cache.
struct Builder<'p> {
    place: &'p Place,
    storage: PathBuf,
    /// Folders of this machine that a build sees: how packages are fetched, the toolchain, its crates, and how those were found.
    /// Most stand in place of one that is empty in Debian, because others stay in the image, empty. The crates stand where cargo
    /// has them: some name the folder of their sources.
    volumes: [String; 4],
}

impl<'p> Builder<'p> {
    fn new(test: &Test<'p>, cache: &Path) -> anyhow::Result<Self> {
        let (place, home) = (test.place, tools::cargo_home()?);
        let sysroot = ask(place.command("rustc").args(["--print", "sysroot"]))?;
        let settings = test.started()?.folder.path().join("cargo");
        fs::create_dir_all(&settings)?;
        if home.join("config.toml").exists() {
            fs::copy(home.join("config.toml"), settings.join("config.toml"))?;
        }
        let volumes = [
            "/etc/apt:/etc/apt:ro".to_owned(),
            format!("{sysroot}:/opt:ro"),
            format!("{}:/usr/local/cargo/registry", home.join("registry").display()),
            format!("{}:/mnt:ro", settings.display()),
        ];
        let builder = Self { place, storage: cache.join("storage"), volumes };
        // what a run that was killed has left
        builder.clean();
        Ok(builder)
    }

    fn buildah(&self, arguments: &[&str]) -> Command {
        let mut buildah = self.place.command("buildah");
        buildah.arg("--root").arg(self.storage.join("root")).arg("--runroot").arg(self.storage.join("run"));
        buildah.args(["--storage-driver", "vfs"]).args(arguments);
        buildah
    }

    /// A build of a Dockerfile; the formats of others know no check of health.
    fn bud(&self, name: &str) -> Command {
        let mut build = self.buildah(&["bud", "--isolation", "chroot", "--pull-never", "--format", "docker"]);
        for volume in &self.volumes {
            build.args(["--volume", volume]);
        }
        build.args(["--tag", name]);
        build
    }

    /// The images that the Dockerfile begins with, unless they are there.
    fn bases(&self, test: &Test) -> anyhow::Result<()> {
        run::run(&mut self.place.cargo(&["fetch", "--locked"]))?;
        let text = fs::read_to_string(self.place.root.join("Dockerfile"))?;
        let mut names = text.lines().filter_map(|line| line.strip_prefix("FROM ")?.split(' ').next());
        let (rust, debian) = (names.next().context("FROM")?, names.next().context("FROM")?);
        let release = debian.strip_prefix("debian:").and_then(|tag| tag.strip_suffix("-slim"));
        let release = release.with_context(|| debian.to_owned())?;
        let missing = |name: &str| !run::succeeds(&mut self.buildah(&["inspect", "--type", "image", name]));
        let scratch = test.started()?.folder.path();
        if missing(debian) {
            step(&format!("Making {debian}"));
            // beside Postgres, which is in memory: packages are written to the disk one by one
            let root = scratch.join("debian");
            let mut install = run::command("debootstrap");
            run::run(install.args(["--variant=minbase", release]).arg(&root))?;
            run::run(run::command("chroot").arg(&root).args(["apt-get", "clean"]))?;
            let container = ask(&mut self.buildah(&["from", "scratch"]))?;
            let into = ask(&mut self.buildah(&["mount", &container]))?;
            run::run(run::command("cp").args(["-a", "-T"]).arg(&root).arg(into))?;
            fs::remove_dir_all(root)?;
            run::run(&mut self.buildah(&["commit", "--quiet", "--rm", &container, debian]))?;
        }
        if missing(rust) {
            step(&format!("Making {rust}"));
            let folder = scratch.join("rust");
            fs::create_dir(&folder)?;
            fs::write(folder.join("Dockerfile"), format!("FROM {debian}{COMPILER}"))?;
            run::run(self.bud(rust).arg(folder))?;
        }
        Ok(())
    }

    fn build(&self) -> anyhow::Result<()> {
        let mut build = self.bud(BUILT);
        run::run(build.args(["--build-arg", &format!("PROFILE={DEV}")]).arg(&self.place.root))
    }

    /// The folder of what was built.
    fn root(&self) -> anyhow::Result<String> {
        let container = ask(&mut self.buildah(&["from", "--pull-never", BUILT]))?;
        ask(&mut self.buildah(&["mount", &container]))
    }

    fn configuration(&self) -> anyhow::Result<String> {
        ask(&mut self.buildah(&["inspect", "--type", "image", BUILT]))
    }

    /// Removes everything but the images to begin with.
    fn clean(&self) {
        if self.storage.exists() {
            run::succeeds(&mut self.buildah(&["rm", "--all"]));
            run::succeeds(&mut self.buildah(&["rmi", BUILT]));
        }
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        self.clean();
    }
}

/// What a program prints, without the end of the line.
fn ask(command: &mut Command) -> anyhow::Result<String> {
    let said = command.output()?;
    ensure!(said.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said.stderr));
    Ok(String::from_utf8(said.stdout)?.trim_end().to_owned())
}
