-- To the planner an organisation has ten products, whatever the sample says. Where most have one or two, all indexes that begin
-- with the organisation look alike to it, and to find an SKU of the one large organisation it would read that whole catalogue
-- by any of them. What it knows of the organisations that are common in the table stays as it is.
ALTER TABLE product ALTER COLUMN organisation_id SET (n_distinct = -0.1);
ANALYZE product (organisation_id);
