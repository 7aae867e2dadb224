//! Connections that take places, and heads that take memory, without a request.

use longshore_http::limits::Limits;
use longshore_kernel::metrics::Backlog;
use longshore_kernel::share::Ledger;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::socket::{Server, answer, head, write};
use super::{MIGRATIONS, PATIENCE, limited};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn unfinished_heads_take_neither_places_nor_memory_from_others(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let bodies = Ledger::new("memory for request bodies", 2 * 1024 * 1024, 1);
    for (connections, address_connections) in [(8, 100), (100, 8)] {
        let limits = Limits { connections, address_connections, bodies: bodies.clone(), ..Limits::default() };
        let (world, app) = limited(&options, limits).await;
        let metrics = app.services.metrics.clone();
        let server = Server::start(app).await;
        let begun = format!("GET / HTTP/1.1\r\nHost: test\r\nX: {}", "y".repeat(60 * 1024));
        let mut open = Vec::new();
        for _ in 0..64 {
            let mut stream = server.connect().await;
            // one that is refused or displaced meanwhile takes no more
            write(&mut stream, begun.as_bytes()).await;
            open.push(stream);
        }
        let mut stream = server.connect().await;
        let request = head("POST", "/api/product/list", &world.api.user, &[]);
        assert!(write(&mut stream, request.as_bytes()).await);
        let (status, body) = tokio::time::timeout(PATIENCE, answer(&mut stream)).await.unwrap();
        assert_eq!(status, 200, "{body}");
        // half of it is the most of all callers without a token
        assert!(bodies.used() <= bodies.size() / 2, "{}", bodies.used());
        drop(open);
        let services = &world.api.services;
        let text =
            metrics.render(&services.db, &services.queues, async { Ok(Backlog::default()) }).await.unwrap();
        // the others are told before the first of them: an alert looks at how they grow
        for reason in ["displaced", "refused", "memory"] {
            let told = format!("longshore_http_connections_ended_total{{reason=\"{reason}\"}} ");
            assert!(text.contains(&told), "{text}");
        }
        assert!(text.contains("# TYPE longshore_http_connections gauge\n"), "{text}");
    }
}
