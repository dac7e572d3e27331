// Keeps a page up to date and shows times as "5 min ago". Without it pages show the state at the time
// they were loaded.
"use strict";

const main = document.querySelector("main[data-digest]");
const banner = document.getElementById("live");

function showStatus(text, link) {
  banner.textContent = text;
  if (link) {
    const anchor = document.createElement("a");
    anchor.href = link;
    anchor.textContent = "Sign in";
    banner.append(" ", anchor);
  }
}

// Relative times

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"]];

function relativeTime(seconds) {
  const distance = Math.abs(seconds);
  if (distance < 45) return seconds < 0 ? "in a moment" : "just now";
  const [size, name] = UNITS.find(([size]) => distance >= size) || UNITS[2];
  const text = `${Math.max(1, Math.round(distance / size))} ${name}`;
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

function showRelativeTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    time.title ||= time.textContent;
    time.textContent = relativeTime((Date.now() - Date.parse(time.dateTime)) / 1000);
  }
}

// Parts

const postponed = new Map();

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

// A form that the user is filling in is not replaced.
function isBusy(part) {
  const active = document.activeElement;
  const isTyping = active && part.contains(active) && active.matches("input, select, textarea");
  return isTyping || Boolean(part.querySelector("details[open]"));
}

function replace(id, html) {
  const old = document.getElementById(id);
  if (!old) return false;
  if (isBusy(old)) {
    postponed.set(id, html);
    return true;
  }
  postponed.delete(id);
  const fresh = parse(html);
  const focused = old.contains(document.activeElement) && document.activeElement.id;
  showRelativeTimes(fresh);
  old.replaceWith(fresh);
  if (focused) document.getElementById(focused)?.focus();
  return true;
}

function replacePostponed() {
  for (const [id, html] of [...postponed]) replace(id, html);
}

function arrangeRows(order, set) {
  const rows = document.getElementById("rows");
  const wanted = new Set(order);
  for (const row of [...rows.children]) if (!wanted.has(row.id)) row.remove();
  let next = rows.firstElementChild;
  for (const id of order) {
    let row = document.getElementById(id);
    if (!row && set[id]) {
      row = parse(set[id]);
      showRelativeTimes(row);
    }
    if (!row) continue;
    if (row === next) next = next.nextElementSibling;
    else rows.insertBefore(row, next);
  }
}

function applyChange({ set, order }) {
  if (order) arrangeRows(order, set);
  let isComplete = true;
  for (const [id, html] of Object.entries(set)) isComplete = replace(id, html) && isComplete;
  // An environment was added or removed: the frame of the page differs.
  if (!isComplete) location.reload();
}

// The stream

let digest = main?.dataset.digest;

async function isSignedOut() {
  try {
    const answer = await fetch(location.href, { method: "HEAD" });
    if (answer.redirected && new URL(answer.url).pathname === "/login") {
      showStatus("Your session has ended.", answer.url);
      return true;
    }
  } catch {
    // The server does not answer: the banner says so already.
  }
  return false;
}

let stream;

function stop() {
  stream?.close();
  stream = undefined;
}

// A hidden page keeps no connection: browsers have few of them per server.
function follow() {
  if (stream || document.hidden) return;
  const page = location.pathname + location.search;
  stream = new EventSource(`/live?${new URLSearchParams({ page, digest })}`);
  stream.onopen = () => showStatus("");
  stream.addEventListener("change", (event) => {
    digest = event.lastEventId;
    applyChange(JSON.parse(event.data));
  });
  stream.onerror = async () => {
    stop();
    showStatus("Connection lost: this page may be out of date. Reconnecting…");
    if (!(await isSignedOut())) setTimeout(follow, 1500);
  };
}

// The create form: the manifest is updated while typing.

const draft = document.querySelector("form[data-preview]");
let inputCount = 0;

async function preview(turn) {
  const body = new URLSearchParams(new FormData(draft));
  const answer = await fetch(draft.dataset.preview, { method: "POST", body }).catch(() => undefined);
  if (!answer?.ok) return showStatus("The manifest may be out of date: the server does not answer. Your input is kept.");
  const { set } = await answer.json();
  if (turn !== inputCount) return;
  showStatus("");
  for (const [id, html] of Object.entries(set)) replace(id, html);
}

draft?.addEventListener("input", () => {
  const turn = ++inputCount;
  setTimeout(() => turn === inputCount && preview(turn), 150);
});

showRelativeTimes(document);
setInterval(() => showRelativeTimes(document), 30000);
document.addEventListener("focusout", () => setTimeout(replacePostponed));
document.addEventListener("toggle", () => setTimeout(replacePostponed), true);
document.getElementById("sort")?.addEventListener("change", (event) => event.target.form.requestSubmit());
document.addEventListener("keydown", (event) => {
  const search = document.getElementById("q");
  if (event.key === "/" && search && !event.target.matches("input, select, textarea")) {
    event.preventDefault();
    search.focus();
  }
});
if (main) {
  follow();
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : follow()));
  addEventListener("pagehide", stop);
  addEventListener("pageshow", follow);
}
