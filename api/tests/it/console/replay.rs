//! The page that replays deliveries: the form, the count, and the job.

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::webhooks::{ended, followed, waiting};
use super::{Browser, MIGRATIONS, webhook, world};

const PAGE: &str = "/console/replay";

/// The hidden fields of the form that starts the replay.
fn hidden(page: &str) -> Vec<(String, String)> {
    let form = page.split("method=\"post\" action=\"/console/replay\"").nth(1).unwrap();
    form.split("<input type=\"hidden\" name=\"")
        .skip(1)
        .map(|field| {
            let (name, rest) = field.split_once('"').unwrap();
            let value = rest.split_once("value=\"").unwrap().1.split('"').next().unwrap();
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

async fn start(browser: &Browser<'_>, page: &str) -> String {
    let fields = hidden(page);
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    browser.send_bare(PAGE, &fields).await.expect(303).header("location").unwrap().to_owned()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_replay_is_counted_confirmed_and_its_job_says_what_it_sent(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hooks = [webhook(api, "https://shop.example/a").await, webhook(api, "https://shop.example/b").await];
    for hook in hooks {
        ended(&world, hook.into(), "exhausted", 2).await;
        ended(&world, hook.into(), "delivered", 1).await;
    }
    sqlx::query(
        "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, attempt_count)
         VALUES (uuid_v7(), $1, $2, uuid_v7(), now() + interval '5 hours', 3)",
    )
    .bind(hooks[0])
    .bind(api.tenant.eshop)
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.superadmin);
    let bare = browser.open(PAGE).await.expect(200).text;
    assert!(!bare.contains("What would be sent"), "{bare}");
    let one = browser.open(&format!("/console/webhook/{}", hooks[0])).await.expect(200).text;
    let link = format!("{PAGE}?hours=168&amp;webhooks={}", hooks[0]);
    assert!(one.contains(&link), "{one}");
    let counted = browser.open(&link.replace("&amp;", "&")).await.expect(200).text;
    for part in ["What would be sent", "Replay 3 deliveries", "https://shop.example/a", "all to shop.example"]
    {
        assert!(counted.contains(part), "{part}: {counted}");
    }
    let counted =
        browser.open(&format!("{PAGE}?hours=1&host=shop.example&delivered=true")).await.expect(200).text;
    assert!(counted.contains("Replay 7 deliveries"), "{counted}");
    let counted = browser
        .open(&format!("{PAGE}?since=2001-01-01T00:00:07&webhooks={}&webhooks={}", hooks[0], hooks[1]))
        .await
        .expect(200)
        .text;
    assert!(counted.contains("Replay 5 deliveries") && counted.contains("step=\"1\""), "{counted}");
    let location = start(&browser, &counted).await;
    let page = followed(&world, &browser, &location).await;
    assert!(page.contains("5 deliveries are on the way again: 1 released, 4 resent."), "{page}");
    let since: String =
        sqlx::query_scalar("SELECT parameters ->> 'since' FROM job").fetch_one(&world.owner).await.unwrap();
    assert_eq!(since, "2001-01-01T00:00:07Z");
    assert_eq!(waiting(&world).await, 5);
    // by the name of the e-shop; what is on its way is not counted, and who starts a replay twice sends nothing twice
    let none = browser.open(&format!("{PAGE}?hours=6&eshop=shop")).await.expect(200).text;
    assert!(none.contains("Nothing to send.") && !none.contains("deliveries</button>"), "{none}");
    let page = followed(&world, &browser, &start(&browser, &counted).await).await;
    assert!(
        page.contains("0 deliveries are on the way again: 0 released, 0 resent. 2 deliveries were left"),
        "{page}"
    );
    assert_eq!(waiting(&world).await, 5);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_replay_marks_the_field_that_is_wrong_and_keeps_the_others(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/a").await;
    let browser = Browser::new(api, &api.superadmin);
    for (query, said) in [
        ("since=&host=shop.example", "wrong-since"),
        ("since=yesterday&host=shop.example", "wrong-since"),
        ("hours=1&host=nowhere.example", "wrong-host"),
        ("hours=1&eshop=nobody&host=shop.example", "wrong-eshop"),
        ("since=2026-01-02T00:00:00&until=2026-01-01T00:00:00&host=shop.example", "wrong-until"),
        ("hours=1", "Is required, or eshop, or host."),
        (&format!("hours=1&webhooks={}", Uuid::nil()), "Does not exist"),
        ("hours=1&webhooks=x", "class=\"wrong\">must be a UUID"),
    ] {
        let page = browser.open(&format!("{PAGE}?{query}")).await.expect(400).text;
        assert!(page.to_lowercase().contains(&said.to_lowercase()), "{query}: {page}");
        assert!(!query.contains("host=shop") || page.contains("value=\"shop.example\""), "{query}: {page}");
        assert!(!page.contains("What would be sent"), "{query}");
    }
    let nothing = browser.open(&format!("{PAGE}?hours=1&webhooks={hook}")).await.expect(200).text;
    assert!(nothing.contains("Nothing to send."), "{nothing}");
    let script = browser.open(&format!("{PAGE}?hours=1&host=%3Cscript%3E")).await.expect(400).text;
    assert!(!script.contains("<script>"), "{script}");
    let fields = [("host", "nowhere.example"), ("since", "2026-01-01T00:00:00")];
    browser.send_bare(PAGE, &fields).await.expect(403);
}
