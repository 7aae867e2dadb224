// The console in a browser, beside a running service: log in, find a failed job, retry it, see it succeed; pause a queue;
// redeliver a webhook. On the way, nothing is refused by the page's own policy, no page is wider than a phone, and axe finds
// nothing serious, in light and in dark. With a folder as argument, it keeps pictures there.

import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";

import { chromium, complaints, judge, open as openPage } from "./look.mjs";

const { BASE_URL, SUPERADMIN_TOKEN, USER_TOKEN, CONNECTOR_TOKEN, ESHOP_ID, WMS_ID, ADMIN_LOGIN, ADMIN_PASSWORD } = process.env;
const PATIENCE = 60_000;

function send(method, address, token, body, headers = {}) {
  return fetch(BASE_URL + address, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body && { "content-type": "application/json" }), ...headers },
    body: body && JSON.stringify(body),
  });
}

async function call(method, address, token, body, headers) {
  const answer = await send(method, address, token, body, headers);
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${address}: ${answer.status} ${text}`);
  return text && JSON.parse(text);
}

async function until(what, look) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(Date.now() < end, `${what} did not happen`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// --- the world: a destination that answers, a job that failed and would succeed now ---

async function destination() {
  const received = [];
  const server = http.createServer((request, response) => {
    request.resume().on("end", () => {
      received.push(request.headers["webhook-id"]);
      response.end("taken");
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { received, address: `http://127.0.0.1:${server.address().port}/hook`, close: () => server.close() };
}

// Shuts a superadmin out while no other is active: that is refused when it is executed. Afterwards another is.
async function failedJob() {
  const admins = await call("POST", "/api/admin/list", SUPERADMIN_TOKEN, { select: ["id", "email"] });
  const ours = admins.results.find((admin) => admin.email === ADMIN_LOGIN).id;
  const other = await call("POST", "/api/admin", SUPERADMIN_TOKEN, {
    email: "other@longshore.invalid", firstName: "Other", lastName: "Admin", role: "superadmin",
  });
  await call("PUT", "/api/queue/chunk/pause", SUPERADMIN_TOKEN);
  const shutOut = () => call("PUT", "/api/admin/deactivate", SUPERADMIN_TOKEN, [other.id], { prefer: "respond-async" });
  let job = await shutOut();
  // where the worker was quicker than the pause, the other one is out already, and ours cannot be
  await until("the pause", async () => {
    const answer = await send("PUT", `/api/admin/deactivate/${ours}`, SUPERADMIN_TOKEN);
    if (answer.ok) return true;
    assert.equal(answer.status, 409);
    await call("PUT", `/api/admin/activate/${other.id}`, SUPERADMIN_TOKEN);
    job = await shutOut();
    return false;
  });
  await call("PUT", "/api/queue/chunk/resume", SUPERADMIN_TOKEN);
  await until("the failure", async () => {
    return (await call("GET", `/api/job/${job.id}`, SUPERADMIN_TOKEN)).state === "failed";
  });
  await call("PUT", `/api/admin/activate/${ours}`, SUPERADMIN_TOKEN);
  return job.id;
}

async function webhook(address) {
  const hook = await call("POST", "/api/eshop-webhook", USER_TOKEN, {
    eshop: ESHOP_ID, event: "product_change", destination: address,
  });
  await call("POST", `/api/eshop-webhook/${hook.id}/test`, USER_TOKEN);
  return hook.id;
}

// An order that waits for goods, and one that was refused.
async function orders() {
  const product = { productSku: "CONSOLE-1", name: "A mug with a rather long name, as shops like them" };
  const sync = { eshop: ESHOP_ID, products: [product] };
  const job = await call("POST", "/api/partner-integration/eshop/sync/products", CONNECTOR_TOKEN, sync, { prefer: "wait=60" });
  assert.equal(job.state, "succeeded");
  const organisations = await call("POST", "/api/organisation/list", SUPERADMIN_TOKEN, { select: ["id"] });
  const carrier = await call("POST", "/api/carrier", SUPERADMIN_TOKEN, {
    name: "Console Post", code: 7100, organisations: organisations.results.map((organisation) => organisation.id),
  });
  const order = (orderNumber, members) => call("POST", "/api/expedition", USER_TOKEN, {
    eshop: ESHOP_ID, orderNumber, value: 1, currency: "EUR", ignoreAddressValidation: true, send: true,
    items: [{ productSku: "CONSOLE-1", quantity: 3 }], ...members,
  });
  const waiting = await order("CONSOLE/WAITS", { carrier: carrier.id });
  assert.equal(waiting.status, "waiting_for_goods");
  assert.equal((await order("CONSOLE/REFUSED", {})).status, "incorrect");
  return waiting.id;
}

// The system of a warehouse that verifies nothing and has no order; its wms hands none over.
async function warehouse() {
  const server = http.createServer((request, response) => {
    request.resume().on("end", () => response.writeHead(404).end());
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const baseUrl = `http://127.0.0.1:${server.address().port}`;
  await call("POST", `/api/partner-integration/wms-setting/${WMS_ID}`, SUPERADMIN_TOKEN, { baseUrl, active: false });
  return { close: () => server.close() };
}

// A preference by the carrier of the orders.
async function preference() {
  const { results } = await call("POST", "/api/carrier/list", SUPERADMIN_TOKEN, { criteria: { code: { eq: 7100 } } });
  const [{ id: carrier, organisations }] = results;
  const made = await call("POST", "/api/carrier-preference", SUPERADMIN_TOKEN, {
    organisation: organisations[0], carrier, position: 7, active: false, conditions: { countries: ["CZ", "SK"], maxWeight: 30_000, cod: false },
  });
  return made;
}

// --- the browser ---

async function open(browser, options) {
  const page = await openPage(browser, options);
  page.setDefaultTimeout(PATIENCE);
  return page;
}

async function logIn(page) {
  await page.goto("/console");
  await page.getByLabel("E-mail address").fill(ADMIN_LOGIN);
  await page.getByLabel("Password").fill(ADMIN_PASSWORD);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("link", { name: "Jobs", exact: true }).waitFor();
}

// the name of a picture
function nameOf(address) {
  const [, room, page] = address.replace("?", "-").split("/");
  return `${room || "overview"}${page ? (page === "attention" ? "-attention" : "-page") : ""}`;
}

// what a page says: that of an open page is empty while it is up to date.
function said(page) {
  return page.getByRole("status").filter({ hasText: /./ }).textContent();
}

// A merchant's catalogue of 33,000 rows, saved by a Czech spreadsheet, a tenth of it wrong: it is looked at, tried and applied; what
// was refused is downloaded, repaired as a person would, and sent again.
async function catalogue(page) {
  const rows = Array.from({ length: 33_000 }, (_, n) => `SHEET-${n};Hrn\xed\xe8ek ${n};${n % 10 ? `0${n}` : "lehk\xfd"}`);
  const sheet = Buffer.from(["productSku;name;weight", ...rows, ""].join("\r\n"), "latin1");
  const choose = async (buffer, charset) => {
    await page.goto("/console/job");
    await page.getByRole("link", { name: "Import", exact: true }).click();
    await page.getByLabel("E-shop (name or id)").fill(ESHOP_ID);
    if (charset) await page.getByLabel("Character set of CSV").selectOption(charset);
    await page.locator("input[type=file]").setInputFiles({ name: "cen\u00edk.csv", mimeType: "text/csv", buffer });
  };
  const ended = (badge) => page.locator("#standing .badge", { hasText: badge }).waitFor();
  await choose(sheet);
  await page.locator("#look", { hasText: "it looks like windows-1250" }).waitFor();
  await page.getByLabel("Character set of CSV").selectOption("windows-1250");
  await page.locator("#look td", { hasText: "Hrn\u00ed\u010dek 1" }).first().waitFor();
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator("#previewed td", { hasText: "SHEET-1" }).first().waitFor();
  await ended("partly refused");
  await act(page, "Apply", "Apply");
  await ended("partly refused");
  const group = page.locator("#groups tr", { hasText: "3,300" });
  assert.match(await group.textContent(), /weight/);
  await judge(page, "catalogue");
  const arrives = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download refused rows" }).click();
  const file = await (await arrives).path();
  const refused = fs.readFileSync(file, "utf8");
  assert.equal(refused.trimEnd().split("\r\n").length, 3_301);
  await choose(Buffer.from(refused.replaceAll("lehk\u00fd", "90")));
  await page.locator("#look td", { hasText: /^90$/ }).first().waitFor();
  await page.getByLabel("What to do with the rows").selectOption({ index: 1 });
  await page.getByRole("button", { name: "Send" }).click();
  await ended("succeeded");
  const criteria = { productSku: { like: "SHEET-" } };
  const { paging } = await call("POST", "/api/product/list", USER_TOKEN, { criteria, select: ["id"], limit: 1 });
  assert.equal(paging.total, 33_000);
  console.log("33,000 rows of a spreadsheet were tried and applied; the refused ones came back, were repaired, and sent again");
}

// of what the page is about: the counts over it name states, too
async function act(page, name, button) {
  await page.getByRole("main").getByRole("link", { name }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  await dialog.getByRole("button", { name: button }).click();
  return said(page);
}

async function main() {
  const receiver = await destination();
  // orders first, before there is a webhook that hears of them
  const [order, job, hook] = [await orders(), await failedJob(), await webhook(receiver.address)];
  const [depot, prefers] = [await warehouse(), await preference()];
  await until("the first delivery", () => receiver.received.length === 1);
  // as root, as in a container, Chromium runs without its sandbox only
  const sandbox = process.getuid() === 0 ? ["--no-sandbox"] : [];
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: [...sandbox, "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"],
  });
  try {
    const page = await open(browser, { viewport: { width: 1440, height: 900 }, colorScheme: "light" });
    await logIn(page);
    console.log("logged in");

    await page.getByRole("link", { name: "Jobs", exact: true }).click();
    await page.getByLabel("State").selectOption("failed");
    await page.getByRole("button", { name: "Search" }).click();
    await page.locator(`a[href="/console/job/${job}"]`).click();
    assert.match(await page.locator("#standing").textContent(), /failed/);
    await judge(page, "failed-job");
    assert.match(await act(page, "Retry", "Retry the job"), /in the queue again/);
    await page.locator("#standing .badge", { hasText: "succeeded" }).waitFor();
    assert.equal((await call("GET", `/api/job/${job}`, SUPERADMIN_TOKEN)).state, "succeeded");
    console.log("a failed job was found, retried, and seen to succeed, on the open page");

    await page.getByRole("link", { name: "Queues" }).click();
    assert.match(await act(page, /Pause the queue upkeep/, "Pause the queue"), /paused/);
    const queues = await call("GET", "/api/queue", SUPERADMIN_TOKEN);
    assert.equal(queues.queues.find((queue) => queue.name === "upkeep").paused, true);
    await judge(page, "queues");
    assert.match(await act(page, /Resume the queue upkeep/, "Resume the queue"), /resumed/);
    console.log("a queue was paused and resumed");

    // over any page: a page of the console, and what the search finds
    await page.keyboard.press("Control+k");
    await page.locator("#palette").getByLabel("Find").fill("audit");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Audit" }).waitFor();
    await page.keyboard.press("Control+k");
    await page.locator("#palette").getByLabel("Find").fill(job);
    await page.locator(`#palette a[href$="/console/job/${job}"]`).waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/console/job/${job}`);
    // the text of folded JSON is JSON
    await page.locator("summary", { hasText: "Parameters" }).click();
    JSON.parse(await page.locator(".tree").first().textContent());
    for (const [name, theme] of [["Dark", "dark"], ["System", null]]) {
      await page.getByRole("button", { name, exact: true }).click();
      await page.waitForFunction((theme) => document.documentElement.getAttribute("data-theme") === theme, theme);
      await judge(page, `theme-${name.toLowerCase()}`);
    }
    console.log("the palette led to a page and to a job, and the theme was switched");

    await page.goto(`/console/webhook/${hook}`);
    await page.getByRole("checkbox").first().check();
    await page.getByRole("button", { name: "Redeliver selected" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Redeliver", exact: true }).click();
    assert.match(await said(page), /are being sent again/);
    await page.locator("#standing .badge", { hasText: "succeeded" }).waitFor();
    assert.match(await page.locator("#standing").textContent(), /1 delivery resent/);
    await until("the redelivery", () => receiver.received.length === 2);
    assert.equal(receiver.received[0], receiver.received[1], "the same webhook-id");
    console.log("a delivery was redelivered");

    await page.goto(`/console/webhook/${hook}`);
    await page.getByRole("link", { name: "Replay" }).click();
    await page.getByLabel("Also those that were delivered").check();
    await page.getByRole("button", { name: "Count" }).click();
    await page.getByRole("button", { name: "Replay 1 delivery" }).click();
    assert.match(await said(page), /are being replayed/);
    await page.locator("#standing .badge", { hasText: "succeeded" }).waitFor();
    assert.match(await page.locator("#standing").textContent(), /1 delivery is on the way again: 0 released, 1 resent/);
    await until("the replay", () => receiver.received.length === 3);
    console.log("the deliveries of a webhook were counted and replayed");

    await page.goto(`/console/webhook/${hook}`);
    await page.getByRole("link", { name: "Test", exact: true }).click();
    const question = page.getByRole("dialog");
    await question.getByLabel("Event").selectOption("expedition_status_change");
    await question.getByRole("button", { name: "Send a test" }).click();
    assert.match(await said(page), /appears below/);
    await page.locator("#attempts article").waitFor();
    await page.locator("#standing .badge", { hasText: "example" }).waitFor();
    const example = new URL(page.url()).pathname.replace("/console", "");
    console.log("an example of an event was sent, and its answer appeared on the open page");

    await page.goto(`/console/webhook/${hook}`);
    const attempts = await page.locator("#calls tbody tr").count();
    await call("POST", `/api/eshop-webhook/${hook}/test`, USER_TOKEN);
    await page.locator("#calls tbody tr").nth(attempts).waitFor();
    await page.locator(".plot.leads .u-over").first().click();
    await page.waitForURL(/since=.*until=.*#ended$/);
    console.log("the answer to a test appeared on the open page, and a chart led to the deliveries of a period");

    // the order that was refused needs attention
    await page.goto("/console");
    await page.getByRole("link", { name: /^Acknowledge .* incorrect\.$/ }).click();
    await page.getByRole("dialog").getByLabel("Note").fill("known");
    await page.getByRole("dialog").getByRole("button", { name: "Acknowledge" }).click();
    assert.match(await said(page), /comes back when something new happens/);
    await page.getByRole("list", { name: "Acknowledged" }).getByText("known").waitFor();
    console.log("a line of the overview was acknowledged");

    await page.getByRole("link", { name: "Orders", exact: true }).click();
    await page.getByLabel("Number or external id").fill("CONSOLE/WAITS");
    await page.getByRole("button", { name: "Search" }).click();
    await page.locator(`a[href="/console/order/${order}"]`).click();
    await page.getByRole("heading", { name: "Waits for" }).waitFor();
    await judge(page, "order-that-waits");
    assert.match(await act(page, "Unbook", "Unbook"), /paused/);
    assert.match(await act(page, "Rebook", "Rebook"), /booked again, or waits/);
    assert.equal((await call("GET", `/api/expedition/${order}`, USER_TOKEN)).status, "waiting_for_goods");
    console.log("an order was found, unbooked and rebooked");

    // what is at hand leads to its page, from every page
    await page.keyboard.press("/");
    await page.keyboard.type("CONSOLE-1");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/console\/product\//);
    await page.getByRole("heading", { name: "What happened" }).waitFor();
    const product = new URL(page.url()).pathname.replace("/console", "");
    await page.locator('a[href^="/console/organisation/"]').first().click();
    await page.getByRole("heading", { name: "E-shops" }).waitFor();
    const organisation = new URL(page.url()).pathname.replace("/console", "");
    console.log("a product and its organisation were found by the SKU");

    await page.getByRole("link", { name: "Warehouses", exact: true }).click();
    await page.locator(`a[href="/console/wms/${WMS_ID}"]`).click();
    assert.match(await act(page, "Test", "Test the connection"), /being tested/);
    await page.locator("#standing .badge", { hasText: /^works$/ }).waitFor();
    // what was said of the action is not said again
    await page.reload();
    assert.equal(await page.locator(".said").count(), 0);
    console.log("the connection to a warehouse was tested, and the open page showed the result");

    // a form has the fields of the chosen kind of credentials
    await page.goto(`/console/eshop/${ESHOP_ID}/setting`);
    const field = (name) => page.locator(`[name="${name}"]`);
    const shows = async (...expected) => {
      for (const name of ["type", "username", "password", "token"]) {
        assert.equal(await field(`credentials.${name}`).isVisible(), expected.includes(name), `${name}, of ${expected}`);
      }
    };
    await field("integrationType").selectOption("feed");
    await shows("type");
    await field("credentials.type").selectOption("basic");
    await shows("type", "username", "password");
    await field("credentials.type").selectOption("bearer");
    await shows("type", "token");
    await field("integrationType").selectOption("baselinker");
    await shows("token");
    console.log("a form had the fields of the chosen kind of credentials");

    // a file is shown as it will be read, and sent
    await page.goto(`/console/eshop/${ESHOP_ID}`);
    await page.getByRole("link", { name: "Import", exact: true }).click();
    const sheet = "productSku;name;weight\r\nCONSOLE-2;Bowl;0320\r\n;no SKU;1\r\n";
    await page.locator("input[type=file]").setInputFiles({ name: "sheet.csv", mimeType: "text/csv", buffer: Buffer.from(sheet) });
    await page.locator("#look td", { hasText: /^320$/ }).waitFor();
    await page.locator("#look td", { hasText: "productSku is required" }).waitFor();
    for (const width of [390, 1440]) {
      await page.setViewportSize({ width, height: 900 });
      await judge(page, `import-${width}`);
    }
    await page.getByRole("button", { name: "Send" }).click();
    assert.match(await said(page), /has arrived/);
    await page.getByRole("link", { name: "Download refused rows" }).waitFor();
    // first, it was found out what it would do; then it is done
    await page.locator("#previewed td", { hasText: "CONSOLE-2" }).first().waitFor();
    for (const width of [390, 1440]) {
      await page.setViewportSize({ width, height: 900 });
      await judge(page, `dry-run-${width}`);
    }
    const { results: unmade } = await call("POST", "/api/product/list", USER_TOKEN, { criteria: { productSku: { eq: "CONSOLE-2" } }, limit: 1 });
    assert.equal(unmade.length, 0);
    assert.match(await act(page, "Apply", "Apply"), /does what the dry run found/);
    await page.locator("#standing .badge", { hasText: "partly refused" }).waitFor();
    const { results: written } = await call("POST", "/api/product/list", USER_TOKEN, { criteria: { productSku: { eq: "CONSOLE-2" } }, limit: 1 });
    assert.equal(written[0].weight, 320);
    console.log("a file was looked at and tried, its refused row can be downloaded, and what it would do was done");

    const settings = ["/wms", `/wms/${WMS_ID}`, `/wms/${WMS_ID}/edit`, `/wms/${WMS_ID}/delete`];
    const preferences = ["/preference", `/preference/new?organisation=${prefers.organisation}`, `/preference/${prefers.id}/edit`];
    const ordersPages = ["/order", `/order/${order}`, "/order/attention", "/product?sort=oldest", "/product/deactivate?all=true"];
    const found = [product, organisation, `/eshop/${ESHOP_ID}`, `/eshop/${ESHOP_ID}/setting`, `/eshop/${ESHOP_ID}/webhook`, `/eshop/${ESHOP_ID}/reader`];
    const more = ["/attention", "/queue/lane", "/find?q=console", "/account", "/token", "/token/new", "/audit?whose=all", "/queue/chunk/pause"];
    const { results: deliveries } = await call("POST", "/api/webhook-delivery/list", USER_TOKEN, { select: ["id"], limit: 1 });
    more.push("/schedule", "/queue/upkeep", `/delivery/${deliveries[0].id}`, example, `/webhook/${hook}/test`);
    const pages = ["", ...ordersPages, ...found, ...settings, ...preferences, ...more, "/queue", "/job", `/job/${job}`, `/import?eshop=${ESHOP_ID}`, "/failure", "/webhook", `/webhook/${hook}`, "/reader", "/delivery?refresh=30", `/replay?hours=1&webhooks=${hook}`, "/sync", "/audit"];
    await page.goto("/console/worker");
    const worker = await page.getAttribute("main tbody a", "href");
    pages.push("/worker", worker.replace("/console", ""), "/queue/chunk?kind=product.sync", "/job?kind=product.sync&span=day");
    const state = await page.context().storageState();
    for (const [colorScheme, width] of [["light", 1440], ["dark", 1440], ["light", 390], ["dark", 390]]) {
      const look = await open(browser, { storageState: state, viewport: { width, height: 844 }, colorScheme });
      for (const address of pages) {
        await look.goto(`/console${address}`);
        await judge(look, `${nameOf(address)}-${colorScheme}-${width}`);
      }
      await look.context().close();
    }
    console.log("axe finds nothing serious, at 1440 and 390 pixels, in light and dark");

    // a list that is refreshed shows what is new, in the zone of the visitor
    const far = await open(browser, { storageState: state, viewport: { width: 1440, height: 900 }, timezoneId: "Asia/Tokyo" });
    await far.goto("/console/delivery?refresh=5");
    const rows = far.locator("#list tbody tr");
    const before = await rows.count();
    await call("POST", `/api/eshop-webhook/${hook}/test`, USER_TOKEN);
    await rows.nth(before).waitFor();
    const made = far.locator("#list time[data-short]").first();
    const hours = async () => Number((await made.textContent()).match(/(\d\d):\d\d/)[1]);
    const utc = await hours();
    await far.getByRole("button", { name: "show local time" }).click();
    assert.equal(await hours(), (utc + 9) % 24);
    assert.match(await far.locator("#list time[title]").first().getAttribute("title"), /local time$/);
    await far.getByText("More").click();
    await far.getByLabel("Before (local time)").fill("2999-01-01T09:00:00");
    await far.getByRole("button", { name: "Search" }).click();
    await far.waitForURL(/until=2999-01-01T00%3A00%3A00/);
    assert.match(await far.getByLabel("Before (local time)").inputValue(), /^2999-01-01T09:00/);
    assert.equal(await hours(), (utc + 9) % 24, "the browser remembers the zone");
    await far.getByRole("button", { name: "show UTC" }).click();
    assert.equal(await hours(), utc);
    await far.context().close();
    console.log("a refreshed list showed what was new, in UTC and in local time");

    // an open page that hears nothing says so, and catches up; the browser's own complaints are expected here
    const stale = await (await browser.newContext({ baseURL: BASE_URL, storageState: state })).newPage();
    stale.setDefaultTimeout(PATIENCE);
    await stale.route("**/console/live", (route) => route.fulfill({ status: 503 }));
    await stale.goto("/console");
    const old = stale.locator("#stale").filter({ hasText: /^Not up to date since .* UTC, trying again\.$/ });
    await old.waitFor();
    await stale.unroute("**/console/live");
    await old.waitFor({ state: "detached" });
    await stale.context().close();
    console.log("an open page said that it was not up to date, until it was");

    await catalogue(page);

    // without script: the question is a page of its own
    const plain = await open(browser, { storageState: state, javaScriptEnabled: false });
    await plain.goto("/console/queue");
    await plain.getByRole("link", { name: /Pause the queue upkeep/ }).click();
    await plain.getByRole("button", { name: "Pause the queue" }).click();
    assert.match(await said(plain), /paused/);
    await plain.getByRole("button", { name: "Log out" }).click();
    await plain.getByLabel("Password").waitFor();
    console.log("without script, a queue was paused too, and one logged out");
    assert.deepEqual(complaints, []);
  } finally {
    await browser.close();
    receiver.close();
    depot.close();
  }
}

await main();
