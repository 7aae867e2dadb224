//! A TCP proxy that simulates a bad network: it cuts connections, delays or swallows data, or refuses
//! connections.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Bytes per piece.
const PIECE: usize = 16 * 1024;

/// The state of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// Normal.
    Well,
    /// Each piece is delayed.
    Slow(Duration),
    /// Connections open, but no data passes until the state changes.
    Silent,
    /// New connections are closed at once.
    Gone,
}

/// The proxy of one server; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    network: watch::Sender<Network>,
    cuts: watch::Sender<u64>,
    open: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy for a port of the loopback interface.
    pub(crate) async fn start(target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (network, cuts) = (watch::Sender::new(Network::Well), watch::Sender::new(0));
        let open = Arc::new(AtomicUsize::new(0));
        let (networks, cut, counter) = (network.subscribe(), cuts.subscribe(), Arc::clone(&open));
        let accepting = tokio::spawn(async move {
            loop {
                // no file descriptors are left, or the client has disconnected: the next attempt may succeed
                let Ok((client, _)) = listener.accept().await else { continue };
                if *networks.borrow() == Network::Gone {
                    // with a reset
                    _ = client.set_zero_linger();
                    continue;
                }
                let connection = Connection { networks: networks.clone(), cut: cut.clone() };
                let counted = Counted::new(&counter);
                tokio::spawn(async move {
                    _ = connection.carry(client, target).await;
                    drop(counted);
                });
            }
        });
        Ok(Self { port, network, cuts, open, accepting })
    }

    /// The port on which it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Changes the state of the network.
    pub(crate) fn be(&self, network: Network) {
        self.network.send_replace(network);
    }

    /// Cuts every connection, at any point of its data.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(counter))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Connection {
    networks: watch::Receiver<Network>,
    cut: watch::Receiver<u64>,
}

impl Connection {
    async fn carry(mut self, mut client: TcpStream, target: u16) -> io::Result<()> {
        self.cut.mark_unchanged();
        let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let was_cut = {
            let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
            tokio::select! {
                _ = pump(from_client, to_server, self.networks.clone()) => false,
                _ = pump(from_server, to_client, self.networks.clone()) => false,
                _ = self.cut.changed() => true,
            }
        };
        if was_cut {
            client.set_zero_linger()?;
            server.set_zero_linger()?;
        }
        Ok(())
    }
}

async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut networks: watch::Receiver<Network>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 {
            return Ok(());
        }
        let pause = match networks.wait_for(|network| *network != Network::Silent).await.as_deref() {
            Ok(Network::Slow(pause)) => Some(*pause),
            // an error means that the proxy was dropped
            _ => None,
        };
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
        to.write_all(&piece[..length]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that echoes each byte.
    async fn echo() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        port
    }

    async fn call(stream: &mut TcpStream) -> io::Result<u8> {
        stream.write_u8(7).await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn data_passes_until_the_connection_is_cut() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await.unwrap();
        assert_eq!(call(&mut stream).await.unwrap(), 7);
        assert_eq!(proxy.open(), 1);
        proxy.cut();
        assert!(stream.read_u8().await.is_err());
        let mut another = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await.unwrap();
        assert_eq!(call(&mut another).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_silent_network_holds_data_back_and_a_gone_one_refuses_connections() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await.unwrap();
        proxy.be(Network::Silent);
        let called = tokio::spawn(async move { call(&mut stream).await });
        tokio::task::yield_now().await;
        assert!(!called.is_finished());
        proxy.be(Network::Well);
        assert_eq!(called.await.unwrap().unwrap(), 7);
        proxy.be(Network::Gone);
        let mut another = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await.unwrap();
        assert!(call(&mut another).await.is_err());
    }
}
