//! Images of products.

use longshore_domain::catalog::image::{LARGEST, MOST, upload_body};
use serde_json::{Value, json};

use crate::openapi::example::{IMAGE, PRODUCT};
use crate::openapi::operation::{Operation, operation};
use crate::openapi::schema::{
    Shape, any_integer, any_text, body_of, bytes, file_form, id, named, object, one_of, pattern,
};
use crate::routes::catalog::image;

/// Accepted media types of images.
const TYPES: &[&str] = &["image/jpeg", "image/png", "image/webp", "image/gif"];

/// An image of one pixel whose bytes are all ASCII, so that JSON can contain them.
const PIXEL: &str = "GIF89a\u{1}\0\u{1}\0\0\0\0,\0\0\0\0\u{1}\0\u{1}\0\0\u{2}\u{2}D\u{1}\0;";

/// The same in base64.
const ENCODED: &str = "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs=";

/// The operations on images.
pub(super) fn operations() -> Vec<Operation> {
    let uploads = |operation: Operation| {
        let image = named("ProductImage");
        let mebibytes = LARGEST / (1024 * 1024);
        operation
            .says(&format!(
                "A JPEG, PNG, WebP or GIF of at most {mebibytes} MiB. The format is detected from the content, not from the name or type. A product has at most {MOST} images; another one is refused with 409."
            ))
            .schema("ProductImage", stored())
            .answers(201, "The stored image.", image, Some(example()))
            .with(&["ETag", "Location"])
    };
    let types = TYPES.iter().skip(1);
    let reads = operation(image::get_product_image, "Reads an image")
        .says("Returns the image as it was uploaded. Images never change.")
        .answers_as(200, "The content of the image.", TYPES[0], bytes(), None);
    vec![
        uploads(operation(image::upload_product_image_json, "Uploads an image as JSON")).body(
            "ImageUpload",
            as_json(),
            json!({
                "fileName": "mug.gif", "contentType": "image/gif", "data": ENCODED,
            }),
        ),
        uploads(operation(image::upload_product_image_form, "Uploads an image as a form"))
            .says("Parts with other names are ignored.")
            .schema("ImageForm", as_form())
            .form("multipart/form-data", named("ImageForm"), Some(json!({"image": PIXEL}))),
        types.fold(reads, |operation, media| operation.or_as(200, media, bytes())).known(),
        operation(image::delete_product_image, "Deletes an image")
            .says("Reading the image returns 410 from then on.")
            .done(),
    ]
}

fn as_json() -> Shape {
    body_of(&upload_body::body()).about("An image in JSON.").explain(&[
        ("fileName", "The name of the file. It is not stored."),
        ("contentType", "Ignored: the format is detected from the content."),
        ("data", "The content in base64, with or without a `data:` URL around it."),
    ])
}

fn as_form() -> Shape {
    file_form("image", "The file with the image.").about("An image in a form.")
}

fn stored() -> Shape {
    object()
        .about("A stored image.")
        .required("id", id())
        .required("url", any_text())
        .required("contentType", one_of(TYPES))
        .required("size", any_integer())
        .required("width", any_integer())
        .required("height", any_integer())
        .required("sha256", pattern(64..=64, "^[0-9a-f]+$"))
        .explain(&[
            ("url", "The path of the content."),
            ("size", "Bytes."),
            ("width", "Pixels."),
            ("height", "Pixels."),
            ("sha256", "SHA-256 of the content. It is also the `ETag`."),
        ])
}

fn example() -> Value {
    json!({
        "id": IMAGE, "url": format!("/api/product/{PRODUCT}/{IMAGE}"), "contentType": "image/gif",
        "size": PIXEL.len(), "width": 1, "height": 1,
        "sha256": "1f117ab884befddb6b06149ee2aa019d76d02b8635c49d734031d69d2d0d7f93",
    })
}
