//! What the api tells a service manager.

use std::process::Command;

use longshore_testkit::manager::Manager;
use longshore_testkit::port::free_port;
use longshore_testkit::process::{Process, signal};
use tempfile::TempDir;
use tokio::net::TcpStream;

#[tokio::test]
async fn the_api_says_when_it_listens_that_it_is_alive_and_when_it_begins_to_drain() {
    let folder = TempDir::new().unwrap();
    let manager = Manager::start(folder.path()).unwrap();
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let mut api = Command::new(env!("CARGO_BIN_EXE_longshore-api"));
    api.arg("serve").envs(manager.settings()).env("LONGSHORE_BIND", &address);
    // it listens without Postgres and Redis, too: neither is there
    api.env("DATABASE_URL", "postgres://127.0.0.1:1/none").env("REDIS_URL", "redis://127.0.0.1:1");
    api.env("LONGSHORE_ENCRYPTION_KEY", "test:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
    api.env("LONGSHORE_OBJECT_STORE", folder.path().join("objects"));
    let api = Process::start(api, folder.path().join("api.log")).unwrap();
    assert_eq!(manager.hears().await.unwrap(), "READY=1");
    TcpStream::connect(&address).await.unwrap();
    for _ in 0..3 {
        assert_eq!(manager.hears().await.unwrap(), "WATCHDOG=1");
    }
    signal("TERM", &[api.pid().unwrap()]).await.unwrap();
    manager.waits_for("STOPPING=1").await.unwrap();
    assert_eq!(manager.hears().await.unwrap(), "WATCHDOG=1", "it is watched while it drains");
    TcpStream::connect(&address).await.expect("it serves while it drains");
}
