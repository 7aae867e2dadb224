//! Correcting orders.

use longshore_kernel::access::Role;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{Yard, page, text};
use crate::console::repair::{open, send, send_opened};
use crate::console::{Browser, MIGRATIONS, audited};

impl Yard {
    async fn read(&self, id: &str) -> Value {
        let api = &self.world.api;
        api.get(&api.user, &format!("/api/expedition/{id}")).await.expect(200).json()
    }

    /// Another warehouse of the e-shop, with a wms; returns their ids.
    async fn brno(&self) -> (String, String) {
        let (warehouse, wms): (Uuid, Uuid) = sqlx::query_as(
            "WITH warehouse AS (
                 INSERT INTO warehouse SELECT (jsonb_populate_record(w, jsonb_build_object('id', uuid_v7(), 'name', 'Brno', 'default_wms_id', NULL))).*
                 FROM warehouse w WHERE id = $1 RETURNING id
             ), wms AS (
                 INSERT INTO wms (id, organisation_id, name, distribution_center, store_key, internal_id)
                 VALUES (uuid_v7(), $2, 'Hall', uuid_v7(), 'hall', 'hall') RETURNING id
             ), linked AS (
                 INSERT INTO warehouse_wms (warehouse_id, wms_id) SELECT warehouse.id, wms.id FROM warehouse, wms
             ), served AS (
                 INSERT INTO eshop_warehouse (eshop_id, warehouse_id) SELECT $3, id FROM warehouse
             )
             SELECT warehouse.id, wms.id FROM warehouse, wms",
        )
        .bind(self.world.api.tenant.warehouse)
        .bind(self.world.api.tenant.organisation)
        .bind(self.world.api.tenant.eshop)
        .fetch_one(&self.world.owner)
        .await
        .unwrap();
        (warehouse.to_string(), wms.to_string())
    }
}

fn edit(id: &str) -> String {
    format!("{}/edit", page(id))
}

/// The fields of the form of an order as it is opened.
async fn shown(browser: &Browser<'_>, id: &str) -> Vec<(String, String)> {
    let opened = browser.open(&edit(id)).await.expect(200).text;
    let form = opened.split("class=\"editor\"").nth(1).unwrap().split("</form>").next().unwrap();
    let mut fields = open(browser, &edit(id)).await;
    for input in form.split("<input type=\"").skip(1).filter(|input| !input.starts_with("hidden")) {
        let attribute = |name: &str| {
            let (_, rest) = input.split('>').next()?.split_once(&format!(" {name}=\""))?;
            Some(rest.split('"').next()?.to_owned())
        };
        let is_off = input.starts_with("checkbox") && !input.split('>').next().unwrap().contains(" checked");
        if !is_off {
            fields.push((attribute("name").unwrap(), attribute("value").unwrap_or_default()));
        }
    }
    for select in form.split("<select name=\"").skip(1) {
        let chosen = select.split("</select>").next().unwrap();
        let chosen = chosen.split(" selected>").next().unwrap().rsplit("value=\"").next().unwrap();
        fields.push((
            select.split('"').next().unwrap().to_owned(),
            chosen.split('"').next().unwrap().to_owned(),
        ));
    }
    fields
}

/// The same with other values.
fn with(mut fields: Vec<(String, String)>, changes: &[(&str, &str)]) -> Vec<(String, String)> {
    for (name, value) in changes {
        fields.retain(|(known, _)| known != name);
        fields.push(((*name).to_owned(), (*value).to_owned()));
    }
    fields
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_incorrect_order_is_corrected_and_sent_again(_: PgPoolOptions, options: PgConnectOptions) {
    let yard = Yard::new(&options).await;
    yard.stock(9).await;
    yard.world.add("JUG", json!({})).await;
    let wrong = json!({"ignoreAddressValidation": false, "carrier": null, "cod": true, "send": true, "billingCity": "Bristol"});
    let id = yard.order("WRONG", 1, &wrong).await;
    assert_eq!(yard.status(&id).await, "incorrect");
    let browser = yard.browser(Role::User).await;
    let said = browser.open(&page(&id)).await.expect(200).text;
    assert!(said.contains(&format!("href=\"{}\"", edit(&id))), "{said}");
    let form = browser.open(&edit(&id)).await.expect(200).text;
    for part in [
        "deliveryStreet",
        "no_carrier",
        "codValue",
        "name=\"billingCity\" value=\"Bristol\"",
        ">Post</option>",
    ] {
        assert!(form.contains(part), "{part}: {form}");
    }
    // a form that says nothing else changes nothing
    let before = yard.read(&id).await;
    send_opened(&browser, &edit(&id), &shown(&browser, &id).await, &[]).await.expect(303);
    assert_eq!(yard.read(&id).await, before);
    let opened = shown(&browser, &id).await;
    let wrong = [
        ("deliveryCountry", "Atlantis"),
        ("codValue", "many"),
        ("items[0].quantity", "none"),
        ("items[1].productSku", "NOTHING"),
        ("items[1].quantity", "1"),
        ("deliveryStreet", "Quay <Street>"),
    ];
    let refused =
        send_opened(&browser, &edit(&id), &with(opened.clone(), &wrong), &[]).await.expect(400).text;
    for field in ["deliveryCountry", "codValue", "items[0].quantity"] {
        assert!(refused.contains(&format!("id=\"wrong-{field}\"")), "{field}: {refused}");
    }
    for kept in ["value=\"Atlantis\"", "value=\"many\"", "value=\"NOTHING\"", "value=\"Quay &lt;Street&gt;\""]
    {
        assert!(refused.contains(kept), "{kept}: {refused}");
    }
    assert_eq!(yard.read(&id).await, before);
    let right = [
        ("deliveryLastName", "Byron"),
        ("deliveryStreet", "Quay Street"),
        ("deliveryZip", "BS1"),
        ("deliveryCountry", "GB"),
        ("carrier", yard.carrier.as_str()),
        ("codValue", "12.5"),
        ("items[0].quantity", "2"),
        ("items[1].productSku", "JUG"),
        ("items[1].quantity", "3"),
    ];
    let reply = send_opened(&browser, &edit(&id), &with(opened.clone(), &right), &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some(format!("{}?done=order-stored", page(&id)).as_str()));
    let now = yard.read(&id).await;
    assert_eq!(
        (&now["deliveryStreet"], &now["billingStreet"], &now["codValue"]),
        (&json!("Quay Street"), &Value::Null, &json!(12.5))
    );
    assert_eq!(now["differentDeliveryAddress"], true);
    let items: Vec<_> =
        now["items"].as_array().unwrap().iter().map(|i| json!([i["productSku"], i["quantity"]])).collect();
    assert_eq!(items, [json!(["MUG", 2]), json!(["JUG", 3])]);
    assert_eq!(audited(&yard.world, id.parse().unwrap()).await.unwrap().0, "expedition.update");
    browser.act(&format!("{}/send", page(&id)), &[]).await.expect(303);
    assert_eq!(yard.status(&id).await, "waiting_for_goods");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_form_that_another_one_overtook_is_shown_again(_: PgPoolOptions, options: PgConnectOptions) {
    let yard = Yard::new(&options).await;
    let id = yard.order("ONE", 1, &json!({"billingStreet": "Quay Street"})).await;
    let browser = yard.browser(Role::User).await;
    let opened = shown(&browser, &id).await;
    let api = &yard.world.api;
    let changed = json!({"billingCity": "Bristol"});
    api.put(&api.user, &format!("/api/expedition/{id}"), changed).await.expect(200);
    let typed = with(opened, &[("billingStreet", "Mill Road")]);
    let refused = send_opened(&browser, &edit(&id), &typed, &[]).await.expect(412).text;
    for part in [
        "was changed since this form was opened",
        "Stored now: billingCity is Bristol.",
        "value=\"Mill Road\"",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert_eq!(yard.read(&id).await["billingStreet"], "Quay Street");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn bundles_and_what_a_form_does_not_show_of_an_item_are_kept(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let pair = json!({"type": "bundle", "childrenProducts": [{"productId": yard.product, "quantity": 2}]});
    let pair = yard.world.add("PAIR", pair).await;
    let card = yard.world.add("CARD", json!({"type": "virtual"})).await;
    let items = json!([
        {"product": yard.product, "quantity": 1, "lot": "L-7", "productValue": 4.5},
        {"product": pair, "quantity": 2, "ref1": "gift"},
        {"product": card, "quantity": 1},
    ]);
    let id = yard.order("ONE", 1, &json!({"items": items})).await;
    let browser = yard.browser(Role::User).await;
    let opened = shown(&browser, &id).await;
    for (n, sku, quantity) in [(0, "MUG", "1"), (1, "PAIR", "2"), (2, "CARD", "1"), (3, "", "")] {
        for (name, value) in [("productSku", sku), ("quantity", quantity)] {
            assert!(opened.contains(&(format!("items[{n}].{name}"), value.to_owned())), "{opened:?}");
        }
    }
    send_opened(&browser, &edit(&id), &with(opened, &[("items[1].quantity", "3")]), &[]).await.expect(303);
    let now = yard.read(&id).await;
    assert_eq!((&now["items"][0]["lot"], &now["items"][0]["productValue"]), (&json!("L-7"), &json!(4.5)));
    assert_eq!(
        (&now["items"][1]["bundle"], &now["items"][1]["quantity"], &now["items"][1]["ref1"]),
        (&json!(pair), &json!(6), &json!("gift"))
    );
    assert_eq!(now["removedVirtualProducts"], json!([{"productId": card, "quantity": 1}]));
    // a line is removed by emptying it, and the others are those that they were
    let opened = shown(&browser, &id).await;
    send_opened(&browser, &edit(&id), &with(opened, &[("items[0].productSku", "")]), &[]).await.expect(303);
    let now = yard.read(&id).await;
    assert_eq!(now["items"].as_array().unwrap().len(), 1);
    assert_eq!((&now["items"][0]["bundle"], &now["items"][0]["ref1"]), (&json!(pair), &json!("gift")));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_sent_order_gets_a_new_address_and_one_that_has_left_does_not(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    yard.stock(5).await;
    let id = yard.order("ONE", 1, &json!({"send": true, "billingStreet": "Quay Street"})).await;
    let browser = yard.browser(Role::Admin).await;
    let form = browser.open(&edit(&id)).await.expect(200).text;
    assert!(form.contains("It keeps its pieces"), "{form}");
    assert!(!form.contains("items[0]") && !form.contains("name=\"place\""), "{form}");
    let opened = shown(&browser, &id).await;
    let reply =
        send_opened(&browser, &edit(&id), &with(opened.clone(), &[("billingStreet", "Mill Road")]), &[])
            .await
            .expect(303);
    assert_eq!(reply.header("location"), Some(format!("{}?done=order-amended", page(&id)).as_str()));
    let now = yard.read(&id).await;
    assert_eq!(
        (&now["status"], &now["deliveryStreet"]),
        (&json!("awaiting_processing"), &json!("Mill Road"))
    );
    browser.act(&format!("{}/status", page(&id)), &[("status", "take_out")]).await.expect(303);
    let shown_now = browser.open(&page(&id)).await.expect(200).text;
    assert!(!shown_now.contains(&edit(&id)), "{shown_now}");
    let late = with(shown(&browser, &id).await, &[("billingStreet", "Long Road")]);
    let refused = send_opened(&browser, &edit(&id), &late, &[]).await.expect(400).text;
    assert!(refused.contains("it has left"), "{refused}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_waits_is_shipped_from_where_the_pieces_are(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    yard.stock(0).await;
    let id = yard.order("ONE", 3, &json!({"send": true})).await;
    assert_eq!(yard.status(&id).await, "waiting_for_goods");
    let (warehouse, wms) = yard.brno().await;
    sqlx::query(
        "INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
         SELECT uuid_v7(), organisation_id, product_id, $1::uuid, $2::uuid, 40 FROM product_stock",
    )
    .bind(&warehouse)
    .bind(&wms)
    .execute(&yard.world.owner)
    .await
    .unwrap();
    yard.unmark().await;
    let browser = yard.browser(Role::User).await;
    let said = browser.open(&page(&id)).await.expect(200).text;
    let (_, link) = said.split_once("40 free in Brno, Hall.").unwrap();
    let link = link.split_once("href=\"").unwrap().1.split('"').next().unwrap().replace("&amp;", "&");
    assert!(said.contains(">Ship from Brno</a>") && link.contains("/ship-from?"), "{link}: {said}");
    let viewer = Browser::new(&yard.world.api, &yard.world.api.viewer);
    assert!(!viewer.open(&page(&id)).await.expect(200).text.contains("Ship from"));
    viewer.open(&link).await.expect(403);
    // what the e-shop is not shipped from is refused
    let elsewhere = link.replace(&warehouse, &Uuid::nil().to_string());
    browser.open(&elsewhere).await.expect(400);
    let reply = browser.act(&link, &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some(format!("{}?done=order-moved", page(&id)).as_str()));
    let now = yard.read(&id).await;
    assert_eq!(
        (&now["status"], text(&now, "warehouse"), text(&now, "wms")),
        (&json!("awaiting_processing"), warehouse.clone(), wms)
    );
    // an order that does not wait any more is left as it is
    let version = now["version"].to_string();
    let again = [
        ("warehouse", warehouse.as_str()),
        ("wms", now["wms"].as_str().unwrap()),
        ("version", version.as_str()),
    ];
    let question = browser.open(&format!("{}/send", page(&id))).await.expect(200).text;
    let mut fields = crate::console::hidden(&question);
    fields.extend(again.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    browser.send_bare(&format!("{}/ship-from", page(&id)), &fields).await.expect(409);
    assert_eq!(yard.read(&id).await, now);
    // a place is also changed by the form of one that is held
    let held = yard.order("TWO", 1, &json!({})).await;
    let place = format!("{warehouse} {}", now["wms"].as_str().unwrap());
    send(&browser, &edit(&held), &[("place", &place)]).await.expect(303);
    assert_eq!(text(&yard.read(&held).await, "warehouse"), warehouse);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_operation_is_done_with_selected_orders_by_a_job(_: PgPoolOptions, options: PgConnectOptions) {
    let yard = Yard::new(&options).await;
    let ids = [yard.order("ONE", 1, &json!({})).await, yard.order("TWO", 1, &json!({})).await];
    let browser = yard.browser(Role::User).await;
    let list = browser.open("/console/order?status=on_hold").await.expect(200).text;
    for operation in ["send", "process", "rollback", "cancel"] {
        assert!(
            list.contains(&format!("formaction=\"/console/order/bulk/{operation}\"")),
            "{operation}: {list}"
        );
        let chosen = format!("/console/order/bulk/{operation}?status=on_hold&id={}&id={}", ids[0], ids[1]);
        let question = browser.open(&chosen).await.expect(200).text;
        assert!(
            question.contains(" 2 orders?") && question.contains("href=\"/console/order?status=on_hold\""),
            "{question}"
        );
        let reply = browser.act(&chosen, &[]).await.expect(303);
        let location = reply.header("location").unwrap();
        let job: Uuid =
            location.strip_prefix("/console/job/").unwrap().split('?').next().unwrap().parse().unwrap();
        let (kind, total): (String, i64) =
            sqlx::query_as("SELECT kind, total::bigint FROM job WHERE id = $1")
                .bind(job)
                .fetch_one(&yard.world.owner)
                .await
                .unwrap();
        assert_eq!((kind, total), (format!("expedition.{operation}"), 2));
        assert!(location.ends_with("?done=orders-running"), "{location}");
        browser.open(&format!("/console/order/bulk/{operation}")).await.expect(400);
    }
    let viewer = Browser::new(&yard.world.api, &yard.world.api.viewer);
    let list = viewer.open("/console/order").await.expect(200).text;
    assert!(!list.contains("name=\"id\"") && !list.contains("formaction"), "{list}");
    viewer.open(&format!("/console/order/bulk/send?id={}", ids[0])).await.expect(403);
    browser.open("/console/order/bulk/nothing").await.expect(404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_operation_is_done_with_all_orders_of_a_status(_: PgPoolOptions, options: PgConnectOptions) {
    let yard = Yard::new(&options).await;
    for number in ["ONE", "TWO", "THREE"] {
        yard.order(number, 1, &json!({})).await;
    }
    yard.order("SENT", 1, &json!({"send": true})).await;
    let browser = yard.browser(Role::User).await;
    let offer = "href=\"/console/order/bulk/send?status=on_hold&amp;all=true\"";
    let list = browser.open("/console/order?status=on_hold").await.expect(200).text;
    assert!(list.contains(offer), "{list}");
    // only what criteria say, too
    for search in ["", "?number=ONE", "?status=on_hold&number=ONE", "?status=incorrect&error=no"] {
        let list = browser.open(&format!("/console/order{search}")).await.expect(200).text;
        assert!(!list.contains("all=true"), "{search}: {list}");
    }
    let all = "/console/order/bulk/send?status=on_hold&all=true";
    let question = browser.open(all).await.expect(200).text;
    assert!(question.contains("Send 3 orders?"), "{question}");
    assert!(question.contains("name=\"expect\" value=\"3\""), "{question}");
    // an order more than the question said
    yard.order("FOUR", 1, &json!({})).await;
    let asked = crate::console::hidden(&question);
    let fields: Vec<_> = asked.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let refused = browser.send_bare("/console/order/bulk/send", &fields).await.expect(409).text;
    assert!(refused.contains("which is 4.") && refused.contains("Send 4 orders?"), "{refused}");
    let reply = browser.act(all, &[]).await.expect(303);
    assert!(reply.header("location").unwrap().ends_with("?done=orders-running"));
    let (total, criteria): (i32, Value) = sqlx::query_as("SELECT total, parameters -> 'criteria' FROM job")
        .fetch_one(&yard.world.owner)
        .await
        .unwrap();
    assert_eq!((total, criteria), (4, json!({"status": {"eq": "on_hold"}})));
    for query in [
        "all=true",
        "all=true&status=on_hold&sku=MUG",
        "all=true&status=on_hold&expect=x",
        "all=true&status=incorrect",
    ] {
        let path = format!("/console/order/bulk/send?{query}");
        let status = if query.ends_with("incorrect") { 200 } else { 400 };
        browser.open(&path).await.expect(status);
    }
    browser.act("/console/order/bulk/send?status=incorrect&all=true", &[]).await.expect(400);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_error_leads_to_all_of_its_orders(_: PgPoolOptions, options: PgConnectOptions) {
    let yard = Yard::new(&options).await;
    let mut ids = Vec::new();
    for number in ["ONE", "TWO"] {
        ids.push(yard.order(number, 1, &json!({"carrier": null, "send": true})).await);
    }
    let other = yard.order("OTHER", 1, &json!({"cod": true, "send": true})).await;
    let browser = yard.browser(Role::User).await;
    let said = browser.open("/console/order/attention").await.expect(200).text;
    let links: Vec<String> = said
        .split("data-label=\"Orders\"><a href=\"")
        .skip(1)
        .map(|link| link.split('"').next().unwrap().replace("&amp;", "&"))
        .collect();
    assert_eq!(links.len(), 2, "{said}");
    let first = browser.open(&links[0]).await.expect(200).text;
    let second = browser.open(&links[1]).await.expect(200).text;
    for id in &ids {
        assert!(super::shows(&first, id) && !super::shows(&second, id), "{first}");
    }
    assert!(super::shows(&second, &other) && !super::shows(&first, &other), "{second}");
    // with the other filters
    for (query, found) in [("number=ONE", true), ("number=OTHER", false), ("status=on_hold", false)] {
        let list = browser.open(&format!("{}&{query}", links[0])).await.expect(200).text;
        assert_eq!(super::shows(&list, &ids[0]), found, "{query}: {list}");
    }
}
