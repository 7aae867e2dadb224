//! Products, their images and services, packaging options.

mod image;

use longshore_shared::catalog::product::rules::{
    DEFAULT_PACKAGING, MAX_CHILDREN, MAX_ESHOPS, MAX_QUANTITY, MAX_REFERENCE_NUMBERS, MAX_SIDE, MAX_WEIGHT,
};
use longshore_shared::catalog::product::service::SERVICES;
use longshore_shared::job::acceptance::LARGEST_BULK;
use longshore_shared::list::fields::packaging::PACKAGING_OPTION as OPTIONS;
use longshore_shared::list::fields::product::PRODUCT as PRODUCTS;
use serde_json::{Value, json};

use super::example::{CHANGED, CREATED, ESHOP, ORGANISATION, PACKAGING_OPTION as BOX, PRODUCT as MUG};
use super::job::answers_job;
use super::operation::{Operation, delete, list, post, put, read};
use super::record::Described;
use super::schema::{Said, Shape, array, boolean, country, default, id, integer, object, one_of, text};
use crate::routes::catalog::{packaging, product, read as handlers, service, switch};

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let switched = |operation: Operation, form: &str| operation.says(form).done();
    let this = "Done whatever it was before.";
    let serviced = |operation: Operation, form: &str| {
        let operation = operation.says(form).says("404 where there is no such product or service.");
        operation.parameter("service", one_of(SERVICES)).done()
    };
    let mut operations = vec![
        list("/api/product/list", handlers::list_products, &PRODUCTS, "Lists products"),
        post("/api/product", product::create_product, "Creates a product")
            .says("`productSku` is unique in the organisation: one that is taken is 400 `already_taken`.")
            .body("ProductToCreate", to_create(), creation())
            .created(&PRODUCTS),
        read("/api/product/{id}", handlers::get_product, &PRODUCTS, "Reads a product"),
        put("/api/product/{id}", product::update_product, "Changes a product")
            .says("The given fields change, absent ones stay, and null clears a nullable one. `organisation` never changes.")
            .body("ProductToUpdate", to_create().for_update(), json!({"name": "Harbour mug, large", "weight": 410}))
            .updated(&PRODUCTS)
            .refuses(&[409]),
        switched(put("/api/product/activate/{id}", product::activate_product, "Switches a product on"), this),
        switched(put("/api/product/{id}/activate", product::activate_product, "Switches a product on").alias(), this),
        switched(put("/api/product/deactivate/{id}", product::deactivate_product, "Switches a product off"), this),
        switched(put("/api/product/{id}/deactivate", product::deactivate_product, "Switches a product off").alias(), this),
        answers_job(
            put("/api/product/activate", switch::activate_products, "Switches products on, in bulk")
                .body("Ids", ids(), json!([MUG])),
            "A job, for which it waits 10 seconds unless `Prefer` says otherwise. Unknown ids are item errors of the job.",
        ),
        answers_job(
            put("/api/product/deactivate", switch::deactivate_products, "Switches products off, in bulk")
                .body("Ids", ids(), json!([MUG])),
            "A job, for which it waits 10 seconds unless `Prefer` says otherwise. Unknown ids are item errors of the job.",
        ),
        serviced(
            put("/api/product/{id}/service/{service}", service::add_product_service, "Switches a product service on"),
            this,
        ),
        serviced(
            delete("/api/product/{id}/service/{service}", service::remove_product_service, "Switches a product service off"),
            this,
        ),
        list("/api/packaging-option/list", packaging::list_packaging_options, &OPTIONS, "Lists packaging options"),
        post("/api/packaging-option", packaging::create_packaging_option, "Creates a packaging option")
            .says("`code` is unique: one that is taken is 400 `already_taken`.")
            .body(
                "PackagingOptionToCreate",
                object().about("A packaging option as it is wanted.").required("code", text(1..=255)).required("name", text(1..=255)),
                json!({"code": "B", "name": "Padded box"}),
            )
            .created(&OPTIONS),
        read("/api/packaging-option/{id}", packaging::get_packaging_option, &OPTIONS, "Reads a packaging option"),
    ];
    operations.extend(image::operations());
    operations
}

/// The ids of a bulk; duplicates are ignored.
pub(super) fn ids() -> Said {
    array(1..=LARGEST_BULK, id())
}

/// The fields of a product in every kind of request.
pub(super) fn said() -> Shape {
    let side = || integer(0..=i64::from(MAX_SIDE));
    object()
        .required("productSku", text(1..=255))
        .optional("internalSku", text(1..=255))
        .nullable("productGroup", id())
        .optional("name", text(2..=255))
        .nullable("description", text(2..=255))
        .nullable("weight", integer(0..=i64::from(MAX_WEIGHT)))
        .nullable("height", side())
        .nullable("width", side())
        .nullable("length", side())
        .optional("referenceNumbers", array(0..=MAX_REFERENCE_NUMBERS, text(1..=255)))
        .optional("packagingType", default(text(1..=255), DEFAULT_PACKAGING))
        .optional("imeiCheckRequired", boolean())
        .optional("workAroundSnIn", default(boolean(), false))
        .optional("workAroundEanSticker", default(boolean(), false))
        .optional("workAroundWarrantyInf", default(boolean(), false))
        .optional("workAroundLot", default(boolean(), false))
        .optional("active", boolean())
        .nullable("countryOfOrigin", country())
        .nullable("hsCode", text(0..=25))
        .nullable("type", one_of(&["physical", "virtual", "bundle"]))
        .nullable("childrenProducts", parts())
        .nullable("category", one_of(&["dangerous_substances"]))
}

fn parts() -> Said {
    let part =
        object().required("productId", id()).required("quantity", integer(1..=i64::from(MAX_QUANTITY)));
    array(0..=MAX_CHILDREN, part.called("BundlePart"))
}

fn to_create() -> Shape {
    said()
        .required("eshops", array(1..=MAX_ESHOPS, id()))
        .required("internalSku", text(1..=255))
        .required("organisation", id())
        .required("name", text(2..=255))
        .required("imeiCheckRequired", boolean())
        .required("active", boolean())
        .explain(MEANINGS)
        .about("A product to be created.")
}

fn creation() -> Value {
    json!({
        "eshops": [ESHOP], "productSku": "8590000000017", "internalSku": "MUG-1", "organisation": ORGANISATION,
        "name": "Harbour mug", "description": "Stoneware, 0.3 l", "weight": 320, "height": 95, "width": 110,
        "length": 80, "referenceNumbers": ["8590000000024"], "packagingType": "A", "imeiCheckRequired": false,
        "active": true, "countryOfOrigin": "CZ", "hsCode": "6912 00", "type": "physical",
    })
}

/// What the fields of a product mean.
pub(super) const MEANINGS: &[(&str, &str)] = &[
    ("eshops", "E-shops that it is sold in; all belong to the organisation."),
    ("productSku", "Usually the barcode; unique in the organisation; kept as it comes."),
    ("internalSku", "Its name in the client's own system."),
    ("organisation", "Whose it is; never changes."),
    ("productGroup", "Any uuid."),
    ("weight", "Grams."),
    ("height", "Millimeters."),
    ("width", "Millimeters."),
    ("length", "Millimeters."),
    ("referenceNumbers", "Additional barcodes."),
    ("packagingType", "`A`, or the code of a packaging option of the operator."),
    ("imeiCheckRequired", "Partially implemented, not to be used yet."),
    ("workAroundSnIn", "Serial numbers must be monitored."),
    ("workAroundEanSticker", "It must be labeled with EAN barcodes."),
    ("workAroundWarrantyInf", "Warranty must be checked."),
    ("workAroundLot", "Lot and batch must be checked."),
    ("countryOfOrigin", "ISO 3166-1 alpha-2; used for customs clearance."),
    ("hsCode", "Harmonized System code."),
    ("type", "Absent or null is physical."),
    (
        "childrenProducts",
        "Parts of a bundle: physical products of the same organisation. Anything else has none.",
    ),
    ("services", "Product services that the operator switched on."),
];

/// Products.
pub(super) const PRODUCT: Described = Described {
    resource: &PRODUCTS,
    about: "A product of an organisation.",
    fields: MEANINGS,
    shapes: &[("childrenProducts", parts)],
    example: || {
        let mut record = creation();
        let rest = json!({
            "id": MUG, "productGroup": null, "workAroundSnIn": false, "workAroundEanSticker": false,
            "workAroundWarrantyInf": false, "workAroundLot": false, "childrenProducts": null, "category": null,
            "images": [], "services": [], "createdAt": CREATED, "changedAt": CHANGED, "version": 3,
        });
        if let (Value::Object(record), Value::Object(rest)) = (&mut record, rest) {
            record.extend(rest);
        }
        record
    },
};

/// Packaging options.
pub(super) const PACKAGING_OPTION: Described = Described {
    resource: &OPTIONS,
    about: "What `packagingType` of a product may say beside `A`; everybody sees all of them.",
    fields: &[("code", "What products name it by; unique.")],
    shapes: &[],
    example: || json!({"id": BOX, "code": "B", "name": "Padded box", "createdAt": CREATED, "changedAt": CHANGED, "version": 3}),
};
