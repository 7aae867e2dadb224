"""The ten operations by the client of openapi-python-client."""

import os
from uuid import UUID

import generated.models as m
from generated import AuthenticatedClient, Client
from generated.api.account import list_organisations, login_admin
from generated.api.catalog import create_product, get_product, list_products, update_product
from generated.api.job import get_job
from generated.api.partner import sync_product_stocks, sync_products
from generated.api.warehouse import list_product_stocks
from generated.api.webhook import create_webhook, list_deliveries
from generated.types import UNSET

BASE = os.environ["BASE_URL"]
SKU = os.environ["SKU"]
ORGANISATION, ESHOP = UUID(os.environ["ORGANISATION_ID"]), UUID(os.environ["ESHOP_ID"])

login = login_admin.sync(
    client=Client(base_url=BASE),
    body=m.CredentialsByLogin(login=os.environ["ADMIN_LOGIN"], password=os.environ["ADMIN_PASSWORD"]),
)
assert isinstance(login, m.Login), login
organisations = list_organisations.sync(
    client=AuthenticatedClient(base_url=BASE, token=login.token), body=m.OrganisationQuery(limit=1)
)
assert isinstance(organisations, m.OrganisationPage) and (organisations.paging.total or 0) >= 1, organisations

client = AuthenticatedClient(base_url=BASE, token=os.environ["USER_TOKEN"])
hook = create_webhook.sync(
    client=client,
    body=m.WebhookToCreate(
        eshop=ESHOP, event=m.WebhookEvent.PRODUCT_CHANGE, destination="http://127.0.0.1:1/",
        authentication=m.WebhookAuthentication(type_=m.WebhookAuthenticationType.BEARER, token="secret"),
    ),
)
assert isinstance(hook, m.WebhookCreated) and hook.secret is not UNSET, hook
assert hook.authentication.token == "***", hook.authentication

product = create_product.sync(
    client=client,
    body=m.ProductToCreate(
        eshops=[ESHOP], organisation=ORGANISATION, product_sku=SKU, internal_sku=SKU, name="Harbour mug",
        imei_check_required=False, active=True, packaging_type=os.environ["PACKAGING"], work_around_sn_in=True,
        work_around_ean_sticker=True, work_around_warranty_inf=True, work_around_lot=True,
    ),
)
assert isinstance(product, m.Product), product


def stored():
    """What neither an update nor a sync was asked to change."""
    read = get_product.sync(client=client, id=product.id)
    assert isinstance(read, m.Product), read
    kept = [
        read.packaging_type, read.work_around_sn_in, read.work_around_ean_sticker, read.work_around_warranty_inf,
        read.work_around_lot, read.active,
    ]
    assert kept == [os.environ["PACKAGING"], True, True, True, True, True], kept
    return read


criteria = m.ProductCriteria(product_sku=m.TextCriterion(eq=SKU), eshops=m.IdsCriterion(eq=ESHOP))
criteria["organisation.id"] = m.Criterion(eq=str(ORGANISATION))
page = list_products.sync(
    client=client,
    body=m.ProductQuery(
        criteria=criteria, sort=[m.SortKey(field="createdAt")], limit=5
    ),
)
assert isinstance(page, m.ProductPage) and [one.id for one in page.results] == [product.id], page

changed = update_product.sync(id=product.id, client=client, body=m.ProductToUpdate(name="Harbour mug, blue"))
assert isinstance(changed, m.Product) and changed.name == "Harbour mug, blue", changed
assert stored().name == "Harbour mug, blue"

row = m.ProductRow(product_sku=SKU, weight=320)
job = sync_products.sync(client=client, body=m.ProductSync(eshop=ESHOP, products=[row]), prefer="wait=30")
assert isinstance(job, m.Job), job
job = get_job.sync(client=client, id=job.id)
assert isinstance(job, m.Job), job
assert (job.state, job.progress.changed, job.progress.failed) == (m.JobState.SUCCEEDED, 1, 0), job
assert stored().weight == 320

counts = m.StockSync(
    eshop=ESHOP, warehouse_id=os.environ["WAREHOUSE_ID"], stocks=[m.StockRow(product_sku=SKU, quantity=7)]
)
job = sync_product_stocks.sync(client=client, body=counts, prefer="wait=30")
assert isinstance(job, m.Job) and job.state == m.JobState.SUCCEEDED, job
of_product = m.ProductStockCriteria()
of_product["product.productSku"] = m.Criterion(eq=SKU)
stocks = list_product_stocks.sync(client=client, body=m.ProductStockQuery(criteria=of_product, limit=5))
assert isinstance(stocks, m.ProductStockPage) and [one.quantity for one in stocks.results] == [7], stocks

deliveries = list_deliveries.sync(
    client=client, body=m.DeliveryQuery(criteria=m.DeliveryCriteria(webhook=m.IdCriterion(eq=hook.id)), limit=5)
)
assert isinstance(deliveries, m.DeliveryPage) and (deliveries.paging.total or 0) >= 1, deliveries

refused = create_product.sync(
    client=client,
    body=m.ProductToCreate(
        eshops=[hook.id], organisation=ORGANISATION, product_sku=SKU + "-2", internal_sku=SKU, name="Harbour mug",
        imei_check_required=False, active=True,
    ),
)
assert isinstance(refused, m.Problem), refused
assert (refused.status, refused.code) == (400, m.ProblemCode.INVALID_DATA), refused
assert [one.property_path for one in refused.violations] == ["eshops[0]"], refused
