//! HTTP/2 clients that flood the api with headers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::try_join_all;
use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Scene, count};
use crate::chaos::caller::Request;
use crate::chaos::crew::Role;
use crate::chaos::site::Site;
use crate::measure::process::{forget_peak, peak};
use crate::measure::{Reach, Row, percentile};

/// Parallel clients.
const CLIENTS: usize = 16;

/// Maximum that each sends.
const MEBIBYTES: usize = 32;

/// The time limit for the service to close the connection.
const CUT_WITHIN: Duration = Duration::from_secs(30);

/// The connection preface of HTTP/2, with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Frame types, and the flags of a request without a body.
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const WHOLE: u8 = 0x5;

/// `GET / HTTP`, encoded with HPACK.
const REQUEST: [u8; 3] = [0x82, 0x86, 0x84];

/// A kind of flood.
#[derive(Debug, Clone, Copy)]
enum Flood {
    /// One request whose headers never end.
    Endless,
    /// Requests that are each cancelled at once.
    Cancelled,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

impl Flood {
    /// The next frames, without end.
    fn pieces(self) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
        match self {
            Self::Endless => {
                // a name of three letters and a value of a hundred, repeated to fill a frame
                let header = [&[0, 3][..], b"x-a", &[100], &[b'a'; 100]].concat();
                let more = frame(CONTINUATION, 0, 1, &header.repeat(150));
                Box::new(std::iter::once(frame(HEADERS, 0, 1, &REQUEST)).chain(std::iter::repeat(more)))
            }
            Self::Cancelled => Box::new((1..1 << 31).step_by(2).map(|stream| {
                let mut piece = frame(HEADERS, WHOLE, stream, &REQUEST);
                piece.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
                piece
            })),
        }
    }

    /// Floods until the connection ends; returns the number of bytes sent.
    async fn against(self, address: &str) -> anyhow::Result<usize> {
        let (mut reads, mut writes) = TcpStream::connect(address).await?.into_split();
        // dropping it closes the connection
        let flood = async move {
            let mut sent = 0;
            if writes.write_all(PREFACE).await.is_ok() {
                for piece in self.pieces() {
                    if sent > MEBIBYTES << 20 || writes.write_all(&piece).await.is_err() {
                        break;
                    }
                    sent += piece.len();
                }
            }
            sent
        };
        let mut end = Vec::new();
        let ((), sent) = tokio::join!(
            async {
                // the content of the answer does not matter
                _ = tokio::time::timeout(CUT_WITHIN, reads.read_to_end(&mut end)).await;
            },
            async { tokio::time::timeout(CUT_WITHIN, flood).await.unwrap_or(usize::MAX) }
        );
        Ok(sent)
    }
}

/// Clients flood an api process with headers: how much it accepts, what that costs, and how long others wait
/// meanwhile.
pub(super) async fn flood(site: &Site) -> anyhow::Result<Vec<Row>> {
    let scene = Scene::new(site, "Headers").await?;
    let product = scene.products(1).await?[0];
    let get = Request::new(Method::GET, format!("/api/product/{product}"), "");
    let api = &site.of(Role::Api)[0];
    let address = api.base_url.trim_start_matches("http://");
    let mut rows = Vec::new();
    for (name, flood) in
        [("headers that do not end", Flood::Endless), ("requests that are cancelled", Flood::Cancelled)]
    {
        let pid = api.pid().context("the api does not run")?;
        forget_peak(pid)?;
        let before = peak(pid)?;
        let over = AtomicBool::new(false);
        let floods = async {
            let sent = try_join_all((0..CLIENTS).map(|_| flood.against(address))).await;
            over.store(true, Ordering::Relaxed);
            sent
        };
        let gets = async {
            let mut waits = Vec::new();
            while waits.is_empty() || !over.load(Ordering::Relaxed) {
                let started = Instant::now();
                scene.caller.ask(&get, &[200]).await?;
                waits.push(1_000.0 * started.elapsed().as_secs_f64());
            }
            anyhow::Ok(waits)
        };
        let (sent, mut waits) = tokio::try_join!(floods, gets)?;
        waits.sort_by(f64::total_cmp);
        let most = count(sent.into_iter().max().unwrap_or_default() as u64) / f64::from(1 << 20);
        let what = |which: &str| format!("{CLIENTS} clients of HTTP/2, {name}: {which}");
        let (beside, memory) = (percentile(&waits, 100), peak(pid)? - before);
        rows.push(Row::absolute(what("each is cut after"), most, "MiB", Reach::AtMost(8.0)));
        rows.push(Row::absolute(what("memory of the api, more"), memory, "MiB", Reach::AtMost(32.0)));
        rows.push(Row::absolute(what("a GET beside it, longest"), beside, "ms", Reach::AtMost(1_000.0)));
    }
    Ok(rows)
}
