//! Machines: network namespaces on one bridge, at which this process has the address [`OUTSIDE`].
//!
//! `deploy/cluster/configure` writes what servers there are configured with, as on the machines of an operator.
//!
//! All of it is inside namespaces of this run (`command::chaos` enters them): no other process sees the bridge, the disks or the
//! processes, and the kernel removes them when the run ends, however it does.

use std::ffi::OsStr;
use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use longshore_kernel::words;
use tokio::io::AsyncWriteExt as _;

use crate::chaos::server::Server;

/// The address of load, destinations, partners and warehouses.
pub(super) const OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);

/// The length of the prefix of the only subnet.
pub(super) const PREFIX: u8 = 24;

const BRIDGE: &str = "machines";

/// The folder of everything that a run writes, which vanishes with the run.
pub const FOLDER: &str = "/run";

/// All passwords.
pub(super) const PASSWORD: &str = "secret";

const CONFIGURE: &str = include_str!("../../../../deploy/cluster/configure");

/// What a machine is for. There are as many addresses for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Postgres = 10,
    Redis = 20,
    Balancer = 30,
    Api = 40,
    Worker = 50,
}

/// A machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Machine {
    pub(super) kind: Kind,
    /// From 1 on.
    pub(super) number: u8,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Postgres => "postgres",
            Kind::Redis => "redis",
            Kind::Balancer => "balancer",
            Kind::Api => "api",
            Kind::Worker => "worker",
        };
        write!(f, "{kind}{}", self.number)
    }
}

impl Machine {
    /// Its address.
    pub(super) fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 99, 0, self.kind as u8 + self.number)
    }

    /// Makes its namespace, with a link to the bridge.
    pub(super) async fn plug_in(self) -> anyhow::Result<()> {
        let (name, end) = (self.to_string(), format!("to-{self}"));
        let address = format!("{}/{PREFIX}", self.address());
        for arguments in [
            format!("netns add {name}"),
            format!("link add {end} type veth peer name eth0 netns {name}"),
            format!("link set {end} master {BRIDGE} up"),
            format!("-n {name} link set lo up"),
            format!("-n {name} addr add {address} dev eth0"),
            format!("-n {name} link set eth0 up"),
        ] {
            ip(&arguments).await?;
        }
        Ok(())
    }

    /// A program on it.
    pub(super) fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{self}")).arg("--").arg(program);
        command
    }

    /// The folder of its files.
    pub(super) fn root(self) -> PathBuf {
        Path::new(FOLDER).join(self.to_string())
    }

    /// Makes a folder of it, which belongs to a user.
    pub(super) async fn give(self, user: &str, folder: &str) -> anyhow::Result<PathBuf> {
        let given = self.root().join(folder);
        let mut install = Command::new("install");
        install.args(["-d", "-o", user, "-g", user]).arg(&given);
        run(install, "").await?;
        Ok(given)
    }

    /// Writes the configuration of its servers.
    pub(super) async fn configure(self) -> anyhow::Result<()> {
        let mut configure = Command::new("sh");
        configure.current_dir(FOLDER).args(["-s", "--"]);
        match self.kind {
            Kind::Balancer => configure.arg("service"),
            _ => configure.arg("database").arg(self.address().to_string()),
        };
        configure.arg(self.root());
        run(configure, CONFIGURE).await.map(drop)
    }

    /// A server on it, by the user of its unit. The configuration that was written is its last argument.
    pub(super) fn server(
        self,
        user: &'static str,
        program: &'static [&'static str],
        written: &str,
    ) -> Server {
        let written = self.root().join(written);
        let log = self.root().join(written.file_stem().unwrap_or_default()).with_extension("log");
        Server::new(log, move || {
            let mut command = self.command("setpriv");
            command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups", "--"]);
            command.args(program).arg(&written).current_dir("/");
            Ok(command)
        })
    }
}

/// Makes the folder of the run with what [`Machine::configure`] reads, and its bridge.
pub(super) async fn prepare(environment: &str) -> anyhow::Result<()> {
    // Postgres has its shared memory in the second, where a killed one leaves it
    for (folder, options) in [(FOLDER, "mode=0755,size=75%"), ("/dev/shm", "mode=1777")] {
        mount(Path::new(folder), options).await?;
    }
    for arguments in [
        "link set lo up".to_owned(),
        format!("link add {BRIDGE} type bridge"),
        format!("addr add {OUTSIDE}/{PREFIX} dev {BRIDGE}"),
        format!("link set {BRIDGE} up"),
    ] {
        ip(&arguments).await?;
    }
    Ok(fs::write(Path::new(FOLDER).join("cluster.env"), environment)?)
}

/// Leaves a disk only what it holds, and a MiB that is used up meanwhile.
pub(super) async fn fill(disk: &Path) -> anyhow::Result<()> {
    let mut used = Command::new("df");
    used.args(["--block-size=1K", "--output=used"]).arg(disk);
    let used = run(used, "").await?;
    let used: u64 = used.split_whitespace().last().context("df says nothing")?.parse()?;
    resize(disk, &format!("{}k", used + 1024)).await
}

/// Gives a disk another size.
pub(super) async fn resize(disk: &Path, size: &str) -> anyhow::Result<()> {
    let mut mount = Command::new("mount");
    mount.arg("-o").arg(format!("remount,size={size}")).arg(disk);
    run(mount, "").await.map(drop)
}

/// Mounts an empty disk.
pub(super) async fn mount(folder: &Path, options: &str) -> anyhow::Result<()> {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", options, "longshore-cluster"]).arg(folder);
    run(mount, "").await.map(drop)
}

async fn ip(arguments: &str) -> anyhow::Result<()> {
    let mut ip = Command::new("ip");
    ip.args(arguments.split(' '));
    run(ip, "").await.map(drop)
}

/// Runs a program to its end; returns what it says.
async fn run(command: Command, input: &str) -> anyhow::Result<String> {
    let what = format!("{command:?}");
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().with_context(|| what.clone())?;
    if let Some(mut into) = running.stdin.take() {
        into.write_all(input.as_bytes()).await?;
    }
    let ended = running.wait_with_output().await?;
    ensure!(ended.status.success(), "{what}: {}", String::from_utf8_lossy(&ended.stderr));
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

words! {
    /// What does not pass between the two sides of a [`Cut`].
    pub(super) enum Lost ("what a cut loses") {
        /// Nothing passes.
        Both = "nothing passes",
        /// The one side is not heard.
        Sent = "what it sends is lost",
        /// The one side hears nothing.
        Heard = "what it is sent is lost",
    }
}

/// A cut through the network.
#[derive(Debug)]
pub(super) struct Cut {
    table: String,
    side: Vec<Machine>,
}

impl Cut {
    /// Cuts off one side from the other. Cuts at the same time have different names.
    pub(super) async fn make(
        name: &str,
        side: &[Machine],
        other: &[Machine],
        lost: Lost,
    ) -> anyhow::Result<Self> {
        Self::make_for(name, side, other, lost, "").await
    }

    /// The same for what matches only; `{own}` is the port of the one side.
    pub(super) async fn make_for(
        name: &str,
        side: &[Machine],
        other: &[Machine],
        lost: Lost,
        matching: &str,
    ) -> anyhow::Result<Self> {
        let others: Vec<String> = other.iter().map(|machine| machine.address().to_string()).collect();
        let others = others.join(", ");
        let mut rules = format!("table inet {name} {{\n");
        for (hook, field, own, is_lost) in [
            ("input", "saddr", "dport", lost != Lost::Sent),
            ("output", "daddr", "sport", lost != Lost::Heard),
        ] {
            let matching = matching.replace("{own}", own);
            if is_lost {
                _ = write!(
                    rules,
                    "chain {hook} {{\n type filter hook {hook} priority 0;\n ip {field} {{ {others} }} {matching} drop;\n}}\n"
                );
            }
        }
        rules.push('}');
        for machine in side {
            let mut nft = machine.command("nft");
            nft.args(["-f", "-"]);
            run(nft, &rules).await?;
        }
        Ok(Self { table: name.to_owned(), side: side.to_vec() })
    }

    /// Mends it.
    pub(super) async fn mend(self) -> anyhow::Result<()> {
        for machine in &self.side {
            let mut nft = machine.command("nft");
            nft.args(["delete", "table", "inet", &self.table]);
            run(nft, "").await?;
        }
        Ok(())
    }
}
