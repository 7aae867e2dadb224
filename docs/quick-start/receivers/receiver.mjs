// Receives webhooks of Longshore in Node: docs/quick-start/eshop.md
import { createHmac, timingSafeEqual } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";

const { BASE_URL, USER_TOKEN, WEBHOOK_SECRET, PORT } = process.env;
const key = Buffer.from(WEBHOOK_SECRET.replace(/^whsec_/, ""), "base64");
const resources = {
  organization_change: "organisation",
  product_change: "product",
  product_stock_change: "product-stock",
  stock_advice_status_change: "stock-advice",
  expedition_status_change: "expedition",
  expedition_booked_change: "expedition",
  expedition_change: "expedition",
  expedition_deleted: "expedition",
};
// In your shop this is a table: resource, record, field, version, value.
mkdirSync("records", { recursive: true });

function verified(headers, body) {
  const { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures = "" } = headers;
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300)) return false;
  const expected = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
  return signatures.split(" ").some((signature) => {
    const [version, text] = signature.split(",", 2);
    const given = Buffer.from(text ?? "", "base64");
    return version === "v1" && given.length === expected.length && timingSafeEqual(given, expected);
  });
}

async function read(resource, id) {
  const answer = await fetch(`${BASE_URL}/api/${resource}/${id}`, { headers: { authorization: `Bearer ${USER_TOKEN}` } });
  if (answer.status === 410 || answer.status === 404) return null; // it was deleted, or lost by a restore
  if (!answer.ok) throw new Error(`${id} cannot be read: ${answer.status}`);
  const record = await answer.json();
  return { version: record.version, fields: record };
}

function stored(key) {
  try {
    return JSON.parse(readFileSync(`records/${key}.json`));
  } catch (error) {
    if (error.code === "ENOENT") return {};
    throw error;
  }
}

function store(key, record) {
  writeFileSync(`records/${key}.new`, JSON.stringify(record));
  renameSync(`records/${key}.new`, `records/${key}.json`);
}

// Stores the fields with a newer version than the stored one; returns their names.
function take(key, { version, fields }) {
  const record = stored(key);
  const names = Object.keys(fields).filter((name) => !(record[name]?.version >= version));
  for (const name of names) record[name] = { version, value: fields[name] };
  store(key, record);
  return names;
}

// The service was set back to a backup: the stored versions may be of changes that are lost.
async function readAgain() {
  for (const file of readdirSync("records").filter((name) => name.endsWith(".json"))) {
    const [resource, id] = file.split(".");
    if (!Object.values(resources).includes(resource)) continue;
    const key = `${resource}.${id}`;
    const record = stored(key);
    for (const field of Object.values(record)) field.version = 0;
    store(key, record);
    const found = await read(resource, id);
    // one that is there is not deleted; of one that is not, no more is kept than that
    const { deleted, ...others } = stored(key);
    if (found) {
      store(key, others);
      take(key, found);
    } else if (deleted) store(key, { deleted });
    else rmSync(`records/${file}`, { force: true });
  }
}

async function handle(event) {
  if (event.test) return console.log(`test ${event.type}`);
  if (event.type === "restored") await readAgain();
  if (event.type === "expedition_deleted") {
    // kept as such: an older event may come after it
    Object.assign(event.data, { changedFields: ["deleted"], fields: { deleted: true } });
  }
  const { version, fields, changedFields } = event.data;
  let names = [];
  if (changedFields) {
    const resource = resources[event.type] ?? event.type;
    const isWhole = fields && changedFields.every((name) => name in fields);
    const found = isWhole ? { version, fields } : await read(resource, event.id);
    names = found ? take(`${resource}.${event.id}`, found) : [];
    if (!names.length) return;
  }
  console.log(`${event.type} ${event.id} ${names}`);
}

createServer(async (request, response) => {
  const answer = (status) => response.writeHead(status).end();
  try {
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts);
    if (!verified(request.headers, body)) return answer(401);
    const content = JSON.parse(body);
    for (const event of content.type === "batch" ? content.events : [content]) await handle(event);
    answer(204);
  } catch (error) {
    console.error(error.message);
    answer(500);
  }
}).listen(Number(PORT ?? 9090), "127.0.0.1");
