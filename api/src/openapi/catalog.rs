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
    let this = "Has no effect if the product already is in this state.";
    let serviced = |operation: Operation, form: &str| {
        let operation = operation.says(form).says("404 if the product or the service does not exist.");
        operation.parameter("service", one_of(SERVICES)).done()
    };
    let mut operations = vec![
        list("/api/product/list", handlers::list_products, &PRODUCTS, "Lists products"),
        post("/api/product", product::create_product, "Creates a product")
            .says("`productSku` must be unique in the organisation; otherwise 400 `already_taken`.")
            .body("ProductToCreate", to_create(), creation())
            .created(&PRODUCTS),
        read("/api/product/{id}", handlers::get_product, &PRODUCTS, "Reads a product"),
        put("/api/product/{id}", product::update_product, "Changes a product")
            .says("Changes the given fields; null clears a nullable field. `organisation` cannot be changed.")
            .body(
                "ProductToUpdate",
                to_create().for_update(),
                json!({"name": "Harbour mug, large", "weight": 410}),
            )
            .updated(&PRODUCTS)
            .refuses(&[409]),
        switched(put("/api/product/activate/{id}", product::activate_product, "Activates a product"), this),
        switched(
            put("/api/product/{id}/activate", product::activate_product, "Activates a product").alias(),
            this,
        ),
        switched(
            put("/api/product/deactivate/{id}", product::deactivate_product, "Deactivates a product"),
            this,
        ),
        switched(
            put("/api/product/{id}/deactivate", product::deactivate_product, "Deactivates a product").alias(),
            this,
        ),
        answers_job(
            put("/api/product/activate", switch::activate_products, "Activates products in bulk").body(
                "Ids",
                ids(),
                json!([MUG]),
            ),
            "Creates a job and waits up to 10 seconds for it to end; `Prefer` changes that. Unknown ids become item errors of the job.",
        ),
        answers_job(
            put("/api/product/deactivate", switch::deactivate_products, "Deactivates products in bulk").body(
                "Ids",
                ids(),
                json!([MUG]),
            ),
            "Creates a job and waits up to 10 seconds for it to end; `Prefer` changes that. Unknown ids become item errors of the job.",
        ),
        serviced(
            put(
                "/api/product/{id}/service/{service}",
                service::add_product_service,
                "Activates a product service",
            ),
            this,
        ),
        serviced(
            delete(
                "/api/product/{id}/service/{service}",
                service::remove_product_service,
                "Deactivates a product service",
            ),
            this,
        ),
        list(
            "/api/packaging-option/list",
            packaging::list_packaging_options,
            &OPTIONS,
            "Lists packaging options",
        ),
        post("/api/packaging-option", packaging::create_packaging_option, "Creates a packaging option")
            .says("`code` must be unique; otherwise 400 `already_taken`.")
            .body(
                "PackagingOptionToCreate",
                object()
                    .about("A packaging option to create.")
                    .required("code", text(1..=255))
                    .required("name", text(1..=255)),
                json!({"code": "B", "name": "Padded box"}),
            )
            .created(&OPTIONS),
        read(
            "/api/packaging-option/{id}",
            packaging::get_packaging_option,
            &OPTIONS,
            "Reads a packaging option",
        ),
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
        .about("A product to create or change.")
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
    ("eshops", "The e-shops that sell the product. They must belong to the organisation."),
    ("productSku", "Usually the barcode. It is unique in the organisation and stored unchanged."),
    ("internalSku", "The identifier of the product in your own system."),
    ("organisation", "The owner. It cannot be changed."),
    ("productGroup", "A UUID of your choice."),
    ("weight", "Grams."),
    ("height", "Millimeters."),
    ("width", "Millimeters."),
    ("length", "Millimeters."),
    ("referenceNumbers", "Additional barcodes."),
    ("packagingType", "`A`, or the code of a packaging option of the operator."),
    ("imeiCheckRequired", "Partially implemented; do not use it yet."),
    ("workAroundSnIn", "Serial numbers must be monitored."),
    ("workAroundEanSticker", "The product must be labelled with EAN barcodes."),
    ("workAroundWarrantyInf", "Warranty must be checked."),
    ("workAroundLot", "Lot and batch must be checked."),
    ("countryOfOrigin", "ISO 3166-1 alpha-2 country code, for customs clearance."),
    ("hsCode", "Harmonized System code."),
    ("type", "The default is physical."),
    (
        "childrenProducts",
        "The parts of a bundle: physical products of the same organisation. Only bundles have them.",
    ),
    ("services", "The active services of the product."),
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
    about: "A value that `packagingType` of a product may have besides `A`. All callers see all packaging options.",
    fields: &[("code", "The unique code that products use.")],
    shapes: &[],
    example: || json!({"id": BOX, "code": "B", "name": "Padded box", "createdAt": CREATED, "changedAt": CHANGED, "version": 3}),
};
