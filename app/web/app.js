// The frame: view switching, the API key, the theme, and global keyboard shortcuts.

import { ask } from "./ask.js";
import { hasKey, useKey } from "./api.js";
import { classify } from "./classify.js";
import { corpora } from "./corpora.js";
import { el } from "./dom.js";
import { words } from "./fields.js";
import { read } from "./address.js";
import { forget, leave } from "./results.js";
import { search } from "./search.js";

const VIEWS = { search, ask, classify, corpora };
const byId = (id) => document.getElementById(id);
const main = byId("main");
const views = new Map(); // those that were shown, by name
let current = null;

function view(name) {
  if (!views.has(name)) {
    const root = el("div", { class: `view wide ${name}`, hidden: true });
    main.append(root);
    views.set(name, { root, ...VIEWS[name](root) });
  }
  return views.get(name);
}

function show() {
  leave();
  const { view: requested, values } = read();
  const name = Object.hasOwn(VIEWS, requested) ? requested : "search";
  const before = current;
  const isNew = history.state === null; // else somebody came back to it
  current = view(name);
  for (const { root } of views.values()) root.hidden = root !== current.root;
  markLinks(name);
  const subject = values.query ?? values.question ?? "";
  const title = subject.slice(0, 60) || (name === "search" ? "" : words(name));
  document.title = title ? `${title} · Purlin` : "Purlin";
  current.show(values);
  const isNarrowing = document.activeElement.closest(".facets") !== null; // who ticks one value may tick more
  if (isNew && !isNarrowing) window.scrollTo(0, 0);
  const desk = matchMedia("(hover: hover)").matches; // elsewhere focus would open a keyboard on the screen
  if (before === null && !subject && desk) current.field?.focus({ preventScroll: true });
}

/** The link of the view shown is marked, and keeps its address, so that coming back finds what was there. */
function markLinks(name) {
  for (const link of byId("views").children) {
    link.removeAttribute("aria-current");
    if (read(link.hash).view !== name) continue;
    link.setAttribute("aria-current", "page");
    if (location.hash) link.setAttribute("href", location.hash);
  }
}

// ---- dialogs

function dialog(name, opened, submitted) {
  const node = byId(`${name}-dialog`);
  byId(`${name}-button`).addEventListener("click", () => (opened(), node.showModal()));
  byId(`${name}-form`).addEventListener("submit", (event) => {
    event.preventDefault();
    if (submitted()) node.close();
  });
  node.addEventListener("click", (event) => event.target === node && node.close());
  return node;
}

const keyDialog = dialog("key", emptyKeyForm, () => setKey(byId("key-field").value.trim()));
dialog("help", () => null, () => true);
byId("key-forget").addEventListener("click", () => setKey("") && keyDialog.close());

function emptyKeyForm() {
  byId("key-field").value = "";
  byId("key-wrong").textContent = "";
}

function setKey(key) {
  if (/[^\x21-\x7e]/.test(key)) {
    byId("key-wrong").textContent = "A key has no spaces, and only letters, digits and signs of ASCII.";
    return false;
  }
  useKey(key);
  markKeyButton();
  forget();
  show();
  return true;
}

const markKeyButton = () => byId("key-button").classList.toggle("on", hasKey());

// ---- the theme

byId("theme-button").addEventListener("click", () => {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const shown = document.documentElement.dataset.theme ?? system;
  const theme = shown === "dark" ? "light" : "dark";
  if (theme === system) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === system) localStorage.removeItem("purlin-theme");
    else localStorage.setItem("purlin-theme", theme);
  } catch {
    // Storage is off: the choice lasts as long as the page.
  }
});

// ---- the keyboard

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest("input:not([type=radio], [type=checkbox]), textarea, select");
  const actions = typing ? { Escape: () => typing.blur() } : { "/": toField, "?": () => byId("help-button").click() };
  if (!Object.hasOwn(actions, event.key)) return;
  event.preventDefault();
  actions[event.key]();
});

/** To the field of this view, or of the search where it has none. */
function toField() {
  if (!current.field) {
    history.pushState(null, "", "#search");
    show();
  }
  current.field.focus();
}

byId("skip").addEventListener("click", () => main.focus());
window.addEventListener("hashchange", show);
window.addEventListener("noted", () => markLinks(read().view));
markKeyButton();
show();
