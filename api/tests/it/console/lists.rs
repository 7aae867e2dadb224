//! Searches, paging, and text from others in names and errors.

use longshore_domain::job::search;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Browser, MIGRATIONS, job, next_page, webhook, world};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn jobs_are_found_by_each_criterion(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let failed = job(&world, &api.tenant, "failed", Some("cannot reach 100% of_it")).await.to_string();
    let running = job(&world, &api.tenant, "running", None).await.to_string();
    let cancelled = job(&world, &api.tenant, "cancelled", None).await.to_string();
    let browser = Browser::new(api, &api.superadmin);
    let (organisation, eshop) = (api.tenant.organisation, api.tenant.eshop);
    let all = [&failed, &running, &cancelled];
    let nobody = uuid::Uuid::from_u128(1);
    for (query, expected) in [
        (String::new(), &all[..]),
        ("state=failed".to_owned(), &all[..1]),
        ("state=running".to_owned(), &all[1..2]),
        ("state=cancelled".to_owned(), &all[2..]),
        ("kind=product.sync".to_owned(), &all[..]),
        ("kind=stock.sync".to_owned(), &[]),
        ("error=REACH+100%25".to_owned(), &all[..1]),
        ("error=of.it".to_owned(), &[]),
        (format!("organisation={organisation}"), &all[..]),
        (format!("organisation={nobody}"), &[]),
        (format!("eshop={eshop}&state=failed"), &all[..1]),
        (format!("eshop={nobody}"), &[]),
        (format!("entity={nobody}"), &[]),
        ("since=2001-01-01T00:00".to_owned(), &all[..]),
        ("until=2001-01-01T00:00".to_owned(), &[]),
        ("since=2999-01-01T00:00".to_owned(), &[]),
    ] {
        let page = browser.open(&format!("/console/job?{query}")).await.expect(200).text;
        for id in all {
            let shown = page.contains(&format!("/console/job/{id}\""));
            assert_eq!(shown, expected.contains(&id), "{query}: {id}");
        }
    }
    for refused in [
        "organisation=x",
        "since=yesterday",
        "state=broken",
        "kind=x",
        "after=x",
        "error=%00",
        "hours=2",
        "since=2026-01-01T00:00&hours=abc",
        "span=nope",
    ] {
        browser.open(&format!("/console/job?{refused}")).await.expect(400);
    }
    let long = format!("/console/job?error={}", "x".repeat(201));
    browser.open(&long).await.expect(400);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_run_time_of_a_job_is_that_of_its_last_attempt(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let id = job(&world, &api.tenant, "failed", Some("the partner is busy")).await;
    world
        .execute(
            "UPDATE job SET started_at = finished_at - interval '12 minutes',
                 attempt_started_at = finished_at - interval '3 seconds'",
        )
        .await;
    let browser = Browser::new(api, &api.superadmin);
    let page = browser.open(&format!("/console/job/{id}")).await.expect(200).text;
    let run_time =
        "<dt>Run time</dt><dd>3.0 s <span class=\"muted\">12 min since its first start</span></dd>";
    assert!(page.contains(run_time), "{page}");
    let list = browser.open("/console/job").await.expect(200).text;
    assert!(list.contains("data-label=\"Ran\">3.0 s</td>"), "{list}");
    // while it waits for its next attempt, it does not run
    world.execute("UPDATE job SET state = 'retrying', finished_at = NULL, chunks_open = 1").await;
    let page = browser.open(&format!("/console/job/{id}")).await.expect(200).text;
    let waits = page.split("<dt>Run time</dt>").nth(1).unwrap();
    assert!(!waits.starts_with("<dd>3.0 s") && waits.contains("12 min since its first start"), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_is_found_by_a_record_that_it_changed(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let id = job(&world, &api.tenant, "succeeded", None).await;
    let entity = uuid::Uuid::from_u128(42);
    sqlx::query(
        "INSERT INTO audit (id, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes, job_id)
         VALUES (uuid_v7(), 'token', 'x', 'product.update', 'product', $1, $2, '{}', $3)",
    )
    .bind(entity)
    .bind(api.tenant.organisation)
    .bind(id)
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.superadmin);
    let page = browser.open(&format!("/console/job?entity={entity}")).await.expect(200).text;
    assert!(page.contains(&format!("/console/job/{id}\"")), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_job_is_on_one_page_and_pages_are_bounded(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let jobs = search::PAGE * 2 + 1;
    // half of them have the same time: the order continues by their ids
    sqlx::query(
        "INSERT INTO job (id, kind, state, organisation_id, acceptance, actor_type, actor_name, created_at, finished_at)
         SELECT uuid_v7(), 'product.activate', 'succeeded', $1, nextval('acceptance'), 'token', 'x',
                now() - make_interval(secs => n / 2), now()
         FROM generate_series(1, $2) AS n",
    )
    .bind(api.tenant.organisation)
    .bind(i32::try_from(jobs).unwrap())
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.superadmin);
    for sort in ["", "&sort=oldest"] {
        let (mut seen, mut sizes) = (Vec::new(), Vec::new());
        let mut path = format!("/console/job?state=succeeded{sort}");
        loop {
            let page = browser.open(&path).await.expect(200).text;
            let ids: Vec<String> =
                page.split("<a href=\"/console/job/").skip(1).map(|rest| rest[..36].to_owned()).collect();
            sizes.push(ids.len());
            seen.extend(ids);
            let Some(next) = next_page(&page) else { break };
            path = next;
            assert!(path.contains("state=succeeded"), "{path}");
        }
        assert_eq!(sizes, [search::PAGE, search::PAGE, 1]);
        let mut in_order: Vec<String> =
            sqlx::query_scalar("SELECT id::text FROM job ORDER BY created_at DESC, id DESC")
                .fetch_all(&world.owner)
                .await
                .unwrap();
        if !sort.is_empty() {
            in_order.reverse();
        }
        assert_eq!(seen, in_order, "{sort}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_search_with_few_matches_reads_a_limited_number_and_can_be_continued(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let wanted = job(&world, &api.tenant, "cancelled", None).await;
    sqlx::query("UPDATE job SET created_at = now() - interval '1 year' WHERE id = $1")
        .bind(wanted)
        .execute(&world.owner)
        .await
        .unwrap();
    sqlx::query(
        "INSERT INTO job (id, kind, state, organisation_id, acceptance, actor_type, actor_name, finished_at)
         SELECT uuid_v7(), 'product.activate', 'succeeded', $1, nextval('acceptance'), 'token', 'x', now()
         FROM generate_series(1, $2)",
    )
    .bind(api.tenant.organisation)
    .bind(search::WINDOW)
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.superadmin);
    let first = browser.open("/console/job?kind=product.sync").await.expect(200).text;
    assert!(first.contains("No job matches.") && first.contains("Search older"), "{first}");
    let second = browser.open(&next_page(&first).unwrap()).await.expect(200).text;
    assert!(second.contains(&wanted.to_string()) && !second.contains("Search older"), "{second}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn values_from_others_are_text_on_every_page(_: PgPoolOptions, options: PgConnectOptions) {
    const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
    let world = world(&options).await;
    let api = &world.api;
    let failed = job(&world, &api.tenant, "failed", Some(HOSTILE)).await;
    for statement in [
        "UPDATE eshop SET name = $1",
        "UPDATE organisation SET name = $1",
        "UPDATE job SET actor_name = $1, request_id = $1",
    ] {
        sqlx::query(statement).bind(HOSTILE).execute(&world.owner).await.unwrap();
    }
    sqlx::query("INSERT INTO job_item_error (job_id, index, key, code, message, payload) VALUES ($1, 0, $2, 'x', $2, '')")
        .bind(failed)
        .bind(HOSTILE)
        .execute(&world.owner)
        .await
        .unwrap();
    let hook = webhook(api, "https://shop.example/%22%3E?x=<b>").await;
    sqlx::query(
        "INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
             attempt_count, attempts, created_at, finished_at)
         VALUES (uuid_v7(), $1, $2, $3, uuid_v7(), 'product_change', uuid_v7(), 'exhausted', 1,
             jsonb_build_array(jsonb_build_object('number', 1, 'at', '2026-01-01T00:00:00Z', 'durationMs', 5, 'status', 500,
                 'error', $4::text, 'response', $4::text)), now(), now())",
    )
    .bind(hook)
    .bind(api.tenant.eshop)
    .bind(api.tenant.organisation)
    .bind(HOSTILE)
    .execute(&world.owner)
    .await
    .unwrap();
    let delivery: uuid::Uuid =
        sqlx::query_scalar("SELECT id FROM delivery_history").fetch_one(&world.owner).await.unwrap();
    let body = serde_json::json!({"eshop": api.tenant.eshop, "name": HOSTILE});
    let reader = api.post(&api.user, "/api/event-reader", body).await.expect(201).json();
    let reader = reader["id"].as_str().unwrap();
    let browser = Browser::new(api, &api.superadmin);
    for path in [
        "/console".to_owned(),
        "/console/job".to_owned(),
        format!("/console/job/{failed}"),
        "/console/failure".to_owned(),
        "/console/webhook".to_owned(),
        format!("/console/webhook/{hook}"),
        "/console/reader".to_owned(),
        format!("/console/reader/{reader}"),
        format!("/console/reader/{reader}/edit"),
        format!("/console/delivery/{delivery}"),
        "/console/audit".to_owned(),
        "/console/sync".to_owned(),
        "/console/job?error=%3Cscript%3E%22".to_owned(),
        "/console/login?next=%22%3E%3Cscript%3E".to_owned(),
        "/console?done=%3Cscript%3E".to_owned(),
    ] {
        let page = browser.open(&path).await.expect(200).text;
        for raw in ["<script>", "<img src=x", "\"'>", "<b>"] {
            assert!(!page.contains(raw), "{path}: {raw}");
        }
    }
    let csv = browser.open(&format!("/console/job/{failed}/errors.csv")).await.expect(200);
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(
        csv.text.starts_with("item,line,key,code,reason,value\r\n0,,\"<script>alert(1)</script>\"\"'>"),
        "{}",
        csv.text
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_refused_item_is_in_the_file_and_the_first_are_on_the_page(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let id = job(&world, &api.tenant, "succeeded", None).await;
    sqlx::query(
        "INSERT INTO job_item_error (job_id, index, line, key, code, message, payload)
         SELECT $1, n, nullif(n + 2, 2), 'MUG-' || n, 'required', 'name is required', ''
         FROM generate_series(0, 2499) AS n",
    )
    .bind(id)
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.viewer);
    let page = browser.open(&format!("/console/job/{id}")).await.expect(200).text;
    assert!(page.contains("MUG-49<") && !page.contains("MUG-50<"), "{page}");
    let file = browser.open(&format!("/console/job/{id}/errors.csv")).await.expect(200);
    assert!(file.header("content-disposition").unwrap().contains(&format!("job-{id}-errors.csv")));
    let lines: Vec<&str> = file.text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2_501, "item,line,key,code,reason,value"));
    assert_eq!(lines[1], "0,,MUG-0,required,name is required,");
    assert_eq!(lines[2_500], "2499,2501,MUG-2499,required,name is required,");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn refused_items_are_grouped_by_reason_and_each_reason_leads_to_its_items(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let id = job(&world, &api.tenant, "succeeded", None).await;
    sqlx::query(
        r#"INSERT INTO job_item_error (job_id, index, line, key, code, message, field, payload)
           SELECT $1, n, n + 2, 'ORDER-' || n, 'unknown_reference',
                  format('items[%s].productSku must be a product of the e-shop: none has the SKU "X-%s"', n % 2, n),
                  format('items[%s].productSku', n % 2),
                  convert_to(format('{"items": [{"productSku": "X-%s"}, {"productSku": "X-%s"}]}', n, n), 'UTF8')
           FROM generate_series(0, 119) AS n
           UNION ALL
           SELECT $1, n, n + 2, 'ORDER-' || n, 'invalid_length', 'deliveryCountry must be an ISO 3166-1 code, such as GB',
                  'deliveryCountry', '{"deliveryCountry": "England"}'
           FROM generate_series(120, 122) AS n"#,
    )
    .bind(id)
    .execute(&world.owner)
    .await
    .unwrap();
    sqlx::query("UPDATE job SET failed = 123, total = 123, done = 123, changed = 0 WHERE id = $1")
        .bind(id)
        .execute(&world.owner)
        .await
        .unwrap();
    let browser = Browser::new(api, &api.superadmin);
    let here = format!("/console/job/{id}");
    let page = browser.open(&here).await.expect(200).text;
    let reasons =
        page.split("aria-label=\"Reasons, table\"").nth(1).unwrap().split("</table>").next().unwrap();
    assert_eq!(reasons.matches("<tr>").count(), 1 + 2, "{reasons}");
    let (unknown, country) = (reasons.find(">120<").unwrap(), reasons.find(">3<").unwrap());
    assert!(
        unknown < country
            && reasons.contains(">items[].productSku<")
            && reasons.contains("the SKU &quot;X-0&quot;"),
        "{reasons}"
    );
    assert!(page.find("Why items were refused").unwrap() < page.find("Timeline").unwrap());
    // a page of 50, and the next
    assert!(page.contains(">ORDER-49<") && !page.contains(">ORDER-50<"), "{page}");
    let next = next_page(&page).unwrap();
    let page = browser.open(&next).await.expect(200).text;
    assert!(page.contains(">ORDER-50<") && page.contains(">ORDER-99<") && page.contains(">X-50<"), "{page}");
    let last = browser.open(&next_page(&page).unwrap()).await.expect(200).text;
    assert!(last.contains(">ORDER-122<") && next_page(&last).is_none(), "{last}");
    // the items of one reason
    let link = reasons[..reasons.find("deliveryCountry must").unwrap()].rsplit("href=\"").next().unwrap();
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let page = browser.open(link.split('#').next().unwrap()).await.expect(200).text;
    assert!(
        page.contains(">ORDER-120<") && !page.contains(">ORDER-0<") && page.contains(">England<"),
        "{page}"
    );
    // what is wrong is not put right by a retry
    assert!(page.contains("<a class=\"button\" href=\"") && page.contains("Retry refused items"), "{page}");
    assert!(!page.contains("button primary"), "{page}");
    let rows = browser.open(&format!("{here}/refused")).await.expect(200);
    assert!(rows.header("content-disposition").unwrap().contains(&format!("job-{id}-refused.ndjson")));
    assert_eq!((rows.text.lines().count(), rows.header("longshore-rows")), (123, None));
    let file = browser.open(&format!("{here}/errors.csv")).await.expect(200).text;
    let row =
        "120,122,ORDER-120,invalid_length,\"deliveryCountry must be an ISO 3166-1 code, such as GB\",England";
    assert!(file.lines().any(|line| line == row), "{file}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn failures_with_the_same_error_are_one_group_and_are_retried_together(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    for number in [17, 4_000] {
        job(&world, &api.tenant, "failed", Some(&format!("chunk {number} timed out"))).await;
    }
    let other = job(&world, &api.tenant, "failed", Some("something else")).await;
    let browser = Browser::new(api, &api.superadmin);
    let page = browser.open("/console/failure").await.expect(200).text;
    assert_eq!(page.matches("timed out</a>").count(), 1, "{page}");
    let key = "SELECT md5('product.sync chunk … timed out')";
    let key: String = sqlx::query_scalar(key).fetch_one(&world.owner).await.unwrap();
    let reply = browser.act(&format!("/console/failure/{key}/retry"), &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some("/console/failure?done=group-retried&count=2"));
    assert_eq!(world.count("SELECT count(*) FROM job WHERE state = 'queued'").await, 2);
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'job.retry'").await, 2);
    let state: String = sqlx::query_scalar("SELECT state FROM job WHERE id = $1")
        .bind(other)
        .fetch_one(&world.owner)
        .await
        .unwrap();
    assert_eq!(state, "failed");
    browser.open(&format!("/console/failure/{key}/retry")).await.expect(404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn failures_of_different_http_statuses_are_different_groups(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    for error in [
        "feed answers HTTP 503 for row 17",
        "feed answers HTTP 503 for row 4000",
        "feed answers HTTP 404 for row 17",
        "status 503",
        "status 404",
    ] {
        job(&world, &api.tenant, "failed", Some(error)).await;
    }
    let browser = Browser::new(api, &api.superadmin);
    let page = browser.open("/console/failure").await.expect(200).text;
    for error in
        ["feed answers HTTP 503 for row …", "feed answers HTTP 404 for row …", "status 503", "status 404"]
    {
        assert_eq!(page.matches(&format!(">{error}</a>")).count(), 1, "{error}: {page}");
    }
    let key = "SELECT md5('product.sync feed answers HTTP 503 for row …')";
    let key: String = sqlx::query_scalar(key).fetch_one(&world.owner).await.unwrap();
    let reply = browser.act(&format!("/console/failure/{key}/retry"), &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some("/console/failure?done=group-retried&count=2"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn items_refused_for_the_same_reason_are_counted_together(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    for items in [2, 1_000] {
        let id = job(&world, &api.tenant, "succeeded", None).await;
        sqlx::query("UPDATE job SET total = $2, done = $2, failed = $2, changed = 0 WHERE id = $1")
            .bind(id)
            .bind(items)
            .execute(&world.owner)
            .await
            .unwrap();
        sqlx::query(
            "INSERT INTO job_item_error (job_id, index, key, code, message, payload)
             SELECT $1, n, 'MUG-' || n, 'required', 'name is required', '' FROM generate_series(1, $2) AS n",
        )
        .bind(id)
        .bind(items)
        .execute(&world.owner)
        .await
        .unwrap();
        // a remark on a row that was taken
        sqlx::query("INSERT INTO job_item_error (job_id, index, code, message, payload, notice) VALUES ($1, 0, 'rounded', 'rounded', '', true)")
            .bind(id)
            .execute(&world.owner)
            .await
            .unwrap();
    }
    let page = Browser::new(api, &api.viewer).open("/console/failure").await.expect(200).text;
    assert!(page.contains("name is required") && page.contains("<td class=\"number\">1,002</td>"), "{page}");
    assert!(page.contains("<td class=\"number\">2</td>") && !page.contains("rounded"), "{page}");
}
