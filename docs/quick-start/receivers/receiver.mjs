// Receives webhooks of Longshore in Node: docs/quick-start/eshop.md
import { createHmac, timingSafeEqual } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";

const { BASE_URL, USER_TOKEN, WEBHOOK_SECRET, PORT } = process.env;
const key = Buffer.from(WEBHOOK_SECRET.replace(/^whsec_/, ""), "base64");
const paths = {
  organization_change: "/api/organisation",
  product_change: "/api/product",
  product_stock_change: "/api/product-stock",
  stock_advice_status_change: "/api/stock-advice",
  expedition_status_change: "/api/expedition",
  expedition_booked_change: "/api/expedition",
  expedition_change: "/api/expedition",
};
// In your shop this is a table: record, field, version, value.
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

async function read(event) {
  const answer = await fetch(`${BASE_URL}${paths[event.type]}/${event.id}`, {
    headers: { authorization: `Bearer ${USER_TOKEN}` },
  });
  if (answer.status === 410) return { fields: {} }; // it was deleted
  if (!answer.ok) throw new Error(`${event.id} cannot be read: ${answer.status}`);
  const record = await answer.json();
  return { version: record.version, fields: record };
}

function stored(id) {
  try {
    return JSON.parse(readFileSync(`records/${id}.json`));
  } catch (error) {
    if (error.code === "ENOENT") return {};
    throw error;
  }
}

// Stores the fields with a newer version than the stored one; returns their names.
function take(id, { version, fields }) {
  const record = stored(id);
  const names = Object.keys(fields).filter((name) => !(record[name]?.version >= version));
  for (const name of names) record[name] = { version, value: fields[name] };
  writeFileSync(`records/${id}.new`, JSON.stringify(record));
  renameSync(`records/${id}.new`, `records/${id}.json`);
  return names;
}

async function handle(event) {
  if (event.test) return console.log(`test ${event.type}`);
  const { version, fields, changedFields } = event.data;
  let names = [];
  if (changedFields) {
    const isWhole = fields && changedFields.every((name) => name in fields);
    names = take(event.id, isWhole ? { version, fields } : await read(event));
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
    await handle(JSON.parse(body));
    answer(204);
  } catch (error) {
    console.error(error.message);
    answer(500);
  }
}).listen(Number(PORT ?? 9090), "127.0.0.1");
