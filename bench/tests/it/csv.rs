use std::fmt::Write as _;
use std::sync::LazyLock;

use longshore_bench::measure::process::{forget_peak, peak};
use longshore_kernel::access::Role;
use longshore_testkit::client::outside;
use longshore_testkit::services;
use longshore_testkit::stack::{Stack, StackSettings};
use longshore_testkit::world::Tenant;

/// What a file may cost the api in memory, in MiB.
const MOST: f64 = 64.0;

/// Bytes of a file: kept whole, and once more as what they are read as, they are over the limit.
const BYTES: usize = 48 << 20;

/// What makes a line long: what a row costs besides is not looked at.
static LONG: LazyLock<String> = LazyLock::new(|| "long ".repeat(48));

/// Lines of one kind up to the size, after the first line of the file.
fn lines(first: &str, line: impl Fn(usize) -> String) -> Vec<u8> {
    let mut file = first.to_owned();
    for n in 0.. {
        if file.len() > BYTES {
            break;
        }
        writeln!(file, "{}", line(n)).unwrap();
    }
    file.into_bytes()
}

/// Files that a reader may want to keep: each with its path, what the query says besides the e-shop, and the status of its answer.
fn files() -> Vec<(&'static str, &'static str, &'static str, Vec<u8>, u16)> {
    let (products, orders) = ("products", "expeditions");
    let twice = |half: &str| half.repeat(BYTES / half.len());
    vec![
        ("a catalogue", products, "", lines("productSku;name\n", |n| format!("MEM-{n};{}", *LONG)), 202),
        ("a cell without an end", products, "", format!("productSku;name\nA;\"{}", twice("a")).into(), 400),
        ("a cell of quotes", products, "", format!("productSku;name\nA;\"{}\"", twice("\"\"")).into(), 400),
        ("a first line of columns", products, "", twice("name;").into(), 400),
        ("a first line without an end", products, "", twice("a").into(), 400),
        ("a row of cells", products, "", format!("productSku;name\n{}", twice("a;")).into(), 400),
        ("empty lines", products, "", format!("productSku;name\n{}", twice("\n")).into(), 202),
        (
            "rows that are refused",
            products,
            "",
            lines("productSku;weight\n", |n| format!("MEM-{n};{}", *LONG)),
            202,
        ),
        ("UTF-16", products, "&charset=utf-16", twice("\u{4141}").into(), 400),
        (
            "letters of windows",
            products,
            "&charset=windows-1250",
            lines("productSku;name\n", |n| format!("MEM-{n};{}", "\u{161}".repeat(99))),
            202,
        ),
        (
            "lines of one order",
            orders,
            "",
            lines("orderNumber;item.productSku;item.quantity\n", |_| format!("ONE;{};1", *LONG)),
            400,
        ),
    ]
}

#[tokio::test]
async fn no_file_of_csv_costs_the_api_more_than_64_mib() {
    let stack = Stack::start(&StackSettings::from_environment().unwrap()).await.unwrap();
    let services = services::for_test(&stack.database_url.as_str().parse().unwrap()).unwrap();
    let tenant = Tenant::create(&services, "Memory").await.unwrap();
    let token = tenant.token(&services, Role::User).await.unwrap();
    let (client, api) = (outside().unwrap(), stack.api_pid().unwrap());
    let send = async |path: &str, query: &str, file: Vec<u8>| {
        let path = format!(
            "{}/api/partner-integration/eshop/sync/{path}?eshop={}{query}",
            stack.base_url, tenant.eshop
        );
        let request = client.post(path).bearer_auth(&token).header("content-type", "text/csv");
        let answer = request.header("prefer", "respond-async").body(file).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    // what it takes once
    send("products", "", b"productSku;name\nA;B\n".to_vec()).await;
    let before = peak(api).unwrap();
    for (what, path, query, file, expected) in files() {
        forget_peak(api).unwrap();
        let size = file.len();
        let (status, text) = send(path, query, file).await;
        let cost = peak(api).unwrap() - before;
        println!("{what}: {size} bytes, {status}, {cost:.1} MiB");
        assert_eq!(status, expected, "{what}: {text}");
        assert!(cost <= MOST, "{what} costs {cost} MiB");
    }
    assert_eq!(stack.api_pid().unwrap(), api, "the api was started again");
}
