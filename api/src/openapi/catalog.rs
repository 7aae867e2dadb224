//! Products, their images and services, packaging options.

mod image;

use longshore_domain::catalog::packaging::PackagingOption;
use longshore_domain::catalog::product::rules;
use longshore_domain::catalog::product::service::SERVICES;
use longshore_domain::catalog::product::switch::body as switch_body;
use longshore_domain::list::fields::packaging::PACKAGING_OPTION as OPTIONS;
use longshore_domain::list::fields::product::PRODUCT as PRODUCTS;
use longshore_kernel::input::{Rule as _, Schema};
use serde_json::{Value, json};

use super::example::{CHANGED, CREATED, ESHOP, ORGANISATION, PACKAGING_OPTION as BOX, PRODUCT as MUG};
use super::job::{answers_job, chosen};
use super::operation::{Operation, list, operation, read};
use super::record::Described;
use super::schema::{Said, Shape, accepted, members, one_of, part_of, record_of};
use crate::routes::catalog::{product, read as handlers, service, switch};
use crate::routes::resource;

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let switched = |operation: Operation, form: &str| operation.says(form).done();
    let this = "Has no effect if the product already is in this state.";
    let serviced = |operation: Operation, form: &str| {
        let operation = operation.says(form).says("404 if the product or the service does not exist.");
        operation.parameter("service", one_of(SERVICES)).done()
    };
    let in_bulk = |operation: Operation| {
        let says = "Creates a job and waits up to 10 seconds for it to end. Unknown ids become item errors of the job.";
        answers_job(chosen(operation, "Chosen", &switch_body(), json!([MUG])), says)
    };
    let mut operations = vec![
        list(handlers::list_products, &PRODUCT, "Lists products"),
        operation(product::create_product, "Creates a product")
            .says("`productSku` must be unique in the organisation; otherwise 400 `already_taken`.")
            .body("ProductToCreate", product_body(true), creation())
            .created(&PRODUCT),
        read(handlers::get_product, &PRODUCT, "Reads a product"),
        operation(product::update_product, "Changes a product")
            .says("Changes the given fields; null clears a nullable field. `organisation` cannot be changed.")
            .body(
                "ProductToUpdate",
                product_body(false),
                json!({"name": "Harbour mug, large", "weight": 410}),
            )
            .updated(&PRODUCT)
            .refuses(&[409]),
        switched(operation(product::activate_product, "Activates a product"), this),
        switched(operation(product::activate_product, "Activates a product").alias(), this),
        switched(operation(product::deactivate_product, "Deactivates a product"), this),
        switched(operation(product::deactivate_product, "Deactivates a product").alias(), this),
        in_bulk(operation(switch::activate_products, "Activates products in bulk")),
        in_bulk(operation(switch::deactivate_products, "Deactivates products in bulk")),
        serviced(operation(service::add_product_service, "Activates a product service"), this),
        serviced(operation(service::remove_product_service, "Deactivates a product service"), this),
        list(resource::list::<PackagingOption>, &PACKAGING_OPTION, "Lists packaging options"),
        operation(resource::create::<PackagingOption>, "Creates a packaging option")
            .says("`code` must be unique; otherwise 400 `already_taken`.")
            .body(
                "PackagingOptionToCreate",
                record_of::<PackagingOption>(true).about("A packaging option to create."),
                json!({"code": "B", "name": "Padded box"}),
            )
            .created(&PACKAGING_OPTION),
        read(resource::get::<PackagingOption>, &PACKAGING_OPTION, "Reads a packaging option"),
    ];
    operations.extend(image::operations());
    operations
}

/// The fields of a product in a request.
pub(super) fn product_of(schema: &Schema) -> Shape {
    members(schema).part("childrenProducts", |part| part.called(PART)).explain(MEANINGS)
}

/// A part of a bundle.
const PART: &str = "BundlePart";

fn parts() -> Said {
    part_of(accepted(&rules::children().schema()), |part| part.called(PART))
}

fn product_body(is_new: bool) -> Shape {
    product_of(&rules::schema(is_new)).about("A product to create or change.")
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
    ("imeiCheckRequired", "Partially implemented: send `false`."),
    ("workAroundSnIn", "Serial numbers must be monitored."),
    ("workAroundEanSticker", "The product must be labelled with EAN barcodes."),
    ("workAroundWarrantyInf", "Warranty must be checked."),
    ("workAroundLot", "Lot and batch must be checked."),
    ("countryOfOrigin", "ISO 3166-1 alpha-2, or `XK` (Kosovo), for customs clearance."),
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
