//! The service behind a real socket, and clients that control every byte.

use std::fmt::Write as _;
use std::time::Duration;

use longshore_api::serve;
use longshore_http::app::App;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A listener that serves an app; dropping it ends it.
pub(crate) struct Server {
    port: u16,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(app: App) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve::accept(listener, app, stop.clone()));
        Self { port, stop, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Asks it to stop.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until it has stopped.
    pub(crate) async fn ended(mut self) {
        tokio::time::timeout(super::PATIENCE, &mut self.serving).await.unwrap().unwrap();
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    /// Sends a body byte by byte, in chunks of one each; returns the answer, which comes before the end.
    pub(crate) async fn drip(&self, head: &str, body: &[u8]) -> (u16, Value) {
        let (mut reader, mut writer) = self.connect().await.into_split();
        let dripping = async {
            assert!(write(&mut writer, head.as_bytes()).await);
            // one byte per tick is the behaviour of the client; no test waits for it
            let mut tick = tokio::time::interval(Duration::from_millis(20));
            for byte in body {
                tick.tick().await;
                if !write(&mut writer, &chunk(&[*byte])).await {
                    break;
                }
            }
        };
        let answered = async {
            tokio::select! {
                answered = answer(&mut reader) => answered,
                () = dripping => panic!("it could drip to the end"),
            }
        };
        tokio::time::timeout(super::PATIENCE, answered).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The head of a request with `Connection: close`, so that the connection ends after the answer.
pub(crate) fn head(method: &str, path: &str, token: &str, fields: &[(&str, &str)]) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
    write!(head, "Authorization: Bearer {token}\r\n").unwrap();
    for (name, value) in fields {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    head.push_str("\r\n");
    head
}

/// A piece of a chunked body.
pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// Writes as much as the other side accepts; returns whether it accepted everything.
pub(crate) async fn write(stream: &mut (impl tokio::io::AsyncWrite + Unpin), bytes: &[u8]) -> bool {
    stream.write_all(bytes).await.is_ok()
}

/// Reads an answer until the connection closes: its status, and its body if it has one.
pub(crate) async fn answer(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> (u16, Value) {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    // a server that closes while the client still writes resets the connection after its answer
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        text.extend_from_slice(&buffer[..read]);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_default();
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or_default())
}
