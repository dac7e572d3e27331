// The command palette: goes to pages, pipelines, clusters and decisions, and opens the forms of this page.
// It uses functions of sluice.js, which is loaded before it.
"use strict";

let palette;

function pagesMatching(text) {
  const links = [...document.querySelectorAll(".top nav a")];
  const pages = links.map((it) => ({ title: it.firstChild.textContent.trim(), words: it.dataset.find, hint: "page", address: it.getAttribute("href") }));
  return matching(pages, text);
}

function matching(all, text) {
  const words = text.toLowerCase().split(/\s+/);
  return all.filter((it) => words.every((word) => `${it.title} ${it.words || ""}`.toLowerCase().includes(word)));
}

// What the menu of this page offers; choosing it opens its form.
function actionsMatching(text) {
  if (!text.trim()) return [];
  const all = [...document.querySelectorAll("#actions .group details")].map((form) => {
    const [group, name] = [form.closest(".group").querySelector("h2"), form.querySelector("summary")];
    return { title: `${group.textContent}: ${name.textContent}`, hint: "action on this page", address: "#actions", form: form.id };
  });
  return matching(all, text);
}

function openForm(id) {
  const form = document.getElementById(id);
  if (!form) return;
  palette.close();
  form.closest("details.menu").open = true;
  form.open = true;
  (form.querySelector("input:not([type=hidden]), select, button") || form.querySelector("summary")).focus();
}

async function search(text) {
  const answer = await fetch(`/find?${new URLSearchParams({ q: text })}`).catch(() => undefined);
  return answer?.ok ? answer.json() : [];
}

function showResults(list, results) {
  const items = results.map((it, at) => {
    const link = element("a", { href: it.address, id: `found-${at}` }, element("span", { textContent: it.title }), element("small", { textContent: it.hint }));
    link.setAttribute("role", "option");
    link.setAttribute("aria-selected", at === 0);
    link.tabIndex = -1;
    if (it.form)
      link.addEventListener("click", (event) => {
        event.preventDefault();
        event.stopPropagation();
        openForm(it.form);
      });
    // Something on this page: the dialog gives the focus back, then the browser moves it there.
    else link.addEventListener("click", () => link.hash && link.pathname === location.pathname && palette.close());
    const item = element("li", {}, link);
    item.setAttribute("role", "presentation");
    return item;
  });
  list.replaceChildren(...items);
  if (!items.length) list.append(element("li", { className: "none", textContent: "Nothing matches." }));
}

function select(list, input, step) {
  const links = [...list.querySelectorAll("a")];
  if (!links.length) return;
  const now = links.findIndex((it) => it.ariaSelected === "true");
  const next = (now + step + links.length) % links.length;
  links.forEach((it, at) => it.setAttribute("aria-selected", at === next));
  links[next].scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", links[next].id);
}

function makePalette() {
  const list = element("ul", { id: "found" });
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Results");
  const input = element("input", { type: "text", placeholder: "Go to a pipeline, a cluster or a page…", autocomplete: "off", spellcheck: false });
  for (const [name, value] of [["role", "combobox"], ["aria-label", "Go to"], ["aria-controls", "found"], ["aria-expanded", "true"], ["aria-autocomplete", "list"]])
    input.setAttribute(name, value);
  palette = element("dialog", { className: "palette" }, input, list);
  palette.setAttribute("aria-label", "Command palette");
  let turn = 0;
  const update = async () => {
    const own = ++turn;
    const found = [...pagesMatching(input.value), ...actionsMatching(input.value), ...(await search(input.value))];
    if (own === turn) showResults(list, found);
  };
  input.addEventListener("input", update);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      select(list, input, step);
    } else if (event.key === "Enter") {
      event.preventDefault();
      list.querySelector("[aria-selected=true]")?.click();
    }
  });
  palette.addEventListener("click", (event) => event.target === palette && palette.close());
  document.body.append(palette);
  return () => {
    input.value = "";
    palette.showModal();
    update();
  };
}

let openPalette = () => {
  openPalette = makePalette();
  openPalette();
};

document.getElementById("find")?.addEventListener("click", (event) => {
  event.preventDefault();
  openPalette();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "k" || !(event.ctrlKey || event.metaKey) || !document.getElementById("find")) return;
  event.preventDefault();
  openPalette();
});
