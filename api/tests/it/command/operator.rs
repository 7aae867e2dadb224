//! What operators and developers of e-shops do with `longshore`: profiles, queues, deliveries, webhooks, the audit.

use std::process::Stdio;
use std::time::Duration;

use longshore_testkit::receiver::{Answer, Receiver};
use longshore_testkit::signature::Verifier;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::{MIGRATIONS, World, longshore, program, with_input};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_profile_keeps_a_token_for_its_owner_and_its_service_only(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (url, folder) = (world.server.url(), tempfile::tempdir().unwrap());
    let file = folder.path().join("kept").join("profiles.json");
    let environment = [("LONGSHORE_PROFILES", file.to_str().unwrap())];

    let without = longshore(&["job", "list"], &environment).await.ends_with(2);
    assert!(
        without.stderr.contains("LONGSHORE_TOKEN") && without.stderr.contains("longshore login"),
        "{without:?}"
    );

    let login = ["login", "--url", &url, "--with-token"];
    let unknown = with_input("longshore", &login, &environment, "lsh_unknown\n").await.ends_with(3);
    assert!(unknown.stderr.contains("401 unauthenticated"), "{unknown:?}");
    with_input("longshore", &login, &environment, "\n").await.ends_with(2);
    assert!(!file.exists());
    let kept =
        with_input("longshore", &login, &environment, &format!("{}\n", world.api.user)).await.ends_with(0);
    assert_eq!(kept.stdout, format!("profile default is of {url}\n"));
    longshore(&["job", "list"], &environment).await.ends_with(0);

    // each profile has its own service
    let shop = ["login", "--url", &url, "--with-token", "--profile", "shop"];
    with_input("longshore", &shop, &environment, &world.api.viewer).await.ends_with(0);
    longshore(&["job", "list", "--profile", "shop"], &environment).await.ends_with(0);
    let elsewhere =
        longshore(&["job", "list", "--url", "http://127.0.0.1:1"], &environment).await.ends_with(2);
    assert!(elsewhere.stderr.contains("profile default is of"), "{elsewhere:?}");
    // a token of the environment goes before a profile
    let given = [environment[0], ("LONGSHORE_TOKEN", "lsh_unknown"), ("LONGSHORE_URL", &url)];
    longshore(&["job", "list"], &given).await.ends_with(3);

    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let open = longshore(&["job", "list"], &environment).await.ends_with(1);
        assert!(open.stderr.contains("chmod 600"), "{open:?}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    assert_eq!(
        longshore(&["logout"], &environment).await.ends_with(0).stdout,
        "profile default is removed\n"
    );
    longshore(&["logout"], &environment).await.ends_with(2);
    longshore(&["job", "list"], &environment).await.ends_with(2);
    longshore(&["job", "list", "--profile", "shop"], &environment).await.ends_with(0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_admin_logs_in_with_a_password(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let body = json!({
        "email": "ann@harbour.example", "firstName": "Ann", "lastName": "Shore", "password": "correct horse battery",
        "role": "superadmin",
    });
    world.api.post(&world.api.superadmin, "/api/admin", body).await.expect(201);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profiles.json");
    let url = world.server.url();
    let environment = [("LONGSHORE_PROFILES", file.to_str().unwrap()), ("LONGSHORE_URL", &url)];
    let login = ["login", "--login", "ann@harbour.example"];
    let wrong = with_input("longshore", &login, &environment, "wrong horse\n").await.ends_with(3);
    assert!(wrong.stderr.contains("the login or the password is wrong"), "{wrong:?}");
    let made = with_input("longshore", &login, &environment, "correct horse battery\n").await.ends_with(0);
    assert!(made.stdout.contains(", until 20"), "{made:?}");
    assert!(longshore(&["queue", "list"], &environment).await.ends_with(0).stdout.starts_with("QUEUE "));
    assert!(!made.stdout.contains("lsh_") && !made.stderr.contains("lsh_"), "{made:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn queues_are_paused_and_the_audit_says_by_whom(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let as_superadmin = async |arguments: &[&str]| world.run(&world.api.superadmin, arguments).await;
    assert_eq!(
        as_superadmin(&["queue", "pause", "lane"]).await.ends_with(0).stdout,
        "queue lane is paused\n"
    );
    let listed = as_superadmin(&["queue", "list"]).await.ends_with(0).stdout;
    let lane = listed.lines().find(|line| line.starts_with("lane ")).unwrap();
    let words: Vec<_> = lane.split_whitespace().collect();
    assert_eq!(words[..3], ["lane", "no_worker", "true"], "{listed}");
    let upkeep = as_superadmin(&["queue", "pause", "upkeep"]).await.ends_with(0).stdout;
    assert!(upkeep.starts_with("queue upkeep is paused until 20"), "{upkeep}");
    assert_eq!(
        as_superadmin(&["queue", "resume", "lane"]).await.ends_with(0).stdout,
        "queue lane is resumed\n"
    );
    world.run(&world.api.user, &["queue", "pause", "lane"]).await.ends_with(3);
    as_superadmin(&["queue", "pause", "lanes"]).await.ends_with(2);

    let audit =
        as_superadmin(&["audit", "--action", "queue.pause", "--since", "1h"]).await.ends_with(0).stdout;
    assert_eq!((audit.lines().count(), audit.matches("superadmin of a test").count()), (3, 2), "{audit}");
    let none =
        as_superadmin(&["audit", "--action", "queue.pause", "--actor", "someone"]).await.ends_with(0).stdout;
    assert_eq!(none.lines().count(), 1, "{none}");
    let part = as_superadmin(&["audit", "--action", "queue.pause", "--actor", "of a test"])
        .await
        .ends_with(0)
        .stdout;
    assert_eq!(part.lines().count(), 3, "{part}");
    let newest = as_superadmin(&["audit", "--limit", "1", "--json"]).await.ends_with(0).json();
    assert_eq!(newest["results"][0]["action"], "queue.resume");
    let of_shop = as_superadmin(&["audit", "--entity", "gifts shop", "--json"]).await.ends_with(0).json();
    assert_eq!(of_shop["results"][0]["entity"]["id"], json!(world.api.tenant.eshop), "{of_shop}");
    assert_eq!(of_shop["results"][0]["action"], "eshop.create");
    let unknown = as_superadmin(&["audit", "--entity", "Gifts sho"]).await.ends_with(3).stderr;
    assert!(unknown.contains("there is no record Gifts sho; did you mean one of these?"), "{unknown}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_webhook_is_created_rotated_switched_and_deleted(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let as_user = async |arguments: &[&str]| world.run(&world.api.user, arguments).await;
    let eshop = world.api.tenant.eshop.to_string();
    let shops = as_user(&["eshop", "list", "--ids"]).await.ends_with(0).stdout;
    assert!(shops.contains(&eshop), "{shops}");
    let shown = as_user(&["eshop", "show", &eshop]).await.ends_with(0).stdout;
    assert!(shown.starts_with(&format!("e-shop       {eshop}\n")), "{shown}");

    let create = ["webhook", "create", "--eshop", &eshop, "--destination"];
    let made = as_user(&[&create[..], &["https://shop.example/hook"]].concat()).await.ends_with(0).stdout;
    let word = |text: &str, line: usize| {
        text.lines().nth(line).unwrap().split_whitespace().nth(1).unwrap().to_owned()
    };
    let (id, secret) = (word(&made, 0), word(&made, 1));
    assert!(secret.starts_with("whsec_"), "{made}");
    let refused = as_user(&[&create[..], &["ftp://shop.example/hook"]].concat()).await.ends_with(3);
    assert!(refused.stderr.contains("destination"), "{refused:?}");
    let rotated = as_user(&["webhook", "rotate", &id]).await.ends_with(0).stdout;
    assert!(word(&rotated, 0) == id && word(&rotated, 1) != secret, "{rotated}");
    assert_eq!(
        as_user(&["webhook", "deactivate", &id]).await.ends_with(0).stdout,
        format!("webhook {id} is inactive\n")
    );
    assert_eq!(
        as_user(&["webhook", "activate", &id]).await.ends_with(0).stdout,
        format!("webhook {id} is active\n")
    );
    let deleted = as_user(&["webhook", "delete", &id, "--json"]).await.ends_with(0).json();
    assert_eq!(deleted, json!({"id": id, "state": "deleted"}));
    as_user(&["webhook", "delete", &id]).await.ends_with(3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn copies_of_new_deliveries_are_sent_to_this_machine(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let body = json!({"eshop": api.tenant.eshop, "event": "*", "destination": "https://shop.example/hook", "active": false});
    let id = api.post(&api.user, "/api/eshop-webhook", body).await.expect(201).json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let test = async || {
        api.post(&api.user, &format!("/api/eshop-webhook/{id}/test"), Value::Null).await.expect(202).json()
    };
    // what was there before is not sent
    test().await;
    let receiver = Receiver::start().await.unwrap();
    receiver.answer_all(Answer::Status(204));
    let to = receiver.url("/hooks");
    let mut child = Command::new(program("longshore"))
        .env_clear()
        .envs([("LONGSHORE_URL", world.server.url()), ("LONGSHORE_TOKEN", api.user.clone())])
        .args(["webhook", "listen", &id, "--forward-to", &to])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let signed = said.next_line().await.unwrap().unwrap();
    let secret = signed.strip_prefix("copies are signed with ").unwrap().to_owned();
    assert_eq!(said.next_line().await.unwrap().unwrap(), "listening; end with Ctrl-C");

    let mut printed = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let sent = test().await;
        let line = printed.next_line().await.unwrap().unwrap();
        let delivery = sent["id"].as_str().unwrap();
        assert!(line.starts_with(&format!("{delivery}  test  status 204, ")), "{line}");
        let receipts = receiver.receipts();
        let receipt = receipts.last().unwrap();
        Verifier::new(&secret).unwrap().verify(receipt).unwrap();
        assert_eq!(receipt.header("webhook-id"), sent["webhookId"].as_str());
        let path = format!("/api/webhook-delivery/{delivery}/body");
        assert_eq!(api.get(&api.user, &path).await.expect(200).bytes, receipt.body);
    }
    assert_eq!(receiver.requests(), 2);
    let kept = api.get(&api.user, &format!("/api/eshop-webhook/{id}")).await.expect(200).json();
    assert_eq!(kept["active"], false, "the webhook itself is not touched");

    // it says that the webhook was deleted, and ends
    api.delete(&api.user, &format!("/api/eshop-webhook/{id}")).await.expect(204);
    let ended = tokio::time::timeout(Duration::from_mins(1), child.wait()).await.unwrap().unwrap();
    let why = said.next_line().await.unwrap().unwrap();
    assert!(why.contains("the webhook was deleted while listening"), "{why}");
    assert_eq!(ended.code(), Some(3));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn deliveries_are_listed_shown_and_sent_again(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let body = json!({"eshop": api.tenant.eshop, "event": "*", "destination": "https://shop.example/hook"});
    let hook = api.post(&api.user, "/api/eshop-webhook", body).await.expect(201).json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let sent =
        api.post(&api.user, &format!("/api/eshop-webhook/{hook}/test"), Value::Null).await.expect(202).json();
    let id = sent["id"].as_str().unwrap();
    let as_user = async |arguments: &[&str]| world.run(&api.user, arguments).await;

    let listed =
        as_user(&["delivery", "list", "--ids", "--webhook", &hook, "--state", "pending", "--since", "1h"])
            .await;
    assert!(listed.ends_with(0).stdout.contains(id));
    for other in [["--state", "delivered"], ["--event", "product_change"], ["--entity", id]] {
        let none = as_user(&["delivery", "list", other[0], other[1]]).await.ends_with(0).stdout;
        assert_eq!(none.lines().count(), 1, "{none}");
    }
    let shown = as_user(&["delivery", "show", id]).await.ends_with(0).stdout;
    assert!(
        shown.contains("state      pending\n") && shown.contains(&format!("webhook    {hook}\n")),
        "{shown}"
    );
    let body = as_user(&["delivery", "show", id, "--body"]).await.ends_with(0).json();
    assert_eq!((&body["type"], &body["id"]), (&json!("test"), &json!(hook)));
    let job = as_user(&["delivery", "redeliver", id, "--detach", "--json"]).await.ends_with(0).json();
    assert_eq!(job["kind"], "webhook.redeliver");
    as_user(&["delivery", "redeliver"]).await.ends_with(2);

    let count = as_user(&["delivery", "replay", "--host", "shop.example", "--since", "6h", "--count"]).await;
    let said = count.ends_with(0).stdout;
    assert!(said.starts_with("0 deliveries of 1 webhook: 0 waiting, 0 failed, 0 delivered"), "{said}");
    let count =
        ["delivery", "replay", "--webhook", &hook, "--since", "6h", "--delivered", "--count", "--json"];
    assert_eq!(as_user(&count).await.ends_with(0).json()["total"], 0);
    let replay = ["delivery", "replay", "--webhook", &hook, "--since", "6h", "--detach", "--json"];
    assert_eq!(as_user(&replay).await.ends_with(0).json()["kind"], "webhook.replay");
    as_user(&["delivery", "replay", "--since", "6h"]).await.ends_with(2);
    as_user(&["delivery", "replay", "--webhook", &hook]).await.ends_with(2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_needs_attention_is_listed_acknowledged_and_muted(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let run = async |arguments: &[&str]| world.run(&api.superadmin, arguments).await;
    let body = json!({"eshop": api.tenant.eshop, "event": "*", "destination": "https://shop.example/hook"});
    let hook = api.post(&api.user, "/api/eshop-webhook", body).await.expect(201).json();
    let deactivate = format!("/api/eshop-webhook/deactivate/{}", hook["id"].as_str().unwrap());
    api.put(&api.user, &deactivate, Value::Null).await.expect(204);
    run(&["queue", "pause", "lane", "--reason", "moving"]).await.ends_with(0);
    let listed = run(&["attention", "list", "--json"]).await.ends_with(0).json();
    let lines = listed["lines"].as_array().unwrap();
    let line =
        lines.iter().find(|line| line["sentence"].as_str().unwrap().contains("Queue lane: Paused")).unwrap();
    let id = line["id"].as_str().unwrap();
    let row = async |arguments: &[&str]| {
        let shown = run(arguments).await.ends_with(0).stdout;
        shown.lines().find(|row| row.contains(id)).map(str::to_owned)
    };
    let new = row(&["attention", "list", "--ids"]).await.unwrap();
    let words: Vec<_> = new.split_whitespace().collect();
    assert_eq!(words[..5], ["warning", "queue", "new", "-", "-"], "{new}");

    // what people switched off comes last; a paused queue has its line, and is not listed twice
    let shown = run(&["attention", "list"]).await.ends_with(0).stdout;
    let off = shown.lines().last().unwrap();
    assert_eq!(off.split_whitespace().take(3).collect::<Vec<_>>(), ["-", "webhook", "off"], "{shown}");
    assert!(off.contains("user of a test") && off.contains("https://shop.example/hook"), "{shown}");
    assert!(off.contains(", since 20"), "{shown}");
    let is_off = |row: &&str| row.split_whitespace().nth(2) == Some("off");
    assert_eq!(shown.lines().filter(is_off).count(), 1, "{shown}");
    let said = run(&["attention", "acknowledge", id, "--note", "I know"]).await.ends_with(0).stdout;
    assert!(
        said.starts_with("the line is acknowledged until 20") && said.contains("Queue lane: Paused"),
        "{said}"
    );
    let seen = row(&["attention", "list", "--ids"]).await.unwrap();
    assert!(seen.contains("acknowledged  superadmin of a test  20"), "{seen}");
    assert_eq!(row(&["attention", "list", "--new", "--ids"]).await, None);

    let muted =
        run(&["attention", "mute", id, "--for", "8h", "--reason", "moving"]).await.ends_with(0).stdout;
    assert!(muted.starts_with("the line is muted until 20"), "{muted}");
    // a mute of what is over is listed, too
    run(&["queue", "resume", "lane"]).await.ends_with(0);
    let absent = row(&["attention", "list", "--ids"]).await.unwrap();
    assert!(absent.contains("muted") && absent.contains("Queue lane: Paused"), "{absent}");
    let shown = run(&["attention", "unmute", id]).await.ends_with(0).stdout;
    assert_eq!(shown, format!("the line {id} is shown again\n"));
    run(&["attention", "unmute", id]).await.ends_with(3);
    for wrong in [
        &["attention", "mute", id, "--for", "2h", "--reason", "x"][..],
        &["attention", "mute", id, "--for", "8h"],
        &["attention", "acknowledge", "7"],
    ] {
        run(wrong).await.ends_with(2);
    }
    // who may not is refused
    world.run(&world.api.viewer, &["attention", "acknowledge", id]).await.ends_with(3);
    assert!(
        world
            .run(&world.api.viewer, &["attention", "list"])
            .await
            .ends_with(0)
            .stdout
            .starts_with("SEVERITY ")
    );
}
