// Search, in an index that is fetched when a search begins; and buttons that copy commands and examples.

const form = document.querySelector("#search");
const words = document.querySelector("#words");
const found = document.querySelector("#found");
const MOST = 30;
let index;

function load() {
  index ??= fetch("/docs/search.json").then((answer) => answer.json());
  return index;
}

// Those that have every word; first whose title has them.
function matches(entries, asked) {
  const ranked = entries.map(([address, title, line, text]) => {
    const head = `${title} ${line} ${address}`.toLowerCase();
    if (!asked.every((word) => head.includes(word) || text.includes(word))) return null;
    return { address, title, line, rank: asked.filter((word) => !head.includes(word)).length };
  });
  return ranked.filter(Boolean).sort((a, b) => a.rank - b.rank);
}

function link({ address, title, line }) {
  const a = document.createElement("a");
  a.href = address;
  const below = document.createElement("span");
  below.textContent = line;
  a.append(title, below);
  return a;
}

async function look() {
  const asked = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  const entries = await load();
  if (words.value.toLowerCase().split(/\s+/).filter(Boolean).join() !== asked.join()) return;
  if (!asked.length) return found.replaceChildren();
  const all = matches(entries, asked);
  const count = document.createElement("p");
  count.textContent = all.length === 1 ? "1 page" : `${all.length} pages`;
  found.replaceChildren(count, ...all.slice(0, MOST).map(link));
}

form.hidden = false;
words.addEventListener("focus", load);
words.addEventListener("input", look);
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  await look();
  found.querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
  const links = [...found.querySelectorAll("a")];
  if (event.key === "/" && !event.target.closest("input")) {
    event.preventDefault();
    words.focus();
  } else if (event.key === "Escape" && links.length) {
    found.replaceChildren();
    words.focus();
  } else if (["ArrowDown", "ArrowUp"].includes(event.key) && links.length && form.contains(event.target)) {
    event.preventDefault();
    const at = links.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    (links[at] ?? words).focus();
  }
});

// Without script, or where the browser forbids it, there is no button.
for (const pre of navigator.clipboard ? document.querySelectorAll("main pre") : []) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not copied";
    }
    setTimeout(() => (button.textContent = "Copy"), 1_500);
  });
  const frame = document.createElement("div");
  frame.className = "frame";
  pre.replaceWith(frame);
  frame.append(pre, button);
}
