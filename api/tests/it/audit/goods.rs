//! Writing operations on warehouses, wms, suppliers, packaging, images, product services, carriers and
//! integration settings.

use serde_json::{Value, json};
use uuid::Uuid;

use super::Leaves::{Record, Records};
use super::{Case, World, id};

/// A case for each operation, with the records that it changes.
pub(super) async fn cases(world: &World, product: &str) -> Vec<Case> {
    let api = &world.api;
    let tenant = &api.tenant;
    let organisation = tenant.organisation;
    let make =
        async |path: &str, body: Value| id(&api.post(&api.superadmin, path, body).await.expect(201).json());
    let carrier = |code: i32| json!({"name": "Post", "code": code, "organisations": []});
    let post = make("/api/carrier", carrier(1)).await;
    let parcel = |code: i32| json!({"carrier": post, "name": "Parcel", "code": code});
    let service = make("/api/carrier-service", parcel(1)).await;
    let gulls = json!({"name": "Gulls", "code": 3, "organisations": [organisation]});
    let gulls = make("/api/carrier", gulls).await;
    let prefers =
        |position: i32| json!({"organisation": organisation, "position": position, "carrier": gulls});
    let preference = make("/api/carrier-preference", prefers(1)).await;
    let picture = |name: &str| json!({"fileName": name, "data": "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="});
    let upload = format!("/api/product/{product}/image/upload");
    let image = id(&api.put(&api.superadmin, &upload, picture("a.gif")).await.expect(201).json());
    let place = |name: &str| json!({"organisation": organisation, "name": name, "customId": "W9"});
    let inventory = |name: &str| {
        json!({"organisation": organisation, "name": name, "distributionCenter": organisation, "storeKey": "k",
               "internalId": "9"})
    };
    let setting = |token: &str| json!({"integrationType": "baselinker", "credentials": {"token": token}});
    let of_eshop = format!("/api/partner-integration/eshop-setting/{}", tenant.eshop);

    let lost: Uuid = sqlx::query_scalar(
        "INSERT INTO wms_lost_order (id, wms_id, expedition_id, organisation_id, report)
         VALUES (uuid_v7(), $1, uuid_v7(), $2, '{}') RETURNING id",
    )
    .bind(tenant.wms)
    .bind(tenant.organisation)
    .fetch_one(&world.owner)
    .await
    .unwrap();
    let of_wms = format!("/api/partner-integration/wms-setting/{}", tenant.wms);
    let system = json!({"baseUrl": "https://wms.example/"});

    let case =
        |operation: &'static str, path: String, body: Value, leaves| Case { operation, path, body, leaves };
    let fixed = |operation: &'static str, body: Value, action| {
        case(operation, operation.split_once(' ').unwrap().1.to_owned(), body, Record(action))
    };
    let on = |operation: &'static str, id: &str, body: Value, action| {
        let path = operation.split_once(' ').unwrap().1.replace("{id}", id);
        let path = path.replace("{image}", &image).replace("{service}", "inbound_localisation_check");
        case(operation, path, body, Record(action))
    };
    let form = Value::Null;
    let eshop_follows = |operation: &'static str, body: Value, actions| {
        case(operation, of_eshop.clone(), body, Records(actions))
    };
    let (warehouse, wms) = (tenant.warehouse.to_string(), tenant.wms.to_string());
    let supplier = world.supplier.to_string();
    let mut cases = vec![
        fixed("POST /api/warehouse", place("Quay"), "warehouse.create"),
        on("PUT /api/warehouse/{id}", &warehouse, json!({"name": "North"}), "warehouse.update"),
        fixed("POST /api/wms", inventory("Quay"), "wms.create"),
        on("PUT /api/wms/{id}", &wms, json!({"name": "North"}), "wms.update"),
        fixed(
            "POST /api/supplier",
            json!({"organisation": organisation, "name": "Smith"}),
            "supplier.create",
        ),
        on("PUT /api/supplier/{id}", &supplier, json!({"note": "Closed in May."}), "supplier.update"),
        fixed("POST /api/packaging-option", json!({"code": "B", "name": "Box"}), "packaging_option.create"),
        on("PUT /api/product/{id}/image/upload", product, picture("b.gif"), "product.image_add"),
        on("POST /api/product/{id}/image/upload", product, form, "product.image_add"),
        on("DELETE /api/product/{id}/{image}", product, Value::Null, "product.image_remove"),
        on("PUT /api/product/{id}/service/{service}", product, Value::Null, "product.service_on"),
        on("DELETE /api/product/{id}/service/{service}", product, Value::Null, "product.service_off"),
        fixed("POST /api/carrier", carrier(2), "carrier.create"),
        on("PUT /api/carrier/{id}", &post, json!({"name": "Bay Post"}), "carrier.update"),
    ];
    cases.extend([
        on(
            "PUT /api/carrier/{id}/organisation-add",
            &post,
            json!([organisation]),
            "carrier.organisation_add",
        ),
        on(
            "PUT /api/carrier/{id}/organisation-remove",
            &post,
            json!([organisation]),
            "carrier.organisation_remove",
        ),
        fixed("POST /api/carrier-service", parcel(2), "carrier_service.create"),
        on("PUT /api/carrier-service/{id}", &service, json!({"name": "By hand"}), "carrier_service.update"),
        fixed("POST /api/carrier-preference", prefers(2), "carrier_preference.create"),
        on(
            "PUT /api/carrier-preference/{id}",
            &preference,
            json!({"active": false}),
            "carrier_preference.update",
        ),
        on("DELETE /api/carrier-preference/{id}", &preference, Value::Null, "carrier_preference.delete"),
        // the e-shop shows its integration
        eshop_follows(
            "POST /api/partner-integration/eshop-setting/{id}",
            setting("hush-4"),
            &["eshop.update", "integration_setting.create"],
        ),
        case(
            "POST /api/partner-integration/eshop-setting/{id}/test",
            format!("{of_eshop}/test"),
            Value::Null,
            Record("integration_setting.test"),
        ),
        eshop_follows(
            "DELETE /api/partner-integration/eshop-setting/{id}",
            Value::Null,
            &["eshop.update", "integration_setting.delete"],
        ),
        case(
            "DELETE /api/lost-order/{id}",
            format!("/api/lost-order/{lost}"),
            Value::Null,
            Record("wms.dismiss_lost_order"),
        ),
        case(
            "POST /api/partner-integration/wms-setting/{id}",
            of_wms.clone(),
            system,
            Record("wms_setting.create"),
        ),
        case(
            "PUT /api/partner-integration/wms-setting/{id}/rotate-secret",
            format!("{of_wms}/rotate-secret"),
            Value::Null,
            Record("wms_setting.rotate_secret"),
        ),
        case(
            "POST /api/partner-integration/wms-setting/{id}/test",
            format!("{of_wms}/test"),
            Value::Null,
            Record("wms_setting.test"),
        ),
        case(
            "DELETE /api/partner-integration/wms-setting/{id}",
            of_wms.clone(),
            Value::Null,
            Record("wms_setting.delete"),
        ),
    ]);
    cases
}

/// The upload as a form, which is not JSON.
pub(super) const FORM: &str = "POST /api/product/{id}/image/upload";

/// Its body.
pub(super) const PICTURE: &str = "--lines\r\nContent-Disposition: form-data; name=\"image\"\r\n\r\n\
    GIF89a\u{1}\0\u{1}\0\0\0\0,\0\0\0\0\u{1}\0\u{1}\0\0\u{2}\u{2}D\u{1}\0;\r\n--lines--\r\n";
