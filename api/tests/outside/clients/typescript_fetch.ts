// The ten operations by the typescript-fetch client of openapi-generator.

import {
  AccountApi, CatalogApi, Configuration, JobApi, PartnerApi, ProblemFromJSON, ResponseError, WarehouseApi, WebhookApi,
  type ProductCriteria, type ProductRow, type ProductToCreate,
} from "./generated/index";

declare const process: { env: Record<string, string>; exitCode: number };
const { BASE_URL, ADMIN_LOGIN, ADMIN_PASSWORD, USER_TOKEN, ORGANISATION_ID, ESHOP_ID, WAREHOUSE_ID, SKU, PACKAGING } =
  process.env as Record<string, string>;

function equal(actual: unknown, expected: unknown): void {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

function settings(accessToken?: string): Configuration {
  return new Configuration({ basePath: BASE_URL!, ...(accessToken && { accessToken }) });
}

async function main(): Promise<void> {
  const login = await new AccountApi(settings()).loginAdmin({ credentials: { login: ADMIN_LOGIN!, password: ADMIN_PASSWORD! } });
  const organisations = await new AccountApi(settings(login.token)).listOrganisations({ organisationQuery: { limit: 1 } });
  equal((organisations.paging.total ?? 0) >= 1, true);

  const ours = settings(USER_TOKEN);
  const [catalog, partner, webhooks] = [new CatalogApi(ours), new PartnerApi(ours), new WebhookApi(ours)];
  const hook = await webhooks.createWebhook({
    webhookToCreate: {
      eshop: ESHOP_ID!, event: "product_change", destination: "http://127.0.0.1:1/",
      authentication: { type: "bearer", token: "secret" },
    },
  });
  equal([typeof hook.secret, hook.authentication.token], ["string", "***"]);

  function wanted(sku: string, eshop: string, further: Partial<ProductToCreate> = {}): ProductToCreate {
    return {
      eshops: [eshop], organisation: ORGANISATION_ID!, productSku: sku, internalSku: sku, name: "Harbour mug",
      imeiCheckRequired: false, active: true, ...further,
    };
  }

  const product = await catalog.createProduct({
    productToCreate: wanted(SKU!, ESHOP_ID!, {
      packagingType: PACKAGING!, workAroundSnIn: true, workAroundEanSticker: true, workAroundWarrantyInf: true,
      workAroundLot: true,
    }),
  });

  // What neither an update nor a sync was told to change.
  async function stored() {
    const read = await catalog.getProduct({ id: product.id });
    equal(
      [read.packagingType, read.workAroundSnIn, read.workAroundEanSticker, read.workAroundWarrantyInf, read.workAroundLot, read.active],
      [PACKAGING, true, true, true, true, true],
    );
    return read;
  }

  const criteria: ProductCriteria = {
    productSku: { eq: SKU! }, eshops: { eq: ESHOP_ID! }, "organisation.id": { eq: ORGANISATION_ID! },
  };
  const page = await catalog.listProducts({ productQuery: { criteria, sort: [{ field: "createdAt" }], limit: 5 } });
  equal(page.results.map((one) => one.id), [product.id]);

  const changed = await catalog.updateProduct({ id: product.id, productToUpdate: { name: "Harbour mug, blue" } });
  equal([changed.name, (await stored()).name], ["Harbour mug, blue", "Harbour mug, blue"]);

  const row: ProductRow = { productSku: SKU!, weight: 320 };
  const accepted = await partner.syncProducts({
    syncProductsRequest: { eshop: ESHOP_ID!, products: [row] }, prefer: "wait=30",
  });
  if (Array.isArray(accepted)) throw new Error("one sync is one job");
  const job = await new JobApi(ours).getJob({ id: accepted.id });
  equal([job.state, job.progress.changed, job.progress.failed], ["succeeded", 1, 0]);
  equal((await stored()).weight, 320);

  const counted = await partner.syncProductStocks({
    syncProductStocksRequest: { eshop: ESHOP_ID!, warehouseId: WAREHOUSE_ID!, stocks: [{ productSku: SKU!, quantity: 7 }] },
    prefer: "wait=30",
  });
  equal(Array.isArray(counted) ? counted : counted.state, "succeeded");
  const stocks = await new WarehouseApi(ours).listProductStocks({
    productStockQuery: { criteria: { "product.productSku": { eq: SKU! } }, limit: 5 },
  });
  equal(stocks.results.map((one) => one.quantity), [7]);

  const deliveries = await webhooks.listDeliveries({ deliveryQuery: { criteria: { webhook: { eq: hook.id } }, limit: 5 } });
  equal((deliveries.paging.total ?? 0) >= 1, true);

  try {
    await catalog.createProduct({ productToCreate: wanted(`${SKU}-2`, hook.id) });
    throw new Error("an unknown e-shop was taken");
  } catch (error) {
    if (!(error instanceof ResponseError)) throw error;
    const problem = ProblemFromJSON(await error.response.json());
    equal([problem.status, problem.code, problem.violations.map((one) => one.propertyPath)], [400, "invalid_data", ["eshops[0]"]]);
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
