//! An e-shop for manual tests: shows each webhook, and whether its signature is valid.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use longshore_testkit::receiver::{Receipt, Receiver};
use longshore_testkit::signature::Verifier;

/// Longer than any session.
const A_YEAR: Duration = Duration::from_hours(365 * 24);

#[derive(Args, Debug)]
pub(super) struct Sink {
    /// Address and port to listen on.
    #[arg(long, default_value = "127.0.0.1:9090")]
    bind: SocketAddr,
    /// Secret of the webhook, as its creation showed it: `whsec_…`.
    #[arg(long)]
    secret: Option<String>,
}

impl Sink {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let verifier = self.secret.as_deref().map(Verifier::new).transpose()?;
        let receiver = Receiver::start_at(self.bind).await?;
        println!("waiting for webhooks at {} (Ctrl-C ends)", receiver.url("/"));
        let mut shown = 0;
        loop {
            tokio::select! {
                arrived = receiver.wait_for(shown + 1, A_YEAR) => arrived?,
                stopped = tokio::signal::ctrl_c() => return Ok(stopped?),
            }
            // Removed from the receiver, so that a sink that runs for days does not grow.
            for receipt in receiver.take() {
                shown += 1;
                show(&receipt, verifier.as_ref());
            }
        }
    }
}

fn show(receipt: &Receipt, verifier: Option<&Verifier>) {
    let id = receipt.header("webhook-id").unwrap_or("without webhook-id");
    let verdict = match verifier.map(|verifier| verifier.verify(receipt)) {
        None => "signature not checked (no --secret)".to_owned(),
        Some(Ok(())) => "signature valid".to_owned(),
        Some(Err(mistrust)) => format!("NOT TO BE BELIEVED: {mistrust}"),
    };
    println!("\n{} {}  {id}  {verdict}", receipt.method, receipt.path);
    match receipt.json() {
        Ok(body) => println!("{body:#}"),
        Err(_) => println!("{}", String::from_utf8_lossy(&receipt.body)),
    }
}
