// Keeps a page up to date and words moments as "5 min ago". Without it pages say the same, as of
// when they were loaded.
"use strict";

const main = document.querySelector("main[data-seen]");
const banner = document.getElementById("live");

function say(text, link) {
  banner.textContent = text;
  if (link) {
    const anchor = document.createElement("a");
    anchor.href = link;
    anchor.textContent = "Sign in";
    banner.append(" ", anchor);
  }
}

// Moments

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"]];

function ago(seconds) {
  const distance = Math.abs(seconds);
  if (distance < 45) return seconds < 0 ? "in a moment" : "just now";
  const [size, name] = UNITS.find(([size]) => distance >= size) || UNITS[2];
  const text = `${Math.max(1, Math.round(distance / size))} ${name}`;
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

function word(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    time.title ||= time.textContent;
    time.textContent = ago((Date.now() - Date.parse(time.dateTime)) / 1000);
  }
}

// Parts

const postponed = new Map();

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

// A form that somebody is filling in is not taken away from under their hands.
function isBusy(part) {
  const held = document.activeElement;
  const isTyping = held && part.contains(held) && held.matches("input, select, textarea");
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
  word(fresh);
  old.replaceWith(fresh);
  if (focused) document.getElementById(focused)?.focus();
  return true;
}

function catchUp() {
  for (const [id, html] of [...postponed]) replace(id, html);
}

function arrange(order, set) {
  const rows = document.getElementById("rows");
  const wanted = new Set(order);
  for (const row of [...rows.children]) if (!wanted.has(row.id)) row.remove();
  let next = rows.firstElementChild;
  for (const id of order) {
    let row = document.getElementById(id);
    if (!row && set[id]) {
      row = parse(set[id]);
      word(row);
    }
    if (!row) continue;
    if (row === next) next = next.nextElementSibling;
    else rows.insertBefore(row, next);
  }
}

function change({ set, order }) {
  if (order) arrange(order, set);
  let isWhole = true;
  for (const [id, html] of Object.entries(set)) isWhole = replace(id, html) && isWhole;
  // An environment more or less: the page itself is another one.
  if (!isWhole) location.reload();
}

// The stream

let seen = main?.dataset.seen;

async function explainSilence() {
  try {
    const answer = await fetch(location.href, { method: "HEAD" });
    if (answer.redirected && new URL(answer.url).pathname === "/login") {
      say("Your session has ended.", answer.url);
      return true;
    }
  } catch {
    // Nobody answers: that is what the banner says already.
  }
  return false;
}

let stream;

function stop() {
  stream?.close();
  stream = undefined;
}

// A page that nobody sees keeps no connection: browsers have few of them per server.
function follow() {
  if (stream || document.hidden) return;
  const page = location.pathname + location.search;
  stream = new EventSource(`/live?${new URLSearchParams({ page, seen })}`);
  stream.onopen = () => say("");
  stream.addEventListener("change", (event) => {
    seen = event.lastEventId;
    change(JSON.parse(event.data));
  });
  stream.onerror = async () => {
    stop();
    say("Connection lost: what you see may be old. Trying again…");
    if (!(await explainSilence())) setTimeout(follow, 1500);
  };
}

// A draft: the manifest follows what is typed.

const draft = document.querySelector("form[data-preview]");
let typed = 0;

async function preview(turn) {
  const body = new URLSearchParams(new FormData(draft));
  const answer = await fetch(draft.dataset.preview, { method: "POST", body }).catch(() => undefined);
  if (!answer?.ok) return say("The manifest shown may be old: nobody answers. Your text is kept.");
  const { set } = await answer.json();
  if (turn !== typed) return;
  say("");
  for (const [id, html] of Object.entries(set)) replace(id, html);
}

draft?.addEventListener("input", () => {
  const turn = ++typed;
  setTimeout(() => turn === typed && preview(turn), 150);
});

word(document);
setInterval(() => word(document), 30000);
document.addEventListener("focusout", () => setTimeout(catchUp));
document.addEventListener("toggle", () => setTimeout(catchUp), true);
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
