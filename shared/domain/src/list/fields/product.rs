//! What a product shows (`docs/reference/products.md#product`).

use crate::list::fields::eshop::ESHOP;
use crate::list::fields::organisation::ORGANISATION;
use crate::list::resource::{Field, Link, LookUp, Resource, Tenancy};

/// Products.
pub static PRODUCT: Resource = Resource {
    name: "product",
    tables: &["product"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy {
        eshop: Some(
            "EXISTS (SELECT 1 FROM product_eshop p WHERE p.product_id = {t}.id AND p.eshop_id = {e})",
        ),
        ..Tenancy::BY_ORGANISATION
    },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const ESHOPS: &Link = &Link { table: "product_eshop", of: "{l}.product_id = {t}.id", id: "{l}.eshop_id" };

const CHILDREN: &Link = &Link { table: "product_child", of: "{l}.bundle_id = {t}.id", id: "{l}.product_id" };

const CHILD: &[Field] =
    &[Field::one("productId", "{t}.product_id", &PRODUCT), Field::integer("quantity", "{t}.quantity")];

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::many("eshops", ESHOPS, &ESHOP),
    Field::text("productSku", "{t}.product_sku"),
    Field::text("internalSku", "{t}.internal_sku"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::id("productGroup", "{t}.product_group").or_null(),
    Field::text("name", "{t}.name"),
    Field::text("description", "{t}.description").or_null(),
    Field::integer("weight", "{t}.weight").or_null(),
    Field::integer("height", "{t}.height").or_null(),
    Field::integer("width", "{t}.width").or_null(),
    Field::integer("length", "{t}.length").or_null(),
    Field::texts("referenceNumbers", "{t}.reference_numbers"),
    Field::text("packagingType", "{t}.packaging_type"),
    Field::boolean("imeiCheckRequired", "{t}.imei_check_required"),
    Field::boolean("workAroundSnIn", "{t}.work_around_sn_in"),
    Field::boolean("workAroundEanSticker", "{t}.work_around_ean_sticker"),
    Field::boolean("workAroundWarrantyInf", "{t}.work_around_warranty_inf"),
    Field::boolean("workAroundLot", "{t}.work_around_lot"),
    Field::boolean("active", "{t}.active"),
    Field::text("countryOfOrigin", "{t}.country_of_origin").or_null(),
    Field::text("hsCode", "{t}.hs_code").or_null(),
    Field::text("type", "{t}.type").among(&["physical", "virtual", "bundle"]),
    Field::rows(
        "childrenProducts",
        CHILDREN,
        CHILD,
        "CASE WHEN {t}.type = 'bundle' THEN (
             SELECT json_agg(json_build_object('productId', c.product_id, 'quantity', c.quantity) ORDER BY c.position)
             FROM product_child c WHERE c.bundle_id = {t}.id) END",
    )
    .or_null(),
    Field::text("category", "{t}.category").or_null().among(&["dangerous_substances"]),
    Field::ids("images", "ARRAY(SELECT i.id FROM product_image i WHERE i.product_id = {t}.id ORDER BY i.id)"),
    Field::texts("services", "{t}.services"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];
