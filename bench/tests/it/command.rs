//! The command lines with the whole service: the released programs, and a running worker.

use std::process::Stdio;
use std::time::{Duration, Instant};

use longshore_kernel::access::Role;
use longshore_testkit::program::Ran;
use longshore_testkit::receiver::{Answer, Receiver};
use longshore_testkit::services;
use longshore_testkit::stack::{Stack, StackSettings};
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use tokio::process::Command;

/// Long enough for a loaded machine; no test waits it out.
const SOON: Duration = Duration::from_mins(1);

/// The service, a tenant, and a token for it.
struct World {
    stack: Stack,
    tenant: Tenant,
    token: String,
}

impl World {
    async fn new() -> Self {
        let stack = Stack::start(&StackSettings::from_environment().unwrap()).await.unwrap();
        let services = services::for_test(&stack.database_url.as_str().parse().unwrap()).unwrap();
        let tenant = Tenant::create(&services, "Scripted").await.unwrap();
        let token = tenant.token(&services, Role::User).await.unwrap();
        Self { stack, tenant, token }
    }

    async fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, "").await
    }

    /// Runs `longshore` with this standard input.
    async fn run_with(&self, arguments: &[&str], input: &str) -> Ran {
        Ran::of(&mut self.command(arguments), input).await.unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.stack.command("longshore");
        command
            .args(arguments)
            .env("LONGSHORE_URL", &self.stack.base_url)
            .env("LONGSHORE_TOKEN", &self.token);
        command
    }

    /// The weight of a product.
    async fn weight(&self, sku: &str) -> i32 {
        let mut connection = PgConnection::connect(self.stack.database_url.as_str()).await.unwrap();
        let weight = sqlx::query_scalar("SELECT weight FROM product WHERE product_sku = $1").bind(sku);
        weight.fetch_one(&mut connection).await.unwrap()
    }

    /// Runs `longshore-api doctor`, with the settings of the service.
    async fn doctor(&self, arguments: &[&str]) -> Ran {
        self.stack.command("longshore-api").arg("doctor").args(arguments).output().await.unwrap().into()
    }
}

fn rows(rows: &[Value]) -> String {
    rows.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n"
}

#[tokio::test]
async fn a_file_is_synced_and_followed_to_its_end_and_the_exit_status_shows_the_result() {
    let world = World::new().await;
    let eshop = world.tenant.eshop.to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("products.ndjson");
    let good = [
        json!({"productSku": "C-1", "name": "Harbour mug", "weight": 320}),
        json!({"productSku": "C-2", "name": "Lighthouse mug", "weight": 340}),
    ];
    std::fs::write(&file, rows(&good)).unwrap();
    let sync = ["sync", "products", file.to_str().unwrap(), "--eshop", &eshop];

    let first = world.run(&sync).await.ends_with(0);
    assert!(first.stdout.contains("succeeded: 2 changed, 0 unchanged, 0 refused of 2"), "{first:?}");
    // without a terminal there is no progress bar
    assert_eq!(first.stderr, "");
    let again = world.run(&[&sync[..], &["--json"]].concat()).await.ends_with(0).json();
    let progress = json!({"total": 2, "done": 2, "changed": 0, "unchanged": 2, "failed": 0, "withheld": 0});
    assert_eq!(again["progress"], progress);

    // a row without a name is refused, with its SKU
    let bad = rows(&[json!({"productSku": "C-3"}), json!({"productSku": "C-4", "name": "Anchor mug"})]);
    let from_pipe = ["sync", "products", "-", "--eshop", &eshop];
    let partly = world.run_with(&from_pipe, &bad).await.ends_with(5);
    assert!(partly.stdout.contains("1 changed, 0 unchanged, 1 refused of 2"), "{partly:?}");
    assert!(partly.stdout.contains("C-3") && partly.stdout.contains("name"), "{partly:?}");

    // refused rows can be retried, and are refused again
    let listed = world.run(&["job", "list", "--json", "--kind", "product.sync", "--limit", "1"]).await.json();
    assert_eq!(listed["paging"]["total"], 3);
    let job = listed["results"][0]["id"].as_str().unwrap();
    world.run(&["job", "watch", job]).await.ends_with(5);
    let retried = world.run(&["job", "retry", job, "--watch"]).await.ends_with(5);
    assert!(retried.stdout.contains("refused"), "{retried:?}");
    let table = world.run(&["job", "list", "--state", "succeeded,failed"]).await.ends_with(0).stdout;
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.starts_with("KIND "), "{table}");

    // it can also run detached
    let detached = world.run(&[&sync[..], &["--detach"]].concat()).await.ends_with(0);
    world.run(&["job", "watch", detached.stdout.trim()]).await.ends_with(0);
}

#[tokio::test]
async fn a_file_of_windows_loses_no_row_and_its_lines_are_those_of_the_file() {
    let world = World::new().await;
    // the whole name, in either case
    let (eshop, warehouse) = (world.tenant.eshop.to_string(), "scripted Warehouse".to_owned());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.ndjson");
    let name = file.to_str().unwrap();
    let products = ["sync", "products", name, "--eshop", &eshop];
    let stocks = ["sync", "stocks", name, "--eshop", &eshop, "--warehouse", &warehouse];
    let orders = ["order", "import", name, "--eshop", &eshop];
    for (arguments, key, row) in [
        (&products[..], "W-1", json!({"productSku": "W-1", "name": "Mug"})),
        (&stocks, "W-1", json!({"productSku": "W-1", "quantity": 3})),
        (
            &orders,
            "H-1",
            json!({"orderNumber": "H-1", "send": false, "value": 1, "currency": "EUR", "items": [{"productSku": "W-1", "quantity": 1}]}),
        ),
    ] {
        std::fs::write(&file, format!("\u{feff}{row}\r\n{row}\r\n")).unwrap();
        let ran = world.run(arguments).await.ends_with(5);
        assert!(ran.stdout.contains("1 changed, 0 unchanged, 1 refused of 2"), "{ran:?}");
        let refused: Vec<_> = ran.stdout.lines().rev().nth(1).unwrap().split_whitespace().take(3).collect();
        assert_eq!(refused, ["1", "2", key], "{ran:?}");

        // `| head`, which wants no more
        let mut closed = world.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        drop(closed.stdout.take());
        assert_eq!(closed.wait().await.unwrap().code(), Some(5), "{arguments:?}");
    }
}

/// Exports with the columns of the programs that write them, what of them a merchant maps, and what comes of their rows: accepted and
/// refused ones, and the weight of the first product.
const EXPORTS: [(&str, &str, &[&str], &str, i32); 3] = [
    // a variant and a picture have a row of their own, without the name of their product
    (
        "Shopify",
        "Handle,Title,Body (HTML),Vendor,Type,Tags,Published,Option1 Name,Option1 Value,Variant SKU,Variant Grams,Variant Inventory Tracker,Variant Inventory Qty,Variant Price,Variant Barcode,Image Src,Status\n\
         anchor,\"Anchor, brass\",\"<p>Heavy \"\"brass\"\"</p>\n<p>Made in 1896</p>\",Harbour,Decor,\"sea, brass\",true,Size,S,EX-1,1250.0,shopify,3,49.00,'8590012345678,https://cdn.example/1.jpg,active\n\
         anchor,,,,,,,,L,EX-2,2500.0,shopify,1,79.00,'8590012345685,,\n\
         anchor,,,,,,,,,,,,,,,https://cdn.example/2.jpg,\n",
        &["Variant SKU=productSku", "Title=name", "Variant Grams=weight*1"],
        "1 changed, 0 unchanged, 2 refused of 3",
        1_250,
    ),
    (
        "WooCommerce",
        "\u{feff}ID,Type,SKU,\"GTIN, UPC, EAN, or ISBN\",Name,Published,\"Is featured?\",Description,\"In stock?\",Stock,\"Weight (kg)\",\"Length (cm)\",\"Regular price\",Categories,Images,Parent\r\n\
         44,simple,EX-1,8590012345678,\"Anchor, brass\",1,0,\"<p>Heavy</p>\",1,3,.75,12.5,49,\"Decor > Sea\",https://shop.example/1.jpg,\r\n\
         45,variable,EX-2,,Rope,1,0,,1,,,,,Decor,,\r\n\
         46,variation,EX-3,,\"Rope - 5 m\",1,0,,1,7,1.2,,9,,,id:45\r\n",
        &["SKU=productSku", "Name=name", "Weight (kg)=weight*1000", "Length (cm)=length*10"],
        "3 changed, 0 unchanged, 0 refused of 3",
        750,
    ),
    (
        "BaseLinker",
        "product_id;ean;sku;name;quantity;price_brutto;tax_rate;weight;description;man_name;category_name\n\
         101;8590012345678;EX-1;\"Kotwica; mosiądz\";3;49,00;23;0,64;\"<p>Ciężka</p>\";Port;Dekoracje\n\
         102;;;Bez SKU;1;9,00;23;0,1;;;\n\
         103;8590012345685;EX-2;Lina;7;9,00;23;1,5;;Port;Dekoracje\n",
        &["sku=productSku", "name=name", "weight=weight*1000"],
        "2 changed, 0 unchanged, 1 refused of 3",
        640,
    ),
];

#[tokio::test]
async fn exports_of_shops_are_sent_as_they_are() {
    let world = World::new().await;
    let eshop = world.tenant.eshop.to_string();
    let folder = tempfile::tempdir().unwrap();
    for (program, text, maps, progress, weight) in EXPORTS {
        let file = folder.path().join(format!("{program}.csv"));
        std::fs::write(&file, text).unwrap();
        let mut sync = vec!["sync", "products", file.to_str().unwrap(), "--eshop", &eshop];
        for map in maps.iter().chain(&["*=_"]) {
            sync.extend(["--map", map]);
        }
        let exit = if progress.contains(" 0 refused") { 0 } else { 5 };
        let sent = world.run(&sync).await.ends_with(exit);
        assert!(sent.stdout.contains(progress), "{program}: {sent:?}");
        assert_eq!(world.weight("EX-1").await, weight, "{program}");
        // the whole circle: what is given back names its line, and is refused again for the same reason
        if exit == 5 {
            let jobs = world.run(&["job", "list", "--json", "--limit", "1"]).await.ends_with(0).json();
            let job = jobs["results"][0]["id"].as_str().unwrap().to_owned();
            let back = world.run(&["job", "refused", &job]).await.ends_with(0).stdout;
            assert!(back.lines().next().unwrap().contains("_line"), "{program}: {back}");
            let repaired = folder.path().join("refused.csv");
            std::fs::write(&repaired, back).unwrap();
            let again = world.run(&["sync", "products", repaired.to_str().unwrap(), "--eshop", &eshop]).await;
            assert!(again.ends_with(5).stdout.contains("0 changed, 0 unchanged"), "{program}");
        }
    }
}

#[tokio::test]
async fn a_test_of_a_webhook_shows_the_answer_of_its_destination() {
    let world = World::new().await;
    let shop = Receiver::start().await.unwrap();
    shop.answer("/broken", Answer::Status(500));
    let api = longshore_demo::api::Api::new(&world.stack.base_url, &world.token).unwrap();
    let well = api.create_webhook(world.tenant.eshop.get(), "*", &shop.url("/well")).await.unwrap();
    let broken = api.create_webhook(world.tenant.eshop.get(), "*", &shop.url("/broken")).await.unwrap();

    let tested = world.run(&["webhook", "test", &well.id.to_string()]).await.ends_with(0);
    assert!(tested.stdout.contains("is delivered after 1 attempt; status 204"), "{tested:?}");
    let example = ["webhook", "test", &well.id.to_string(), "--event", "sync_finished"];
    world.run(&example).await.ends_with(0);
    let marks: Vec<_> = shop.receipts_at("/well").iter().map(|sent| sent.json().unwrap()).collect();
    let marks: Vec<_> = marks.iter().map(|body| (body["type"].as_str(), body["test"].as_bool())).collect();
    assert_eq!(marks, [(Some("test"), Some(true)), (Some("sync_finished"), Some(true))]);
    let tested = world.run(&["webhook", "test", &broken.id.to_string(), "--json"]).await.ends_with(1).json();
    assert_eq!(tested["attempts"][0]["status"], 500);

    let failing = world.run(&["webhook", "list", "--health", "failing", "--ids"]).await.ends_with(0).stdout;
    assert!(failing.contains(&broken.id.to_string()) && !failing.contains(&well.id.to_string()), "{failing}");
    // it waits for its second attempt, which the command makes due
    shop.answer("/broken", Answer::Status(204));
    let recover = ["webhook", "recover", &broken.id.to_string(), "--since", "2020-01-01T00:00:00Z"];
    let recovered = world.run(&recover).await.ends_with(0);
    assert!(
        recovered.stdout.contains("\n1 waiting delivery released; no failed ones to resend.\n"),
        "{recovered:?}"
    );
}

fn verdict<'r>(report: &'r Value, check: &str) -> &'r Value {
    let found = report["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == check);
    &found.unwrap_or_else(|| panic!("no {check} in {report:#}"))["verdict"]
}

#[tokio::test]
async fn the_doctor_finds_a_running_service_well() {
    let world = World::new().await;
    // a new worker shows signs of life only after a moment; until then, waiting work is a fault
    let until = Instant::now() + SOON;
    let report = loop {
        let ran = world.doctor(&["--json"]).await;
        if verdict(&ran.json(), "workers") == "ok" || Instant::now() >= until {
            break ran.ends_with(0).json();
        }
    };
    for check in [
        "postgres.connection",
        "postgres.version",
        "postgres.primary",
        "postgres.role",
        "postgres.grants",
        "postgres.migrations",
        "postgres.clock",
        "redis.connection",
        "redis.version",
        "redis.primary",
        "redis.eviction",
        "redis.clock",
        "workers",
        "secrets",
        "objects",
    ] {
        assert_eq!(verdict(&report, check), "ok", "{check}: {report:#}");
    }
    // the stack allows webhooks to this machine
    assert_eq!(verdict(&report, "settings"), "warn");
    let lines = world.doctor(&[]).await.ends_with(0).stdout;
    assert!(lines.lines().any(|line| line.starts_with("ok    workers")), "{lines}");
}
