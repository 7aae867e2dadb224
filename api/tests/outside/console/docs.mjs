// The pages at /docs in a browser, beside a running service: an operation opens within a second, the search finds what is
// looked for, a button copies a command, every chapter is there, the text is first, no page is wider than a phone, and axe finds nothing serious, in light and in dark. With a
// folder as argument, it keeps pictures there.

import assert from "node:assert/strict";

import { chromium, complaints, judge, open } from "./look.mjs";

const CHAPTERS = ["start", "access", "lists", "errors", "jobs", "webhooks", "glossary"];
const SECOND = 1_000;

// The shortest of some openings, from the click to the rendered page: the machine may be busy with other things.
async function opening(page) {
  const times = [];
  for (let round = 0; round < 5; round += 1) {
    await page.goto("/docs");
    await page.locator("nav summary", { hasText: "catalog" }).click();
    const started = Date.now();
    await page.locator('nav a[href="/docs/list_products"]').click();
    await page.locator("h1", { hasText: "Lists products" }).waitFor();
    times.push(Date.now() - started);
  }
  return Math.min(...times);
}

async function main() {
  // as root, as in a container, Chromium runs without its sandbox only
  const sandbox = process.getuid() === 0 ? ["--no-sandbox"] : [];
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: [...sandbox, "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"],
  });
  try {
    const page = await open(browser, { viewport: { width: 1440, height: 900 } });
    const took = await opening(page);
    assert.ok(took < SECOND, `an operation opened in ${took} ms`);
    assert.match(await page.locator("main pre").first().textContent(), /"limit": 100/);
    console.log(`an operation opened in ${took} ms`);

    const command = page.locator("main .frame").first();
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await command.locator("button", { hasText: "Copy" }).click();
    await command.locator("button", { hasText: "Copied" }).waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(copied, await command.locator("pre").textContent());
    console.log("a button copied a command");

    await page.keyboard.press("/");
    await page.keyboard.type("rotate secret webhook");
    await page.locator("#found a").first().waitFor();
    await judge(page, "docs-search");
    await page.keyboard.press("Enter");
    await page.waitForURL("**/docs/rotate_webhook_secret");
    console.log("the search found an operation");

    const names = [...CHAPTERS, "list_products", "sync_products", "receive_product_change", "ProductCriteria", "Problem"];
    for (const [colorScheme, width] of [["light", 1440], ["dark", 390]]) {
      const look = await open(browser, { viewport: { width, height: 844 }, colorScheme });
      for (const name of names) {
        const answer = await look.goto(`/docs/${name}`);
        assert.equal(answer.status(), 200, name);
        await judge(look, `docs-${name}-${colorScheme}-${width}`);
        const [text, pages] = await Promise.all(["main", "nav"].map((part) => look.locator(part).boundingBox()));
        assert.ok(text.y <= pages.y, `${name}: the list of pages is above the text`);
      }
      await look.context().close();
    }
    console.log("every chapter is there, and axe finds nothing serious, in light and dark");

    const plain = await open(browser, { javaScriptEnabled: false });
    await plain.goto("/docs");
    await plain.locator('nav a[href="/docs/lists"]').click();
    await plain.locator("h1", { hasText: "Lists" }).waitFor();
    assert.equal(await plain.locator("#words").isVisible(), false);
    console.log("without script, the pages are read all the same");
    assert.deepEqual(complaints, []);
  } finally {
    await browser.close();
  }
}

await main();
