"use strict";

// The operator's page: asks for the server's state once a second and draws it.
//
// Table names are whatever a client chose to send, so every text from the server is set by textContent.
// Elements are kept from one answer to the next and only changed: heights can glide, selections and focus stay.

const POLL_MS = 1000;
const ANSWER_WITHIN_MS = 3000;
const LOST_AFTER_MS = 2500;
const HIGHLIGHT_MS = 6000;
// A table below this share of the scale would be a hairline; such tables are gathered in one block.
const COLD_SHARE = 0.015;
const LINE_PX = 13;

const byId = (id) => document.getElementById(id);
const main = document.querySelector("main");

// ---- Asking ----------------------------------------------------------------------------------------------

let timer = 0;
let asking = false;
let silentSince = null;

async function poll() {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  silentSince ??= Date.now();
  const { state, problem } = await ask();
  asking = false;
  if (!document.hidden) timer = setTimeout(poll, POLL_MS);
  if (state) {
    silentSince = null;
    showOrSay(state);
  } else if (Date.now() - silentSince >= LOST_AFTER_MS) {
    showLost(problem);
  }
}

async function ask() {
  try {
    const answer = await fetch("api/state", { cache: "no-store", signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
    if (!answer.ok) return { problem: `The last request was answered with status ${answer.status}.` };
    return { state: await answer.json() };
  } catch {
    return { problem: "" };
  }
}

// A tab that nobody looks at costs the server nothing, and silence while nobody asked is not an outage.
function onVisibility() {
  clearTimeout(timer);
  if (document.hidden) return;
  if (document.body.dataset.lost === undefined) silentSince = null;
  poll();
}

// Stale figures must never pass for live ones, also when it is this page that fails.
function showOrSay(state) {
  try {
    show(state);
  } catch (problem) {
    showStale("Answer not understood", "The server answers, but this page cannot draw it. The figures below may be old.");
    throw problem;
  }
}

function showLost(problem) {
  const figures = main.hidden ? "" : "The figures below are the last ones received. ";
  showStale(`Not reachable since ${clock(silentSince)}`, `${problem} ${figures}Asking again every second.`.trim());
}

function showStale(word, detail) {
  document.body.dataset.lost = "";
  showStatus("lost", word, detail);
}

// ---- Writing numbers -------------------------------------------------------------------------------------

const NOTHING = "–";
const grouped = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const three = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 3 });

const count = (n) => (n < 1e6 ? grouped.format(n) : scaled(n, 1000, ["", "k", "M", "G", "T"]));
const rate = (n) => (n < 10 ? three.format(n) : count(n));
const traffic = (n) => (n < 1 ? "0" : scaled(n, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]));
const memory = (n) => scaled(n, 1024, ["B", "KiB", "MiB", "GiB"]);
const micros = (n) => (n === null || n === undefined ? NOTHING : scaled(n, 1000, ["µs", "ms", "s"]));
const share = (part) => `${part < 0.1 ? (part * 100).toFixed(1) : Math.round(part * 100)} %`;
const plural = (n, one) => `${count(n)} ${one}${n === 1 ? "" : "s"}`;

function scaled(n, base, units) {
  let unit = 0;
  while (n >= base * 0.9995 && unit < units.length - 1) {
    n /= base;
    unit += 1;
  }
  return `${n >= 1000 ? grouped.format(n) : three.format(n)} ${units[unit]}`.trim();
}

function duration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const scales = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
  const [long, big, short, small] = scales.find(([length]) => seconds >= length);
  return `${Math.floor(seconds / long)} ${big} ${Math.floor((seconds % long) / short)} ${small}`;
}

function clock(ms) {
  const at = new Date(ms);
  const time = at.toLocaleTimeString("en-GB");
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${time}`;
}

// ---- Changing the document -------------------------------------------------------------------------------

// Only what changed is written: a live region would otherwise be read out every second.
function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
}

function fill(root, values) {
  for (const [slot, value] of Object.entries(values)) text(root.querySelector(`[data-slot="${slot}"]`), value);
}

const fromTemplate = (id) => byId(id).content.firstElementChild.cloneNode(true);

// Makes the children of `parent` those of `items`, in order, and keeps the elements of items that were there.
function keyed(parent, items, keyOf, template, update) {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  const keys = new Set(items.map((item) => String(keyOf(item))));
  for (const [key, node] of old) if (!keys.has(key)) node.remove();
  let cursor = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    const node = old.get(key) ?? fromTemplate(template);
    node.dataset.key = key;
    if (node === cursor) cursor = cursor.nextElementSibling;
    else parent.insertBefore(node, cursor);
    update(node, item, !old.has(key));
  }
}

// ---- The state, from top to bottom -----------------------------------------------------------------------

function show(state) {
  delete document.body.dataset.lost;
  main.hidden = false;
  showServer(state);
  showTotals(state.totals, state.placement);
  showDamaged(state.tables.filter((table) => table.status === "red" && !isServed(table)));
  showDomains(state);
  showRemaps(state.remaps);
  latest = state;
  showTables(state);
}

function showServer({ server, window_seconds }) {
  const header = document.querySelector("header");
  fill(header, {
    name: server.name,
    about: `${server.version} · up ${duration(server.uptime_seconds)} · gRPC at ${server.grpc_addr} · ${server.machine} · scheduler ${server.scheduler}`,
    // The first answer has nothing to compare with.
    "as-of": `As of ${clock(Date.now())}; rates and times ${window_seconds > 0 ? `over ${rate(window_seconds)} s` : "from the next answer on"}`,
  });
  if (server.draining) showStatus("draining", "Draining", "Finishes the queries it has and takes no new ones.");
  else if (!server.ready) showStatus("unready", "Not ready", server.not_ready_because);
  else showStatus("ready", "Ready", "");
}

function showStatus(kind, word, detail) {
  const status = byId("status");
  status.dataset.state = kind;
  fill(status, { word, detail });
  document.title = `${word} · ${document.querySelector("h1").textContent}`;
}

let shedBefore = Infinity;

function showTotals(totals, placement) {
  const { own, domain, remote } = totals.steals;
  const moved = totals.steals.rebalanced + totals.steals.overflow;
  const taken = own + domain + remote + moved;
  const of = (part) => (taken ? share(part / taken) : NOTHING);
  const tiles = document.querySelector(".tiles");
  fill(tiles, {
    rate: rate(totals.done_per_second),
    done: `${count(totals.done)} done`,
    queued: count(totals.queued),
    running: `${count(totals.running)} running`,
    shed: count(totals.shed) + (totals.shed > shedBefore ? ", growing" : ""),
    unanswered: `${count(totals.expired)} expired, ${count(totals.cancelled)} cancelled, ${count(totals.panicked)} panicked`,
    own: of(own),
    same: of(domain),
    other: of(remote + moved),
    version: `v${placement.version}`,
    "remap-count": plural(placement.remaps, "remap"),
  });
  shedBefore = totals.shed;
  for (const [level, part] of [["own", own], ["same", domain], ["other", remote + moved]]) {
    const piece = tiles.querySelector(`.split .${level}`);
    piece.hidden = part === 0;
    piece.style.flexGrow = taken ? part / taken : 0;
  }
}

function showDamaged(tables) {
  byId("damaged").hidden = tables.length === 0;
  text(byId("damaged-title"), `${plural(tables.length, "damaged table")}, not served`);
  keyed(byId("damaged").querySelector("ul"), tables, (table) => table.name, "problem", (node, table) => {
    fill(node, { name: table.name, problem: table.problem || "The server gave no reason." });
  });
}

// ---- Domains ---------------------------------------------------------------------------------------------

let scale = { top: 0, step: 0 };
let homesBefore = new Map();
const newUntil = new Map();

function showDomains(state) {
  noteArrivals(state.tables);
  const columns = state.domains.map((domain) => columnOf(domain, state.tables));
  const mean = columns.reduce((sum, column) => sum + column.traffic, 0) / columns.length;
  scale = scaleFor(Math.max(0, ...columns.map((column) => column.traffic)), scale);

  const section = byId("domains");
  byId("empty").hidden = state.tables.length > 0 || !state.server.ready;
  fill(section, { grpc: state.server.grpc_addr, scale: legend(columns.length, state.tables.length) });
  document.querySelector(".machine").classList.toggle("many", columns.length > 6);
  const list = section.querySelector(".columns");
  list.style.setProperty("--count", columns.length);
  list.classList.toggle("idle", state.tables.length === 0);
  keyed(list, columns, (column) => column.domain.id, "domain", (node, column) => {
    fillFigures(node, column.domain);
  });
  // Only now is it known how wide a column came out, and how much text fits on a block.
  const width = list.firstElementChild?.clientWidth ?? 0;
  list.classList.toggle("narrow", width <= 170);
  list.classList.toggle("medium", width > 170 && width <= 250);
  columns.forEach((column, at) => fillPlot(list.children[at], column, columns.length > 1 ? mean : 0, width <= 170));
}

function legend(columns, tables) {
  if (scale.top === 0) return tables ? "No traffic now. Tables appear as blocks when they are searched." : "";
  const mean = columns > 1 ? " Dashes: the mean of the domains." : "";
  return `Height of a block: memory traffic of the table, on one scale for all columns; ${traffic(scale.step)} from line to line.${mean}`
    + ` Cold: under ${traffic(scale.top * COLD_SHARE)}.`;
}

// What a domain carries: each of its tables with the part of the traffic that this home takes.
function columnOf(domain, tables) {
  const parts = [];
  for (const table of tables) {
    const weights = table.homes.reduce((sum, home) => sum + home.weight, 0);
    for (const home of table.homes) {
      if (home.domain !== domain.id) continue;
      const part = weights > 0 ? home.weight / weights : 1 / table.homes.length;
      parts.push({ table, part, traffic: table.traffic_bytes_per_second * part });
    }
  }
  // By id, not by traffic: blocks that change places every second cannot be followed.
  parts.sort((a, b) => b.table.id - a.table.id);
  return { domain, parts, traffic: parts.reduce((sum, { traffic }) => sum + traffic, 0) };
}

// A round scale of at most eight lines; kept while it still fits, so that heights do not jump with every answer.
function scaleFor(highest, before) {
  if (highest <= 0) return { top: 0, step: 0 };
  if (highest <= before.top && highest > before.top * 0.6) return before;
  const magnitude = 10 ** Math.floor(Math.log10(highest / 8));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * magnitude).find((n) => n * 8 >= highest);
  return { top: Math.ceil(highest / step) * step, step };
}

function noteArrivals(tables) {
  const now = Date.now();
  const homes = new Map(tables.map((table) => [table.id, new Set(table.homes.map((home) => home.domain))]));
  for (const [id, domains] of homes) {
    const before = homesBefore.get(id);
    if (!before?.size) continue;
    for (const domain of domains) if (!before.has(domain)) newUntil.set(`${id}/${domain}`, now + HIGHLIGHT_MS);
  }
  for (const [key, until] of newUntil) if (until < now) newUntil.delete(key);
  homesBefore = homes;
}

function fillFigures(node, domain) {
  const { own, domain: same, remote } = domain.steals;
  const moved = domain.steals.rebalanced + domain.steals.overflow;
  const taken = own + same + remote + moved;
  const full = domain.queue_limit > 0 ? domain.queued / domain.queue_limit : 0;
  fill(node, {
    title: `Domain ${domain.id}`,
    cpus: `cpus ${domain.cpus}`,
    cache: `${memory(domain.cache_bytes)} ${domain.cache_level}`,
    queue: `${count(domain.queued)} of ${count(domain.queue_limit)}${full >= 0.8 ? ", nearly full" : ""}`,
    workers: `${domain.busy_workers} of ${domain.workers}, ${Math.round(domain.busy_share * 100)} %`,
    rate: rate(domain.done_per_second),
    wait50: `p50 ${micros(domain.wait_p50_us)}`,
    wait99: `p99 ${micros(domain.wait_p99_us)}`,
    service50: `p50 ${micros(domain.service_p50_us)}`,
    service99: `p99 ${micros(domain.service_p99_us)}`,
    shed: count(domain.shed),
    remote: taken ? share(remote / taken) : NOTHING,
    moved: taken ? share(moved / taken) : NOTHING,
  });
  fillBar(node.querySelector(".bar.queue"), full);
  fillBar(node.querySelector(".bar.workers"), domain.busy_share);
}

function fillBar(bar, part) {
  bar.firstElementChild.style.width = `${Math.min(1, part) * 100}%`;
  bar.classList.toggle("full", part >= 0.8);
}

function fillPlot(node, column, mean, narrow) {
  const percent = (bytes) => (scale.top ? (bytes / scale.top) * 100 : 0);
  const cold = column.parts.filter((part) => part.traffic <= scale.top * COLD_SHARE);
  const coldTraffic = cold.reduce((sum, part) => sum + part.traffic, 0);
  const warm = column.parts.filter((part) => part.traffic > scale.top * COLD_SHARE);
  const isNew = ({ table }) => newUntil.has(`${table.id}/${column.domain.id}`);

  const plot = node.querySelector(".plot");
  plot.style.setProperty("--line", `${percent(scale.step)}%`);
  const dashes = plot.querySelector(".mean");
  dashes.hidden = mean <= 0;
  dashes.style.bottom = `${percent(mean)}%`;
  plot.querySelector(".total").style.bottom = `${percent(column.traffic)}%`;
  fill(plot, { traffic: traffic(column.traffic), balance: mean > 0 ? againstMean(column.traffic / mean, narrow) : "" });

  const blocks = warm.map((part) => ({ ...part, key: part.table.id, isNew: isNew(part) }));
  if (coldTraffic > 0) blocks.push({ key: "cold", traffic: coldTraffic });
  keyed(plot.querySelector(".blocks"), blocks, (block) => block.key, "block", (li, block) => {
    li.style.height = `${percent(block.traffic)}%`;
    fillBlock(li, block, (percent(block.traffic) / 100) * plot.clientHeight, narrow);
  });

  const tray = node.querySelector(".cold");
  tray.classList.toggle("new", cold.some(isNew));
  const amount = narrow || coldTraffic === 0 ? "" : `, ${traffic(coldTraffic)}`;
  text(tray, cold.length ? plural(cold.length, "cold table") + amount : "");
}

function againstMean(ratio, narrow) {
  const percent = Math.round((ratio - 1) * 100);
  if (!narrow && percent === 0) return "at the mean";
  if (!narrow) return `${Math.abs(percent)} % ${percent < 0 ? "below" : "above"} the mean`;
  return `${percent < 0 ? "−" : percent > 0 ? "+" : "±"}${Math.abs(percent)} %`;
}

function fillBlock(li, block, height, narrow) {
  li.classList.toggle("gathered", block.key === "cold");
  if (block.key === "cold") return;
  const { table, part } = block;
  const notes = [];
  if (block.isNew) notes.push("new here");
  if (table.status === "yellow") notes.push("building");
  if (table.homes.length > 1) notes.push(`${Math.round(part * 100)} % of it`);
  const note = notes.join(", ");
  const amount = traffic(block.traffic);
  fill(li, { name: table.name, note, traffic: amount });
  li.title = [table.name, amount, ...notes].join("\n");
  li.dataset.hue = table.id % 4;
  li.classList.toggle("new", block.isNew);
  li.classList.toggle("building", table.status === "yellow");
  // Only whole lines: half a line of text is worse than none, and the list of tables below has everything.
  const lines = Math.floor((height - 1) / LINE_PX);
  li.querySelector(".name").classList.toggle("unseen", lines < 1);
  li.querySelector(".note").hidden = !note || lines < (narrow ? 2 : 1);
  li.querySelector(".traffic").hidden = lines < (narrow ? (note ? 3 : 2) : 1);
}

// ---- Remaps ----------------------------------------------------------------------------------------------

let remapsShown = false;

function showRemaps(remaps) {
  const section = byId("remaps");
  const list = section.querySelector("ol");
  section.querySelector('[data-slot="none"]').hidden = remaps.length > 0;
  list.hidden = remaps.length === 0;
  const news = [];
  keyed(list, remaps, (remap) => `${remap.version}/${remap.at_unix_ms}`, "remap", (node, remap, added) => {
    if (!added) return;
    fillRemap(node, remap);
    if (!remapsShown) return;
    node.classList.add("new");
    news.push(...remap.moves.map(({ table, from, to }) => `${table} from ${from} to ${to}`));
  });
  if (news.length) fill(section, { news: `Remap: ${news.join("; ")}` });
  remapsShown = true;
}

function fillRemap(node, remap) {
  fill(node, { time: clock(remap.at_unix_ms), version: `placement v${remap.version}`, reason: remap.reason });
  node.querySelector("time").dateTime = new Date(remap.at_unix_ms).toISOString();
  const moves = remap.moves.map((move, at) => ({ ...move, at }));
  keyed(node.querySelector(".moves"), moves, (move) => move.at, "move", (li, { table, from, to }) => fill(li, { table, from, to }));
}

// ---- Tables ----------------------------------------------------------------------------------------------

let latest = null;
const sorting = { by: "traffic", descending: true };

// What could not be read, or is not read yet, has no index of any kind; what is served may have a build that failed.
const isServed = (table) => table.index !== "none";

function statusOf(table) {
  const words = isServed(table)
    ? { green: "serving", yellow: "building", red: "no index" }
    : { yellow: "loading", red: "damaged" };
  return words[table.status] ?? table.status;
}

// Of each column what it is sorted by, and how that is written.
const COLUMNS = {
  name: [(table) => table.name, String],
  status: [(table) => ["red", "yellow", "green"].indexOf(table.status), (_, table) => statusOf(table)],
  index: [(table) => table.index, String],
  homes: [(table) => table.homes[0]?.domain, (_, table) => homesOf(table)],
  memory: [(table) => table.memory[0]?.node, (_, table) => memoryOf(table)],
  points: [(table) => table.points, count],
  traffic: [(table) => table.traffic_bytes_per_second, traffic],
  rate: [(table) => table.done_per_second, rate],
  queued: [(table) => table.queued, count],
  shed: [(table) => table.shed, count],
  wait99: [(table) => table.wait_p99_us, micros],
  service50: [(table) => table.service_p50_us, micros],
  service99: [(table) => table.service_p99_us, micros],
};

function showTables({ tables, tables_not_shown: others }) {
  const section = byId("tables");
  section.hidden = tables.length === 0;
  fill(section, { count: others ? `The busiest ${count(tables.length)} of ${count(tables.length + others)}.` : `${plural(tables.length, "table")}.` });
  keyed(section.querySelector("tbody"), [...tables].sort(compare), (table) => table.name, "row", fillRow);
  for (const button of section.querySelectorAll("[data-sort]")) {
    const header = button.parentElement;
    if (button.dataset.sort !== sorting.by) header.removeAttribute("aria-sort");
    else header.setAttribute("aria-sort", sorting.descending ? "descending" : "ascending");
  }
}

// What was not measured comes last either way; equals keep the order of their ids.
function compare(one, other) {
  const [a, b] = [one, other].map((table) => COLUMNS[sorting.by][0](table) ?? null);
  if (a === null || b === null) return (a === null) - (b === null) || one.id - other.id;
  const order = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
  return (sorting.descending ? -order : order) || one.id - other.id;
}

function homesOf(table) {
  const weights = table.homes.reduce((sum, home) => sum + home.weight, 0);
  const weight = (home) => (table.homes.length > 1 ? ` (${Math.round((home.weight / weights) * 100)} %)` : "");
  return table.homes.map((home) => `${home.domain}${weight(home)}`).join(", ") || NOTHING;
}

// Where the system does not say, or a table has no index, there is nothing.
function memoryOf(table) {
  const parts = table.memory.map((part) => `${part.node} (${memory(part.bytes)})`);
  const huge = table.huge_page_bytes ? `, ${memory(table.huge_page_bytes)} in huge pages` : "";
  return parts.length ? parts.join(", ") + huge : NOTHING;
}

function fillRow(row, table) {
  row.dataset.status = table.status;
  fill(row, { problem: table.status === "red" ? table.problem || "" : "" });
  for (const [slot, [value, write]] of Object.entries(COLUMNS)) fill(row, { [slot]: write(value(table), table) });
}

function onSort(event) {
  const by = event.target.closest("[data-sort]")?.dataset.sort;
  if (!by) return;
  // Figures are most often wanted from the top, words from A.
  const fresh = !["name", "index", "status", "homes"].includes(by);
  sorting.descending = sorting.by === by ? !sorting.descending : fresh;
  sorting.by = by;
  showTables(latest);
}

document.querySelector("thead").addEventListener("click", onSort);
document.addEventListener("visibilitychange", onVisibility);
poll();
