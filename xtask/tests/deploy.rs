//! What can be said of a deployment without Docker: `docker-compose.yml` passes every setting on, and `deploy/docker/secrets` writes
//! what it demands. And of a cluster without machines: `deploy/cluster/configure` configures each from what `docs/scaling.md` writes.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Settings that the compose file leaves to the image.
const OF_THE_IMAGE: &[(&str, &str)] = &[
    ("LONGSHORE_BIND", "the port that the compose file publishes"),
    ("LONGSHORE_WORKER_BIND", "the port that the check of the container's health asks"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

#[test]
fn the_compose_file_passes_every_setting_on() {
    // another check compares this table with what the programs say
    let page = text("docs/operating.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let is_setting = |name: &&str| name.starts_with("LONGSHORE_") || name.ends_with("_URL");
    let settings: BTreeSet<&str> = rows.map(|(name, _)| name).filter(is_setting).collect();
    assert!(settings.len() > 40, "{settings:?}");

    let compose = text("docker-compose.yml");
    let environment = compose.split("environment: &environment\n").nth(1).unwrap();
    let environment = environment.lines().map_while(|line| line.strip_prefix("    "));
    let names = environment.filter(|line| !line.starts_with('#')).filter_map(|line| line.split(':').next());
    let passed_on: BTreeSet<&str> = names.collect();

    let image: BTreeSet<&str> = OF_THE_IMAGE.iter().map(|(name, _)| *name).collect();
    assert_eq!(passed_on, settings.difference(&image).copied().collect());
    let dockerfile = text("Dockerfile");
    for (name, _) in OF_THE_IMAGE {
        assert!(dockerfile.contains(&format!("{name}=")), "{name}");
    }
}

/// A folder with the compose file and the script, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("longshore-deploy-{}-{name}", std::process::id()));
        fs::create_dir_all(folder.join("deploy/docker")).unwrap();
        for file in ["docker-compose.yml", "deploy/docker/secrets"] {
            fs::copy(root().join(file), folder.join(file)).unwrap();
        }
        Self(folder)
    }

    fn env(&self) -> PathBuf {
        self.0.join(".env")
    }

    /// The script, by its interpreter: a file that another test is copying cannot be executed.
    fn run(&self) -> Command {
        let mut run = Command::new("sh");
        run.arg(self.0.join("deploy/docker/secrets"));
        run
    }

    fn secrets(&self) -> BTreeMap<String, String> {
        let written = self.run().output().unwrap();
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
        let text = fs::read_to_string(self.env()).unwrap();
        let pairs: Vec<_> = text.lines().map(|line| line.split_once('=').unwrap()).collect();
        let map: BTreeMap<_, _> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(map.len(), pairs.len(), "{text}");
        map
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_secrets_are_all_that_the_compose_file_demands_and_differ() {
    let folder = Folder::new("new");
    let written = folder.secrets();
    let compose = text("docker-compose.yml");
    let demanded: BTreeSet<&str> = compose
        .split("${")
        .skip(1)
        .filter_map(|text| Some(text.split('}').next()?.split_once(":?")?.0))
        .collect();
    assert!(demanded.len() > 4, "{demanded:?}");
    assert_eq!(written.keys().map(String::as_str).collect::<BTreeSet<_>>(), demanded);
    assert_eq!(written.values().collect::<BTreeSet<_>>().len(), demanded.len());
    assert!(written["LONGSHORE_ENCRYPTION_KEY"].starts_with("main:"));
    assert_eq!(fs::metadata(folder.env()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(folder.secrets(), written, "a second time changes nothing");
}

#[test]
fn the_secrets_complete_a_file_that_is_there() {
    let folder = Folder::new("begun");
    // as an editor may leave it: an empty value, and no end of the last line
    fs::write(
        folder.env(),
        "LONGSHORE_LOG=debug\nREDIS_PASSWORD=\nGRAFANA_PASSWORD='mine'\nLONGSHORE_ENCRYPTION_KEY=old:a",
    )
    .unwrap();
    let written = folder.secrets();
    assert_eq!(written["LONGSHORE_LOG"], "debug");
    assert_eq!(written["GRAFANA_PASSWORD"], "'mine'");
    assert_eq!(written["LONGSHORE_ENCRYPTION_KEY"], "old:a");
    assert!(written["REDIS_PASSWORD"].len() > 30);
    assert!(written.contains_key("POSTGRES_OWNER_PASSWORD"));
}

#[test]
fn a_value_that_the_secrets_cannot_make_is_asked_for() {
    let folder = Folder::new("unknown");
    let compose = folder.0.join("docker-compose.yml");
    fs::write(&compose, text("docker-compose.yml") + "x-more: ${ADDRESS:?run deploy/docker/secrets}\n")
        .unwrap();
    let written = folder.run().output().unwrap();
    assert!(!written.status.success());
    assert!(String::from_utf8_lossy(&written.stderr).contains("ADDRESS"));
}

/// A folder in which `docs/scaling.md` was followed until there is `cluster.env`.
fn of_a_cluster(name: &str) -> Folder {
    let folder = Folder::new(name);
    let page = text("docs/scaling.md");
    let blocks = page.split("```sh\n").filter_map(|rest| rest.split("```").next());
    let writes = blocks.filter(|block| block.contains("> cluster.env")).collect::<String>();
    let written = Command::new("bash").args(["-euc", &writes]).current_dir(&folder.0).status().unwrap();
    assert!(written.success());
    folder
}

/// Runs `configure` there. The last word is a folder for all that it writes.
fn configure(folder: &Folder, words: &[&str]) -> std::process::Output {
    let mut run = Command::new("sh");
    run.arg(root().join("deploy/cluster/configure")).args(words);
    run.current_dir(&folder.0).output().unwrap()
}

#[test]
fn each_machine_of_a_cluster_is_configured_by_what_the_page_writes() {
    let folder = of_a_cluster("cluster");
    let env = fs::read_to_string(folder.0.join("cluster.env")).unwrap();
    let values: BTreeMap<_, _> = env.lines().map(|line| line.split_once('=').unwrap()).collect();
    let of = |name: &str| values[name].trim_matches('"').split(' ').collect::<Vec<_>>();
    let passwords: BTreeSet<&str> =
        values.iter().filter(|(name, _)| name.ends_with("_PASSWORD")).map(|(_, value)| *value).collect();
    assert_eq!(passwords.len(), 4);
    let mut machines: Vec<_> =
        of("DATABASES").into_iter().map(|address| vec!["database", address, address]).collect();
    machines.extend(of("SERVICES").into_iter().map(|address| vec!["service", address]));
    assert_eq!(machines.len(), 5);
    for words in machines {
        let ran = configure(&folder, &words);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let files: Vec<_> = String::from_utf8(ran.stdout)
            .unwrap()
            .lines()
            .map(|line| folder.0.join(line.strip_prefix("wrote ").unwrap()))
            .collect();
        assert_eq!(files.len(), if words[0] == "database" { 4 } else { 1 });
        for file in files {
            let (written, mode) =
                (fs::read_to_string(&file).unwrap(), fs::metadata(&file).unwrap().permissions().mode());
            let is_secret = passwords.iter().any(|password| written.contains(password));
            assert_eq!(mode & 0o777, if is_secret { 0o640 } else { 0o644 }, "{}", file.display());
        }
    }
    let haproxy = folder.0.join(of("SERVICES")[0]).join("etc/haproxy/haproxy.cfg");
    // it is installed where a cluster was run
    if let Ok(checked) = Command::new("haproxy").args(["-c", "-f"]).arg(haproxy).output() {
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn a_machine_of_a_cluster_is_not_configured_by_mistakes() {
    let folder = of_a_cluster("mistaken");
    for words in [vec!["database", "10.0.0.4", "root"], vec!["database"], vec!["service", "a", "b"], vec![]] {
        assert!(!configure(&folder, &words).status.success(), "{words:?}");
    }
    let env = folder.0.join("cluster.env");
    fs::write(&env, fs::read_to_string(&env).unwrap() + "REDIS_PASSWORD=a/b\n").unwrap();
    assert!(!configure(&folder, &["service", "root"]).status.success());
    assert!(!folder.0.join("root").exists());
}
