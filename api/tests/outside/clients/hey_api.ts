// The ten operations by the client of @hey-api/openapi-ts.

import { createClient, createConfig } from "./generated/client/index";
import * as api from "./generated/sdk.gen";
import type { Problem, ProductCriteria, ProductRow, ProductToCreate } from "./generated/types.gen";

declare const process: { env: Record<string, string>; exitCode: number };
const { BASE_URL, ADMIN_LOGIN, ADMIN_PASSWORD, USER_TOKEN, ORGANISATION_ID, ESHOP_ID, WAREHOUSE_ID, SKU, PACKAGING } =
  process.env as Record<string, string>;

function equal(actual: unknown, expected: unknown): void {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

function client(token?: string) {
  return createClient(createConfig({ baseUrl: BASE_URL!, ...(token && { auth: token }) }));
}

// What was answered, or an error.
function answered<T>(result: { data: T | undefined; error: unknown }): T {
  if (result.data === undefined) throw new Error(JSON.stringify(result.error));
  return result.data;
}

async function main(): Promise<void> {
  const login = answered(await api.loginAdmin({ client: client(), body: { login: ADMIN_LOGIN!, password: ADMIN_PASSWORD! } }));
  const organisations = answered(await api.listOrganisations({ client: client(login.token), body: { limit: 1 } }));
  equal((organisations.paging.total ?? 0) >= 1, true);

  const ours = client(USER_TOKEN);
  const hook = answered(await api.createWebhook({
    client: ours,
    body: {
      eshop: ESHOP_ID!, event: "product_change", destination: "http://127.0.0.1:1/",
      authentication: { type: "bearer", token: "secret" },
    },
  }));
  equal([typeof hook.secret, hook.authentication.token], ["string", "***"]);

  function wanted(sku: string, eshop: string, further: Partial<ProductToCreate> = {}): ProductToCreate {
    return {
      eshops: [eshop], organisation: ORGANISATION_ID!, productSku: sku, internalSku: sku, name: "Harbour mug",
      imeiCheckRequired: false, active: true, ...further,
    };
  }

  const product = answered(await api.createProduct({
    client: ours,
    body: wanted(SKU!, ESHOP_ID!, {
      packagingType: PACKAGING!, workAroundSnIn: true, workAroundEanSticker: true, workAroundWarrantyInf: true,
      workAroundLot: true,
    }),
  }));

  // What neither an update nor a sync was told to change.
  async function stored() {
    const read = answered(await api.getProduct({ client: ours, path: { id: product.id } }));
    equal(
      [read.packagingType, read.workAroundSnIn, read.workAroundEanSticker, read.workAroundWarrantyInf, read.workAroundLot, read.active],
      [PACKAGING, true, true, true, true, true],
    );
    return read;
  }

  const criteria: ProductCriteria = {
    productSku: { eq: SKU! }, eshops: { eq: ESHOP_ID! }, "organisation.id": { eq: ORGANISATION_ID! },
  };
  const page = answered(await api.listProducts({ client: ours, body: { criteria, sort: [{ field: "createdAt" }], limit: 5 } }));
  equal(page.results.map((one) => one.id), [product.id]);

  const changed = answered(await api.updateProduct({ client: ours, path: { id: product.id }, body: { name: "Harbour mug, blue" } }));
  equal([changed.name, (await stored()).name], ["Harbour mug, blue", "Harbour mug, blue"]);

  const row: ProductRow = { productSku: SKU!, weight: 320 };
  const accepted = answered(await api.syncProducts({
    client: ours, body: { eshop: ESHOP_ID!, products: [row] }, headers: { Prefer: "wait=30" },
  }));
  if (Array.isArray(accepted)) throw new Error("one sync is one job");
  const job = answered(await api.getJob({ client: ours, path: { id: accepted.id } }));
  equal([job.state, job.progress.changed, job.progress.failed], ["succeeded", 1, 0]);
  equal((await stored()).weight, 320);

  const counted = answered(await api.syncProductStocks({
    client: ours,
    body: { eshop: ESHOP_ID!, warehouseId: WAREHOUSE_ID!, stocks: [{ productSku: SKU!, quantity: 7 }] },
    headers: { Prefer: "wait=30" },
  }));
  equal(Array.isArray(counted) ? counted : counted.state, "succeeded");
  const stocks = answered(await api.listProductStocks({
    client: ours, body: { criteria: { "product.productSku": { eq: SKU! } }, limit: 5 },
  }));
  equal(stocks.results.map((one) => one.quantity), [7]);

  const deliveries = answered(await api.listDeliveries({ client: ours, body: { criteria: { webhook: { eq: hook.id } }, limit: 5 } }));
  equal((deliveries.paging.total ?? 0) >= 1, true);

  const { error } = await api.createProduct({ client: ours, body: wanted(`${SKU}-2`, hook.id) });
  if (!error) throw new Error("an unknown e-shop was taken");
  const problem: Problem = error;
  equal([problem.status, problem.code, problem.violations.map((one) => one.propertyPath)], [400, "invalid_data", ["eshops[0]"]]);
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
