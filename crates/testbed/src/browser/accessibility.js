// Faults that a person with a screen reader, a keyboard or weak eyes would meet; an empty list
// where there are none.
(() => {
  const faults = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  if (!document.documentElement.lang) faults.push("no language");
  if (!document.title) faults.push("no title");
  if (all("main").length !== 1) faults.push("not one main");
  if (all("h1").length !== 1) faults.push("not one h1");
  let level = 1;
  for (const heading of all("h1, h2, h3, h4")) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) faults.push(`heading skips a level: ${heading.textContent}`);
    level = own;
  }
  const ids = all("[id]").map((it) => it.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) faults.push(`id twice: ${id}`);
  for (const field of all("input:not([type=hidden]), select"))
    if (!field.labels.length && !field.ariaLabel) faults.push(`no label: ${field.outerHTML}`);
  for (const it of all("a[href], button, summary"))
    if (!(it.textContent.trim() || it.ariaLabel)) faults.push(`no name: ${it.outerHTML}`);
  for (const table of all("table")) if (!table.caption) faults.push("table without caption");
  for (const nav of all("nav, section"))
    if (!nav.ariaLabel && !document.getElementById(nav.getAttribute("aria-labelledby")))
      faults.push(`landmark without a name: ${nav.className}`);
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    // Children of what is too wide are too wide as well: the first one is told.
    const widest = [...document.querySelectorAll('main *')].find((it) => it.getBoundingClientRect().right > width + 1);
    const named = widest ? `${widest.tagName.toLowerCase()}.${widest.className} ${widest.textContent.trim().slice(0, 60)}` : 'unknown';
    faults.push(`wider than the window: ${document.documentElement.scrollWidth} by ${named}`);
  }

  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).map((it) => it / 255).map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let it = element; it; it = it.parentElement) {
      const colour = getComputedStyle(it).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const seen = new Set();
  for (const it of all("body *")) {
    const hasText = [...it.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!hasText || it.closest(".vh, .skip, option") || !it.checkVisibility()) continue;
    const [one, other] = [light(getComputedStyle(it).color), light(behind(it))].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (other + 0.05);
    const words = `${it.tagName}.${it.className}`;
    if (contrast < 4.5 && !seen.has(words)) {
      seen.add(words);
      faults.push(`contrast ${contrast.toFixed(2)}: ${words} ${it.textContent.slice(0, 30)}`);
    }
  }
  return faults;
})();
