-- Images of products. The bytes are in the object store under `product-image/<id>`, their
-- description is here. A product has few images: they are counted under the lock of its row.
CREATE TABLE product_image (
    id uuid PRIMARY KEY,
    product_id uuid NOT NULL REFERENCES product,
    content_type text NOT NULL CONSTRAINT content_type_is_that_of_a_picture
        CHECK (content_type IN ('image/jpeg', 'image/png', 'image/webp', 'image/gif')),
    size integer NOT NULL CONSTRAINT size_is_1_to_10485760_bytes CHECK (size BETWEEN 1 AND 10485760),
    width integer NOT NULL CONSTRAINT width_is_positive CHECK (width >= 1),
    height integer NOT NULL CONSTRAINT height_is_positive CHECK (height >= 1),
    sha256 bytea NOT NULL CONSTRAINT sha256_has_32_bytes CHECK (length(sha256) = 32),
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX product_image_by_product ON product_image (product_id, id);
