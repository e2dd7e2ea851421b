// Hits of each kind, with keyboard navigation.

import { codeBlock } from "./code.js";
import { copyButton } from "./copy.js";
import { el, isSite, link } from "./dom.js";
import { reading, shown } from "./fields.js";
import { marked, nodes, pieces, unitSpans } from "./marks.js";
import { tokens } from "./syntax.js";

const NAMED = /^([^:\n]{1,40}): ([^\n]+)$/; // a line of a product's text that names a value
const FILTERABLE = 256; // characters of the longest value that can be filtered by
const VARIANTS = 8; // that are shown of a product
const SHORT = 20; // characters of the longest value in a variant's name
const LONG = 900; // characters of prose that are shown at first

/** A hit of a corpus of that kind. `filter(field, value)` is called when somebody clicks a field's value. */
export function hitCard(hit, kind, filter) {
  const marks = unitSpans(hit.text, hit.highlights);
  const body = { code: codeBody, product: productBody }[kind] ?? referenceBody;
  return el(
    "li",
    {},
    el(
      "article",
      { class: `hit ${kind}`, tabindex: "-1", "data-hit": hit.id, "aria-label": `${hit.rank}. ${hit.title}` },
      el("header", {}, el("div", {}, trail(hit), title(hit, kind), details(hit, kind), origin(hit)), score(hit)),
      body(hit, marks, filter),
    ),
  );
}

function title(hit, kind) {
  const name = hit.title || hit.id;
  const dot = kind === "code" ? name.lastIndexOf(".") + 1 : 0;
  const parts = [dot > 0 && el("span", { class: "outer" }, name.slice(0, dot)), name.slice(dot)];
  return el("h3", {}, link(hit.location.url, { class: "title" }, parts));
}

function trail(hit) {
  const headings = Array.isArray(hit.fields.headings) ? hit.fields.headings : [];
  const names = [...headings, ...hit.context.filter((name) => !headings.includes(name))];
  if (!names.length || hit.fields.language) return null;
  return el("p", { class: "trail" }, names.map((name) => el("span", {}, name)));
}

function details(hit, kind) {
  if (kind === "product") return typeof hit.fields.price === "number" && el("p", { class: "price" }, price(hit.fields));
  return (kind === "code" || !isSite(hit.location.url)) && whereabouts(hit);
}

/** The corpus, where several were searched, and whether the file has changed since the build. */
function origin({ corpus, stale }) {
  if (!corpus && !stale) return null;
  const changed = stale && el("span", { class: "tag stale", title: "The file has changed since it was indexed." }, "changed since");
  return el("p", { class: "where origin" }, corpus && el("span", { class: "tag corpus" }, corpus), changed);
}

/** Path and lines; what is copied has the first line alone, as editors open it. */
function whereabouts({ location: { path, start_line: first, end_line: last }, fields }) {
  const lines = first ? `:${first}-${last ?? first}` : "";
  return el(
    "p",
    { class: "where" },
    path && el("span", { class: "path" }, path, lines),
    fields.language && el("span", { class: "tag" }, String(fields.language)),
    fields.role && fields.role !== "source" && el("span", { class: "tag" }, String(fields.role)),
    path && copyButton(first ? `${path}:${first}` : path, "Copy the path"),
  );
}

function score({ score: value, scores }) {
  const names = { dense: "meaning", lexical: "words", log: "earlier queries" };
  const parts = Object.entries(names).filter(([key]) => typeof scores[key] === "number");
  const title = parts.map(([key, name]) => `${name} ${scores[key].toFixed(2)}`).join(", ");
  return el(
    "p",
    { class: "score", title },
    el("span", { class: "unseen" }, "Score "),
    el("b", {}, value.toFixed(2)),
    el("span", { class: "bar", vars: { share: Math.min(1, value) } }),
    el("small", {}, title),
  );
}

// ---- bodies

function codeBody(hit, marks) {
  const whole = hit.id === hit.document_id; // a later passage starts somewhere below the document's first line
  return codeBlock(hit.text, marks, hit.fields.language, whole ? (hit.location.start_line ?? null) : null);
}

function productBody(hit, marks, filter) {
  const { prose, matched } = productText(hit.text, marks);
  const fields = Object.entries(hit.fields).filter(([name]) => name !== "price");
  fields.sort(([a], [b]) => a.includes(".") - b.includes(".")); // those that the product's kind adds come last
  return [
    prose.length > 0 && el("div", { class: "prose" }, prose),
    el("ul", { class: "fields", "aria-label": "Fields" }, fields.map((field) => fieldButtons(field, matched, filter))),
    hit.variants?.length > 0 && variants(hit),
  ];
}

/** The other variants of a product: their titles, or else what is short of what tells them apart. */
function variants(hit) {
  const item = (variant) => {
    const values = Object.values(variant.fields).filter((value) => typeof value === "string" && value.length <= SHORT);
    const name = variant.title === hit.title ? values.join(", ") || variant.id : variant.title;
    return el("li", {}, link(variant.url, {}, name));
  };
  const rest = hit.variants.length - VARIANTS;
  const items = [...hit.variants.slice(0, VARIANTS).map(item), rest > 0 && el("li", {}, `${rest} more`)];
  return el("ul", { class: "variants", "aria-label": "Variants" }, items);
}

function price({ price: amount, currency }) {
  const fixed = amount.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  return typeof currency === "string" ? `${fixed} ${currency}` : fixed;
}

/** The lines of a product's text: first as a paragraph, the others as points; `Name: value` at the end are fields. */
function productText(text, marks) {
  const rows = [];
  for (let from = 0; from <= text.length; ) {
    const end = text.indexOf("\n", from) < 0 ? text.length : text.indexOf("\n", from);
    rows.push([from, end]);
    from = end + 1;
  }
  const matched = new Set();
  const long = [];
  while (rows.length && NAMED.test(text.slice(...rows.at(-1)))) {
    const [from, end] = rows.pop();
    const line = text.slice(from, end);
    if ([...line.match(NAMED)[2]].length > FILTERABLE) long.unshift([from, end]);
    if (marks.some((mark) => mark.start < end && mark.end > from + 1)) matched.add(letters(line));
  }
  const [first, ...points] = [...rows, ...long].filter(([from, end]) => text.slice(from, end).trim());
  const item = ([from, end]) => el("li", {}, marked(text, marks, from, end));
  const prose = first ? [el("p", {}, marked(text, marks, ...first))] : [];
  if (points.length) prose.push(el("ul", {}, points.map(item)));
  return { prose, matched };
}

function fieldButtons([name, values], matched, filter) {
  const short = [values].flat().filter((value) => [...String(value)].length <= FILTERABLE);
  return short.map((value) => {
    const { label, unit } = reading(name, typeof value === "number");
    const text = shown(value, unit);
    const isMatch = matched.has(letters(label + text));
    const parts = [el("span", {}, label), isMatch ? el("mark", {}, text) : text];
    return el("li", {}, el("button", { type: "button", click: () => filter(name, value), title: "Only these" }, parts));
  });
}

function referenceBody(hit, marks) {
  const { text, fields } = hit;
  const signature = typeof fields.signature === "string" && text.startsWith(fields.signature) ? fields.signature : "";
  const start = signature.length;
  const coloured = tokens(signature, "python");
  const telling = signature !== hit.title && !hit.title.endsWith(`.${signature}`);
  return [
    telling && start > 0 && el("pre", { class: "signature" }, nodes(text, pieces(text, 0, start, coloured, marks))),
    prose(text, marks, start),
  ];
}

/** Paragraphs of text[from:] with its marks, folded where they are longer than `long` characters. */
export function prose(text, marks, from = 0, long = LONG) {
  const paragraphs = [];
  for (const match of text.slice(from).matchAll(/[^\n][\s\S]*?(?=\n\s*\n|$)/g)) {
    const start = from + match.index;
    const node = /^(?:>>>|\s{4}|\t)/.test(match[0]) ? "pre" : "p";
    paragraphs.push(el(node, {}, marked(text, marks, start, start + match[0].trimEnd().length)));
  }
  const box = el("div", { class: "prose" }, paragraphs);
  return text.length - from > long ? folded(box) : box;
}

function folded(box) {
  const button = el("button", { type: "button", class: "fold", "aria-expanded": "false" }, "Show all");
  box.classList.add("clamped");
  button.addEventListener("click", () => {
    const clamped = box.classList.toggle("clamped");
    button.setAttribute("aria-expanded", String(!clamped));
    button.textContent = clamped ? "Show all" : "Show less";
  });
  return el("div", {}, box, button);
}

/** The letters and digits of a text, in one case: `Weight: 2,700 g` and `weight 2700 g` are alike. */
const letters = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");

// ---- the keyboard

/** From `field` down into the hits of `list`, between them, and back; Enter opens a hit's page or unfolds it. */
export function walk(field, list) {
  const hits = () => [...list.querySelectorAll("article.hit")];
  field.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" || !hits().length) return;
    event.preventDefault();
    to(hits()[0]);
  });
  list.addEventListener("keydown", (event) => {
    const at = hits().indexOf(event.target.closest("article.hit"));
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (step(event, hits(), at, field)) event.preventDefault();
  });
}

function step(event, all, at, field) {
  if (event.key === "ArrowDown") to(all[Math.min(at + 1, all.length - 1)]);
  else if (event.key === "ArrowUp") to(all[at - 1] ?? field);
  else if (event.key === "Escape") to(field);
  else if (event.key === "Enter" && event.target === all[at]) all[at].querySelector("a.title, button.fold")?.click();
  else return false;
  return true;
}

function to(node) {
  node.focus({ preventScroll: true });
  node.scrollIntoView({ block: "nearest" });
}
