"""The main flow by a client that was generated from the document: create products, list them, switch them off in bulk,
wait for the job."""

import os
import pathlib
import subprocess
import sys
import tempfile

import world

folder = pathlib.Path(tempfile.mkdtemp(prefix="longshore-client-"))
document = folder / "openapi.json"
document.write_text(world.served())
generator = pathlib.Path(sys.executable).parent / "openapi-python-client"
generated = subprocess.run(
    [generator, "generate", "--path", document, "--output-path", folder / "client", "--meta", "none"],
    capture_output=True, text=True, check=False,
)
print(generated.stdout, generated.stderr)
assert generated.returncode == 0, "the client was not generated"
sys.path.insert(0, str(folder))

from client import AuthenticatedClient  # noqa: E402
from client.api.catalog import create_product, deactivate_products, get_product, list_products  # noqa: E402
from client.api.job import get_job  # noqa: E402
from client.models import Job, Product, ProductCriteria, ProductPage, ProductQuery, ProductToCreate, TextCriterion  # noqa: E402

client = AuthenticatedClient(base_url=world.BASE_URL, token=os.environ["USER_TOKEN"])
ids = []
for number in range(3):
    body = ProductToCreate.from_dict({
        "eshops": [os.environ["ESHOP_ID"]], "organisation": os.environ["ORGANISATION_ID"],
        "productSku": f"FLOW-{number}", "internalSku": f"I-{number}", "name": "Harbour mug", "imeiCheckRequired": False,
        "active": True,
    })
    made = create_product.sync(client=client, body=body)
    assert isinstance(made, Product), made
    ids.append(made.id)

query = ProductQuery(criteria=ProductCriteria(product_sku=TextCriterion(like="flow-")), limit=2)
page = list_products.sync(client=client, body=query)
assert isinstance(page, ProductPage), page
assert (page.paging.total, page.paging.returned) == (3, 2), page.paging

job = deactivate_products.sync(client=client, body=ids, prefer="wait=30")
assert isinstance(job, Job), job
assert (job.state, job.progress.changed) == ("succeeded", 3), job
job = get_job.sync(client=client, id=job.id)
assert isinstance(job, Job) and job.finished_at is not None, job
for one in ids:
    product = get_product.sync(client=client, id=one)
    assert isinstance(product, Product) and product.active is False, product
print("the generated client created, listed, switched off and waited")
