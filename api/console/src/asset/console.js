// What the pages can do without, and is nicer with: questions in place, and parts that keep themselves up to date.
"use strict";

// --- questions: the link or form of an action leads to a page that asks; here it is shown in a dialog ---

const dialog = document.getElementById("dialog");

async function ask(address) {
  let page;
  try {
    const answer = await fetch(address, { headers: { accept: "text/html" } });
    if (answer.redirected) return location.assign(address);
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return location.assign(address);
  }
  const question = page.querySelector(".question");
  if (!question) return location.assign(address);
  dialog.replaceChildren(document.importNode(question, true));
  dialog.showModal();
  const first = dialog.querySelector("input:not([type=hidden]), [data-dismiss], button");
  if (first) first.focus();
}

if (dialog && dialog.showModal) {
  document.addEventListener("click", (event) => {
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    const link = event.target.closest("a");
    if (!link || !plain) return;
    if (link.hasAttribute("data-dismiss") && dialog.contains(link)) {
      event.preventDefault();
      dialog.close();
    } else if (link.hasAttribute("data-ask")) {
      event.preventDefault();
      ask(link.href);
    }
  });

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.hasAttribute("data-ask")) return;
    event.preventDefault();
    const action = event.submitter?.getAttribute("formaction") ?? form.action;
    const address = new URL(action, location.href);
    address.search = new URLSearchParams(new FormData(form)).toString();
    ask(address.href);
  });

  // a click beside it leaves it
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
}

// an action is done once, however often its button is pressed
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented || event.target.method !== "post") return;
  for (const button of event.target.querySelectorAll("button[type=submit]")) {
    setTimeout(() => (button.disabled = true));
  }
});

// what was said of an action is said once, and not again by a reload or a bookmark
const here = new URL(location.href);
if (here.searchParams.has("done")) {
  for (const name of ["done", "count", "left"]) here.searchParams.delete(name);
  history.replaceState(history.state, "", here);
}

// --- times: the pages have UTC; a visitor may prefer the local time, which the browser remembers ---

const zone = {
  local: false,
  get name() {
    return this.local ? "local time" : "UTC";
  },
};

try {
  zone.local = localStorage.getItem("longshore.zone") === "local";
} catch {
  // the browser keeps nothing for this site
}

// a moment in that zone: 2026-03-01 14:30:05
const stamp = (at) => new Date(at.getTime() - (zone.local ? at.getTimezoneOffset() * 60_000 : 0)).toISOString().slice(0, 19).replace("T", " ");

// writes the times of a part in that zone
const writeTimes = (root) => {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const full = `${stamp(at)} ${zone.name}`;
    if (time.hasAttribute("data-full")) time.textContent = full;
    else if (time.hasAttribute("data-short")) time.textContent = /^\d\d-/.test(time.textContent) ? full.slice(5, 16) : full.slice(11, 19);
    else time.title = full;
  }
};

// fields of forms are in that zone, too; what is sent is UTC
const fields = (form) => form.querySelectorAll("input[type=datetime-local]");
const UTC = "(UTC)";
const LOCAL = "(local time)";

const relabel = () => {
  for (const form of document.forms) {
    for (const field of fields(form)) {
      const label = field.closest("label")?.firstChild;
      const [from, to] = zone.local ? [UTC, LOCAL] : [LOCAL, UTC];
      if (!label?.data?.includes(from)) continue;
      label.data = label.data.replace(from, to);
      if (field.value) field.value = zone.local ? stamp(new Date(`${field.value}Z`)).replace(" ", "T") : new Date(field.value).toISOString().slice(0, 19);
    }
  }
};

document.addEventListener("formdata", (event) => {
  if (!zone.local) return;
  for (const field of fields(event.target)) {
    if (field.name && field.value) event.formData.set(field.name, new Date(field.value).toISOString().slice(0, 19));
  }
});

const chosen = document.getElementById("zone");

const choose = () => {
  chosen.textContent = zone.local ? "Times are local: show UTC" : "Times are UTC: show local time";
  writeTimes(document.body);
  relabel();
};

if (chosen) {
  chosen.hidden = false;
  if (zone.local) choose();
  else chosen.textContent = "Times are UTC: show local time";
  chosen.addEventListener("click", () => {
    zone.local = !zone.local;
    try {
      localStorage.setItem("longshore.zone", zone.local ? "local" : "utc");
    } catch {
      // it holds for this page
    }
    choose();
    draw(document.body);
  });
}

// --- parts that keep themselves up to date ---

const live = document.querySelector("[data-live]");

if (live && window.EventSource) {
  // the service tells every two seconds that it has looked, or as often as was chosen
  const EVERY = 1_000 * (Number(live.dataset.every) || 2);
  const SILENCE = EVERY + 5_000;
  const WAIT = 1_000;
  const LONGEST = 15_000;
  // for so long what was said can be read
  const READ = 5_000;
  const bar = document.getElementById("stale");
  // what was sent of each part last, and what of that could not be shown yet
  const sent = new Map();
  const kept = new Map();
  let source, asking, timer;
  let wait = WAIT;
  let fresh = new Date();

  const stop = () => {
    clearTimeout(timer);
    source?.close();
    asking?.abort();
    source = asking = null;
  };

  const follow = () => {
    stop();
    source = new EventSource(live.dataset.live);
    timer = setTimeout(lose, SILENCE);
    source.addEventListener("parts", (event) => {
      clearTimeout(timer);
      timer = setTimeout(lose, SILENCE);
      wait = WAIT;
      fresh = new Date();
      bar.textContent = "";
      show(Object.entries(JSON.parse(event.data)));
    });
    // its time is over, which is no failure: the next one begins when the next look is due
    source.addEventListener("end", () => {
      stop();
      timer = setTimeout(follow, Math.max(0, fresh.getTime() + EVERY - Date.now()));
    });
    source.addEventListener("error", lose);
  };

  // the stream is gone, or nothing was heard for too long
  const lose = () => {
    stop();
    const [day, clock] = stamp(fresh).split(" ");
    const when = day === stamp(new Date()).split(" ")[0] ? clock : `${day} ${clock}`;
    const since = `Not up to date since ${when} ${zone.name}, trying again.`;
    // said once, however often it is tried
    if (bar.textContent !== since) bar.textContent = since;
    timer = setTimeout(again, wait * (0.75 + Math.random() / 2));
    wait = Math.min(wait * 2, LONGEST);
  };

  // asks by itself first: an event source does not tell what it was answered
  const again = async () => {
    const mine = (asking = new AbortController());
    timer = setTimeout(() => mine.abort(), SILENCE);
    let answer;
    try {
      answer = await fetch(live.dataset.live, { redirect: "manual", signal: mine.signal });
    } catch {
      // nothing came
    }
    if (asking !== mine) return;
    // a visitor whose session has ended is sent to the login, and comes back here
    if (answer?.status === 401 || answer?.type === "opaqueredirect") location.reload();
    else if (answer?.ok) follow();
    else lose();
  };

  const show = (parts) => {
    for (const [id, html] of parts) {
      if (sent.get(id) !== html) kept.set(id, html);
      sent.set(id, html);
    }
    for (const [id, html] of kept) {
      const part = document.getElementById(id);
      if (part && isInUse(part)) continue;
      kept.delete(id);
      if (part) replace(part, html);
    }
  };

  // a form that is being filled in, and a selection, are left alone until they are done
  const isInUse = (part) => {
    const selection = document.getSelection();
    const selects = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
    const focused = document.activeElement;
    return selects || part.querySelector(".plot:hover, .plot:focus, details[open], input.select:checked") || (part.contains(focused) && focused.matches("input, select, textarea"));
  };

  // what was said of an action is over when the page shows what came of it
  const said = document.querySelector(".said");
  const opened = Date.now();

  // the focus stays where it was, and tables stay as far as they were scrolled
  const replace = (part, html) => {
    if (Date.now() - opened > READ) said?.remove();
    const find = part.contains(document.activeElement) && finder(part, document.activeElement);
    const scrolled = [...part.querySelectorAll(".scroll")].map((table) => table.scrollLeft);
    part.innerHTML = html;
    reveal(part);
    writeTimes(part);
    draw(part);
    part.querySelectorAll(".scroll").forEach((table, place) => (table.scrollLeft = scrolled[place] || 0));
    if (find) find()?.focus({ preventScroll: true });
  };

  // finds an element of a part again: by its id, else as the same one of those that lead there, or can be focused
  const finder = (part, element) => {
    if (element.id) return () => document.getElementById(element.id);
    const address = element.getAttribute("href");
    const alike = address ? `a[href="${CSS.escape(address)}"]` : "button, summary, [tabindex]";
    const place = [...part.querySelectorAll(alike)].indexOf(element);
    return () => part.querySelectorAll(alike)[place];
  };

  // a hidden page sends no requests
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : follow()));
  if (!document.hidden) follow();
}

// --- coming from elsewhere: the cookie is not sent along with a link on another site, so that one who is logged in lands
// --- on the page for logging in; from here it is sent

const login = document.querySelector("form.login");

if (login && !login.querySelector(".refusal")) {
  const next = new URL(login.elements.next?.value || "/console", location.href);
  if (next.origin === location.origin && /^\/console(\/|$)/.test(next.pathname)) {
    fetch(next, { redirect: "manual" }).then((answer) => answer.ok && location.replace(next), () => {});
  }
}

// --- import: the first rows of a file, as they will be read, before it is sent ---

const file = document.querySelector("form[data-look] input[type=file]");

if (file) {
  const form = file.form;
  const shown = document.getElementById("look");
  const { look, part, most } = form.dataset;
  let asking;

  form.addEventListener("change", async () => {
    asking?.abort();
    const [chosen] = file.files;
    const isTooLarge = chosen && chosen.size > most;
    file.setCustomValidity(isTooLarge ? `The file is larger than ${most / 1024 / 1024} MiB.` : "");
    if (isTooLarge) file.reportValidity();
    if (!chosen || isTooLarge) return shown.replaceChildren();
    const sent = new FormData(form);
    // behind all other fields
    sent.delete("file");
    if (chosen.size > part) sent.append("part", "true");
    sent.append("file", chosen.slice(0, part), chosen.name);
    const mine = (asking = new AbortController());
    let rows = "";
    try {
      const answer = await fetch(look, { method: "POST", body: sent, signal: mine.signal });
      if (answer.ok && !answer.redirected) rows = await answer.text();
    } catch {
      // the file can be sent all the same
    }
    if (asking === mine) shown.innerHTML = rows;
  });
}

// --- keys: "/" goes to the search; Ctrl or Cmd and K opens it over the page, with the pages of the console ---

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
    if (openPalette()) event.preventDefault();
    return;
  }
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.activeElement && document.activeElement.matches("input, select, textarea")) return;
  const search = document.getElementById("find") || document.querySelector("form.search input");
  if (search) {
    event.preventDefault();
    search.focus();
    search.select();
  }
});

const palette = document.getElementById("palette");

const openPalette = () => {
  const bar = document.querySelector("form.find");
  if (!palette?.showModal || !bar || palette.open || dialog?.open) return false;
  const field = Object.assign(document.createElement("input"), { type: "search", maxLength: 200, autocomplete: "off", placeholder: "A page, or anything to find" });
  field.setAttribute("aria-label", "Find");
  const list = Object.assign(document.createElement("div"), { className: "hits" });
  palette.replaceChildren(field, list);
  const pages = [...document.querySelectorAll(".bar nav a, .who a, footer a")].map((link) => ({ name: link.textContent.trim(), href: link.href }));
  let chosen = 0;
  let asking, timer;

  const mark = () => {
    [...list.children].forEach((link, place) => link.setAttribute("aria-selected", place === chosen));
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };
  const show = (entries) => {
    const link = ({ name, of, href }) => {
      const link = Object.assign(document.createElement("a"), { href, textContent: name });
      if (of) link.append(" ", Object.assign(document.createElement("span"), { className: "muted", textContent: of }));
      return link;
    };
    list.replaceChildren(...entries.map(link));
    chosen = 0;
    mark();
  };
  const matching = (text) => pages.filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()));
  // what the search of the bar finds: its hits, or the page of the only one
  const find = async (text) => {
    asking?.abort();
    const mine = (asking = new AbortController());
    let page, answer;
    try {
      // as the form does it: a token stands in no URL
      const body = new URLSearchParams(new FormData(bar));
      body.set("q", text);
      answer = await fetch(bar.action, { method: "POST", body, headers: { accept: "text/html" }, signal: mine.signal });
      page = new DOMParser().parseFromString(await answer.text(), "text/html");
    } catch {
      return;
    }
    if (asking !== mine || !answer.ok) return;
    const hits = [...page.querySelectorAll("main .hits a")].map((link) => ({
      name: link.textContent,
      of: [link.closest("section")?.querySelector("h2")?.textContent, link.parentElement.querySelector(".muted")?.textContent].filter(Boolean).join(" · "),
      href: link.getAttribute("href"),
    }));
    const only = answer.redirected && new URL(answer.url).pathname !== "/console/find" ? [{ name: page.title.replace(/ – Longshore$/, ""), href: answer.url }] : [];
    show([...matching(text), ...only, ...hits]);
  };

  field.addEventListener("input", () => {
    clearTimeout(timer);
    const text = field.value.trim();
    show(matching(text));
    if (text) timer = setTimeout(() => find(text), 200);
    else asking?.abort();
  });
  field.addEventListener("keydown", (event) => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (way && list.children.length) {
      event.preventDefault();
      chosen = (chosen + way + list.children.length) % list.children.length;
      mark();
    } else if (event.key === "Enter") {
      event.preventDefault();
      const text = field.value.trim();
      const link = list.children[chosen];
      if (link) location.assign(link.href);
      else if (text) {
        bar.elements.q.value = text;
        bar.submit();
      }
    }
  });
  palette.onclick = (event) => event.target === palette && palette.close();
  show(pages);
  palette.showModal();
  field.focus();
  return true;
};

// --- charts: the figures of each are in the page; here they are drawn with axes, and with the values under the pointer or the
// --- arrow keys

const plots = new Map();

const draw = (root) => {
  for (const [figure, plot] of plots) {
    if (figure.isConnected && !root.contains(figure)) continue;
    plot.destroy();
    plots.delete(figure);
  }
  if (!window.uPlot) return;
  for (const figure of root.querySelectorAll("[data-plot]")) plots.set(figure, plotted(figure));
};

const plotted = (figure) => {
  const { from, step, unit, series, list } = JSON.parse(figure.dataset.plot);
  const holder = figure.querySelector(".plot");
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const times = series[0].values.map((_, place) => from + place * step);
  const grid = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: colour("--muted"), grid, ticks: grid, font: "11px system-ui, sans-serif" };
  const written = (value) => {
    if (value == null) return "–";
    if (unit !== "ms") return value.toLocaleString("en") + (unit && ` ${unit}`);
    if (value < 1_000) return `${+value.toFixed(value < 10 ? 1 : 0)} ms`;
    return value < 60_000 ? `${+(value / 1_000).toFixed(1)} s` : `${Math.round(value / 60_000)} min`;
  };
  const time = (seconds) => {
    const text = stamp(new Date(seconds * 1_000));
    return step * times.length > 86_400 ? text.slice(5, 16) : text.slice(11, 16);
  };
  // failures have a scale of their own, on the right, where there are any
  const isApart = ({ apart, values }) => apart && values.some((value) => value > 0);
  const apart = series.some(isApart);
  const line = ({ name, class: kind, bar, ...one }) => ({
    label: name,
    scale: isApart(one) ? "apart" : "y",
    stroke: colour(`--chart-${kind}`),
    width: bar ? 1 : 2,
    fill: bar ? colour(`--chart-${kind}`) : undefined,
    paths: bar ? uPlot.paths.bars({ size: [0.8, 24] }) : undefined,
    points: { show: false },
    value: (_, value) => written(value),
  });
  // where nothing is pointed at: the last complete step
  const rest = (plot) => plot.setLegend({ idx: Math.max(times.length - 2, 0) });
  holder.classList.add("drawn");
  const plot = new uPlot(
    {
      width: holder.clientWidth,
      height: 170,
      tzDate: (seconds) => (zone.local ? new Date(seconds * 1_000) : uPlot.tzDate(new Date(seconds * 1_000), "Etc/UTC")),
      scales: Object.fromEntries(["y", "apart"].map((name) => [name, { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] }])),
      series: [{ label: zone.name, value: (_, seconds) => (seconds == null ? "–" : time(seconds)) }, ...series.map(line)],
      axes: [
        { ...axis, values: (_, marks) => marks.map(time), space: 70 },
        { ...axis, values: (_, marks) => marks.map(written), size: 62, incrs: unit ? undefined : whole },
        { ...axis, scale: "apart", side: 1, show: apart, stroke: colour("--bad"), grid: { show: false }, values: (_, marks) => marks.map(written), size: 46, incrs: whole },
      ],
      cursor: { drag: { x: false, y: false }, y: false },
      hooks: { ready: [rest] },
    },
    [times, ...series.map(({ values }) => values)],
    holder,
  );
  let place = times.length - 1;
  // a step leads to the list of its period
  const lead = (chosen) => {
    if (!list || times[chosen] == null) return;
    const address = new URL(list, location.href);
    const bound = (seconds) => new Date(seconds * 1_000).toISOString().slice(0, 19);
    address.searchParams.set("since", bound(times[chosen]));
    address.searchParams.set("until", bound(times[chosen] + step));
    location.assign(address);
  };
  holder.querySelector(".u-over").addEventListener("click", () => lead(plot.cursor.idx));
  holder.onmouseleave = () => setTimeout(() => rest(plot));
  holder.onkeydown = (event) => {
    if (event.key === "Enter") return lead(place);
    const way = { ArrowLeft: -1, ArrowRight: 1, Home: -times.length, End: times.length }[event.key];
    if (!way) return;
    event.preventDefault();
    place = Math.min(Math.max(place + way, 0), times.length - 1);
    plot.setCursor({ left: plot.valToPos(times[place], "x"), top: 1 });
  };
  return plot;
};

// counts have no fractions
const whole = [1, 2, 5].flatMap((digit) => [...Array(9).keys()].map((zeros) => digit * 10 ** zeros)).sort((a, b) => a - b);

// the script that draws comes last
document.addEventListener("DOMContentLoaded", () => draw(document.body));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(document.body));

let resized;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => {
    for (const [figure, plot] of plots) plot.setSize({ width: figure.querySelector(".plot").clientWidth, height: 170 });
  }, 150);
});

// --- a button copies an id, or the text of what is beside it; without script, or where the browser forbids it, there is none ---

const reveal = (root) => {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll(".copy[hidden]")) button.hidden = false;
};

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-of]");
  if (!button) return;
  try {
    const text = button.dataset.copy ?? button.parentElement.querySelector(button.dataset.copyOf).textContent;
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    button.textContent = "not copied";
  }
  setTimeout(() => (button.textContent = "copy"), 1_500);
});

reveal(document);
