//! Leads connections of this process to the server that is chosen, until another one is.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::copy;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::CONNECTED;
use crate::ids::new_id;
use crate::outage::UNACKNOWLEDGED;
use crate::share::PATIENCE;

/// The port in the name of the socket.
pub(super) const PORT: u16 = 5432;

/// An idle connection is tried after so long, and then each second.
const IDLE: Duration = Duration::from_secs(5);

/// A socket without a file, for the connections of this process only.
pub(crate) struct Relay {
    folder: PathBuf,
    listener: UnixListener,
    hosts: Arc<[(String, u16)]>,
}

impl Relay {
    pub(super) fn open(hosts: Vec<(String, u16)>) -> io::Result<Self> {
        // what begins with a zero byte is no file
        let folder = PathBuf::from(format!("\0longshore-{}", new_id()));
        let listener = UnixListener::bind(folder.join(format!(".s.PGSQL.{PORT}")))?;
        Ok(Self { folder, listener, hosts: hosts.into() })
    }

    /// The folder of the socket, as a URL of Postgres would have it.
    pub(super) fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    /// Serves connections. After each that ends, the servers are asked `soon` what they are.
    pub(super) async fn run(self, chosen: watch::Receiver<Option<usize>>, soon: Arc<[Notify]>) {
        let mut open = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = open.join_next() => {
                    soon.iter().for_each(Notify::notify_one);
                    continue;
                }
            };
            match accepted {
                Ok((client, _)) if is_ours(&client) => {
                    open.spawn(lead(client, chosen.clone(), Arc::clone(&self.hosts)));
                }
                Ok(_) => {}
                // no descriptor is left: others will be closed
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

/// The socket has no file whose mode would keep others out.
fn is_ours(client: &UnixStream) -> bool {
    let own = i32::try_from(std::process::id()).ok();
    client.peer_cred().is_ok_and(|peer| peer.pid() == own)
}

/// Leads a connection to the server that is chosen, once one is. It ends with either side, or when another server is chosen.
async fn lead(
    mut client: UnixStream,
    mut chosen: watch::Receiver<Option<usize>>,
    hosts: Arc<[(String, u16)]>,
) -> Option<()> {
    let at = (*timeout(PATIENCE, chosen.wait_for(Option::is_some)).await.ok()?.ok()?)?;
    let (host, port) = &hosts[at];
    let mut server = timeout(CONNECTED, TcpStream::connect((host.as_str(), *port))).await.ok()?.ok()?;
    guard(&server).ok()?;
    let ((mut asked, mut answer), (mut answered, mut ask)) = (client.split(), server.split());
    tokio::select! {
        _ = copy(&mut asked, &mut ask) => {}
        _ = copy(&mut answered, &mut answer) => {}
        _ = chosen.wait_for(|chosen| *chosen != Some(at)) => {}
    }
    Some(())
}

/// Lets the kernel end the connection where the other side is silent.
fn guard(server: &TcpStream) -> io::Result<()> {
    server.set_nodelay(true)?;
    let socket = SockRef::from(server);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(IDLE).with_interval(Duration::from_secs(1)))?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))
}
