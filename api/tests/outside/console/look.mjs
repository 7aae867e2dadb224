// What every check in a browser needs: Chromium and axe, pages whose complaints are kept, and the judgement of a page.

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

// the packages lie in a cache that checkouts share
const require = createRequire(path.join(process.env.CONSOLE_TOOLS, "package.json"));
export const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const pictures = process.argv[2];

// What pages complained of: errors of their scripts, and what their policy refused.
export const complaints = [];

export async function open(browser, options) {
  const context = await browser.newContext({ baseURL: process.env.BASE_URL, ...options });
  const page = await context.newPage();
  page.on("pageerror", (error) => complaints.push(`${page.url()}: ${error}`));
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(`${page.url()}: ${message.text()}`);
  });
  return page;
}

// No page is wider than its window, and axe finds nothing serious. With a folder as argument, a picture is kept there.
export async function judge(page, name) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(wide <= 0, `${page.url()} is ${wide} pixels wider than the window (${name})`);
  await page.evaluate(axe);
  const { violations } = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })");
  const serious = violations.filter((violation) => ["serious", "critical"].includes(violation.impact));
  const told = serious.map((v) => `${v.id}: ${v.help}\n  ${v.nodes.map((node) => node.html).join("\n  ")}`);
  assert.equal(told.join("\n"), "", `${page.url()} (${name})`);
  if (pictures) await page.screenshot({ path: path.join(pictures, `${name}.png`) });
}
