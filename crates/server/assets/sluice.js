// Keeps a page up to date, and moves the release on its way. Without it pages show the state at the time
// they were loaded.
"use strict";

document.documentElement.classList.add("js");
const main = document.querySelector("main[data-digest]");
const banner = document.getElementById("live");
const isStill = matchMedia("(prefers-reduced-motion: reduce)");

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function showStatus(text, link) {
  banner.textContent = text;
  if (link) banner.append(" ", element("a", { href: link, textContent: "Sign in" }));
}

// Relative times: "5 min ago", how long something has lasted, and how long is left.

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"]];

function duration(seconds) {
  const [size, name] = UNITS.find(([size]) => seconds >= size) || UNITS[2];
  return `${Math.max(1, Math.round(seconds / size))} ${name}`;
}

function relativeTime(time, seconds) {
  const distance = Math.abs(seconds);
  if ("left" in time.dataset) return seconds < 0 ? `${duration(distance)} left` : "";
  if (distance < 45) return seconds < 0 ? "in a moment" : "just now";
  if ("since" in time.dataset) return `for ${duration(distance)}`;
  return seconds < 0 ? `in ${duration(distance)}` : `${duration(distance)} ago`;
}

function showRelativeTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    time.title ||= time.textContent;
    time.textContent = relativeTime(time, (Date.now() - Date.parse(time.dateTime)) / 1000);
  }
}

// How many promotions await approval, in the title of the tab

function showCount() {
  const count = Number(document.getElementById("waiting")?.dataset.count || 0);
  document.title = (count ? `(${count}) ` : "") + document.title.replace(/^\(\d+\) /, "");
}

// Parts

// What could not be shown yet, by the id of the part; nothing for a row that is to be removed.
const postponed = new Map();

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

// A form that the user is filling in is not replaced, nor a button while it is being pressed.
let pressed;

function isBusy(part) {
  const active = document.activeElement;
  const isTyping = active && part.contains(active) && active.matches("input, select, textarea");
  return isTyping || (pressed && part.contains(pressed)) || Boolean(part.querySelector("details[open] > form, form details[open]"));
}

function keepOpen(old, fresh) {
  for (const open of old.querySelectorAll("details[open][id]")) {
    const same = fresh.querySelector(`#${CSS.escape(open.id)}`);
    if (same) same.open = true;
  }
}

// Decisions: one that nobody can take any more is not replaced while a note is being typed, but cannot be
// submitted either.

function decisions(part) {
  return [...part.querySelectorAll("form[data-decision]")];
}

function noteOf(form) {
  return form?.querySelector("[name=note]");
}

function samePromotion(form, part) {
  return part && decisions(part).find((it) => it.dataset.decision === form.dataset.decision);
}

// An approval names the change, so that another change is another decision. At first it is not known.
function sameDecision(form, part) {
  const same = samePromotion(form, part);
  return same && (!form.dataset.change || form.dataset.change === same.dataset.change) ? same : undefined;
}

function hasOutdatedNote(old, fresh) {
  return decisions(old).some((form) => noteOf(form)?.value && !sameDecision(form, fresh));
}

function keepNotes(old, fresh) {
  for (const form of decisions(old)) {
    const [from, to] = [noteOf(form), noteOf(sameDecision(form, fresh))];
    if (from && to) to.value = from.value;
  }
}

function outdatedText(form, fresh) {
  if (samePromotion(form, fresh)) return "This promotion changes something else than what is shown here. ";
  const now = fresh?.querySelector("h2")?.textContent;
  return now ? `This decision is out of date. Current: “${now}” ` : "This decision is out of date: the promotion does not await approval any more. ";
}

function markOutdated(id, old, fresh) {
  for (const form of decisions(old)) {
    if (sameDecision(form, fresh)) continue;
    for (const button of form.querySelectorAll("button")) {
      button.disabled = true;
      delete button.dataset.off;
    }
    form.querySelector(".outdated")?.remove();
    const show = element("button", { type: "button", textContent: fresh ? "Show what is current" : "Close" });
    show.addEventListener("click", () => showCurrent(id, noteOf(form).value));
    const notice = element("p", { className: "notice warn outdated" }, outdatedText(form, fresh), show);
    notice.setAttribute("role", "alert");
    form.prepend(notice);
  }
}

// Shows what was postponed, with the note in the form of the decision that is due now.
function showCurrent(id, note) {
  const html = postponed.get(id);
  const old = document.getElementById(id);
  if (html === undefined) return old.remove();
  const fresh = parse(html);
  const field = noteOf(decisions(fresh)[0]);
  if (field) field.value = note;
  put(id, old, fresh);
  (field || fresh.querySelector("h2, a"))?.focus();
}

function put(id, old, fresh) {
  postponed.delete(id);
  const focused = old.contains(document.activeElement) && document.activeElement.id;
  keepOpen(old, fresh);
  prepare(fresh);
  old.replaceWith(fresh);
  if (focused) document.getElementById(focused)?.focus();
}

function replace(id, html) {
  const old = document.getElementById(id);
  if (!old) return false;
  const fresh = parse(html);
  if (isBusy(old) || hasOutdatedNote(old, fresh)) {
    postponed.set(id, html);
    markOutdated(id, old, fresh);
    return true;
  }
  keepNotes(old, fresh);
  put(id, old, fresh);
  return true;
}

function remove(row) {
  if (!isBusy(row) && !hasOutdatedNote(row)) return row.remove();
  postponed.set(row.id, undefined);
  markOutdated(row.id, row);
}

function replacePostponed() {
  for (const [id, html] of [...postponed]) {
    const old = document.getElementById(id);
    if (!old) postponed.delete(id);
    else if (html === undefined) remove(old);
    else replace(id, html);
  }
}

function arrangeRows(order, set) {
  const rows = document.getElementById("rows");
  if (!rows) return;
  const wanted = new Set(order);
  for (const row of [...rows.children]) if (!wanted.has(row.id)) remove(row);
  let next = rows.firstElementChild;
  for (const id of order) {
    while (next && !wanted.has(next.id)) next = next.nextElementSibling;
    let row = document.getElementById(id);
    if (!row && set[id]) {
      row = parse(set[id]);
      prepare(row);
    }
    if (!row) continue;
    if (row === next) next = next.nextElementSibling;
    else rows.insertBefore(row, next);
  }
}

// What has the same name before and after a change moves from the old place to the new one.
function places() {
  const all = [...document.querySelectorAll("[data-move]")];
  return new Map(all.map((it) => [it.dataset.move, it.getBoundingClientRect()]));
}

function moveFrom(before) {
  if (isStill.matches) return;
  for (const it of document.querySelectorAll("[data-move]")) {
    const [from, to] = [before.get(it.dataset.move), it.getBoundingClientRect()];
    if (!from) it.animate([{ opacity: 0, scale: 0.6 }, { opacity: 1, scale: 1 }], 400);
    else if (from.x !== to.x || from.y !== to.y)
      it.animate([{ translate: `${from.x - to.x}px ${from.y - to.y}px` }, { translate: "0 0" }], { duration: 700, easing: "ease-in-out" });
  }
}

function applyChange({ set, order }) {
  const before = places();
  if (order) arrangeRows(order, set);
  let isComplete = true;
  for (const [id, html] of Object.entries(set)) isComplete = replace(id, html) && isComplete;
  // An environment was added or removed: the frame of the page differs.
  if (!isComplete) return location.reload();
  moveFrom(before);
  showCount();
  endMessages();
}

// What an action led to, or why it was refused, is not true for long once something has changed. It stays for as
// long as people need to read it.

function endMessages() {
  for (const message of document.querySelectorAll("main > .notice[role]")) {
    const readingTime = message.matches(".bad") ? 20000 : 8000;
    setTimeout(() => message.remove(), Math.max(0, readingTime - performance.now()));
  }
}

// Buttons that act are off while the connection is lost: the page may be out of date.

function setActing(root, isPossible) {
  for (const button of root.querySelectorAll("main form[method=post] button, form[method=post] button")) {
    if (!isPossible && !button.disabled) {
      button.disabled = true;
      button.dataset.off = "";
    } else if (isPossible && "off" in button.dataset) {
      button.disabled = false;
      delete button.dataset.off;
    }
  }
}

let isConnected = true;

function setConnected(connected) {
  isConnected = connected;
  setActing(document, connected);
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
  stream.onopen = () => {
    showStatus("");
    setConnected(true);
  };
  stream.addEventListener("change", (event) => {
    digest = event.lastEventId;
    applyChange(JSON.parse(event.data));
  });
  stream.onerror = async () => {
    stop();
    setConnected(false);
    showStatus("Connection lost: this page may be out of date. Reconnecting…");
    if (!(await isSignedOut())) setTimeout(follow, 1500);
  };
}

// The filter of the list: results appear while typing, and the address keeps them.

const filter = document.querySelector("form[data-live]");
let filterTurn = 0;

function applyFilter() {
  const fields = [...new FormData(filter)].filter(([, value]) => value);
  const query = new URLSearchParams(fields).toString();
  history.replaceState(null, "", filter.action + (query ? `?${query}` : ""));
  digest = "";
  stop();
  follow();
}

filter?.addEventListener("input", () => {
  const turn = ++filterTurn;
  setTimeout(() => turn === filterTurn && applyFilter(), 180);
});
filter?.addEventListener("submit", (event) => {
  event.preventDefault();
  applyFilter();
});

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

// Copy buttons

function addCopyButtons(root) {
  if (!navigator.clipboard) return;
  for (const source of root.querySelectorAll(".source")) {
    const button = element("button", { className: "quiet copy", type: "button", textContent: "Copy" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(source.querySelector("pre").textContent);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    source.append(button);
  }
}

// All pages

function prepare(root) {
  showRelativeTimes(root);
  if (!isConnected) setActing(root, false);
}

// A menu closes on Escape and when something else is clicked.
function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(except)) menu.open = false;
}

showRelativeTimes(document);
showCount();
addCopyButtons(document);
setInterval(() => showRelativeTimes(document), 30000);
document.addEventListener("focusout", () => setTimeout(replacePostponed));
document.addEventListener("pointerdown", (event) => (pressed = event.target));
for (const ended of ["pointerup", "pointercancel"])
  document.addEventListener(ended, () => {
    setTimeout(() => {
      pressed = undefined;
      replacePostponed();
    });
  });
document.addEventListener("toggle", () => setTimeout(replacePostponed), true);
// A form that opens at the edge of a menu would be out of sight.
document.addEventListener("toggle", ({ target }) => target.open && target.matches(".panel details") && target.scrollIntoView({ block: "nearest" }), true);
document.addEventListener("click", (event) => closeMenus(event.target));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    const menu = document.querySelector("details.menu[open]");
    menu?.querySelector("summary").focus();
    closeMenus();
  } else if (event.key === "/" && !event.target.matches("input, select, textarea")) {
    const field = document.getElementById("q");
    if (!field) return;
    event.preventDefault();
    field.focus();
  }
});
if (main) {
  follow();
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : follow()));
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => {
    // A page from the history shows what was true when it was left.
    if (event.persisted) document.querySelectorAll("main > .notice[role]").forEach((it) => it.remove());
    follow();
  });
}
