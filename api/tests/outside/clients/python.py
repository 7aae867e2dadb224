"""The ten operations by the Python client of openapi-generator."""

import os

import openapi_client as c

SKU, PACKAGING = os.environ["SKU"], os.environ["PACKAGING"]
ORGANISATION, ESHOP = os.environ["ORGANISATION_ID"], os.environ["ESHOP_ID"]


def client(token=None):
    return c.ApiClient(c.Configuration(host=os.environ["BASE_URL"], access_token=token))


by_login = c.CredentialsByLogin(login=os.environ["ADMIN_LOGIN"], password=os.environ["ADMIN_PASSWORD"])
login = c.AccountApi(client()).login_admin(c.Credentials(by_login))
organisations = c.AccountApi(client(login.token)).list_organisations(organisation_query=c.OrganisationQuery(limit=1))
assert organisations.paging.total >= 1, organisations

ours = client(os.environ["USER_TOKEN"])
catalog, partner, webhooks = c.CatalogApi(ours), c.PartnerApi(ours), c.WebhookApi(ours)
hook = webhooks.create_webhook(
    c.WebhookToCreate(
        eshop=ESHOP, event="product_change", destination="http://127.0.0.1:1/",
        authentication=c.WebhookAuthentication(type="bearer", token="secret"),
    )
)
assert hook.secret and hook.authentication.token == "***", hook


def wanted(sku, eshop, **further):
    return c.ProductToCreate(
        eshops=[eshop], organisation=ORGANISATION, productSku=sku, internalSku=sku, name="Harbour mug",
        imeiCheckRequired=False, active=True, **further,
    )


switches = ["workAroundSnIn", "workAroundEanSticker", "workAroundWarrantyInf", "workAroundLot"]
product = catalog.create_product(wanted(SKU, ESHOP, packagingType=PACKAGING, **dict.fromkeys(switches, True)))


def stored():
    """What neither an update nor a sync was asked to change."""
    read = catalog.get_product(product.id)
    kept = [read.packaging_type, *(read.to_dict()[name] for name in switches), read.active]
    assert kept == [PACKAGING, True, True, True, True, True], kept
    return read


criteria = c.ProductCriteria(productSku=c.TextCriterion(eq=SKU), eshops=c.IdsCriterion(eq=ESHOP))
criteria.additional_properties["organisation.id"] = {"eq": ORGANISATION}
page = catalog.list_products(
    product_query=c.ProductQuery(criteria=criteria, sort=[c.SortKey(field="createdAt")], limit=5)
)
assert [one.id for one in page.results] == [product.id], page

changed = catalog.update_product(product.id, c.ProductToUpdate(name="Harbour mug, blue"))
assert changed.name == stored().name == "Harbour mug, blue", changed

rows = c.ProductSync(eshop=ESHOP, products=[c.ProductRow(productSku=SKU, weight=320)])
job = partner.sync_products(c.SyncProductsRequest(rows), prefer="wait=30").actual_instance
job = c.JobApi(ours).get_job(job.id)
assert (job.state, job.progress.changed, job.progress.failed) == ("succeeded", 1, 0), job
assert stored().weight == 320

counts = c.StockSync(
    eshop=ESHOP, warehouseId=os.environ["WAREHOUSE_ID"], stocks=[c.StockRow(productSku=SKU, quantity=7)]
)
job = partner.sync_product_stocks(c.SyncProductStocksRequest(counts), prefer="wait=30").actual_instance
assert job.state == "succeeded", job
of_product = c.ProductStockCriteria(additional_properties={"product.productSku": {"eq": SKU}})
stocks = c.WarehouseApi(ours).list_product_stocks(
    product_stock_query=c.ProductStockQuery(criteria=of_product, limit=5)
)
assert [one.quantity for one in stocks.results] == [7], stocks

of_hook = c.DeliveryCriteria(webhook=c.IdCriterion(eq=hook.id))
deliveries = webhooks.list_deliveries(delivery_query=c.DeliveryQuery(criteria=of_hook, limit=5))
assert deliveries.paging.total >= 1, deliveries

try:
    catalog.create_product(wanted(SKU + "-2", hook.id))
    raise SystemExit("an unknown e-shop was taken")
except c.exceptions.BadRequestException as refused:
    problem = refused.data
    assert isinstance(problem, c.Problem), problem
    assert (problem.status, problem.code) == (400, "invalid_data"), problem
    assert [one.property_path for one in problem.violations] == ["eshops[0]"], problem
