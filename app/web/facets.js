// Facets of the best hits: values to click, ranges to type.

import { el, shown, words } from "./dom.js";

const FACETS = 8;
const VALUES = 6;
const HIDDEN = new Set(["signature", "name", "path", "page", "headings"]);

/** `filter` is that of the request; `changed` gets the new one. */
export function facets(hits, filter, changed) {
  const drawn = [...collected(hits)].map(([name, values]) => facet(name, values, filter, changed)).filter(Boolean);
  drawn.sort((a, b) => b.weight - a.weight);
  return drawn.slice(0, FACETS).map(({ node }) => node);
}

/** The conditions in force, each with a button that lifts it. */
export function conditions(filter, changed) {
  return Object.entries(filter).map(([name, condition]) => {
    const lift = () => changed(Object.fromEntries(Object.entries(filter).filter(([other]) => other !== name)));
    const label = [el("span", {}, words(name)), conditionText(condition), el("i", { "aria-hidden": "true" }, "×")];
    return el("button", { type: "button", class: "condition", click: lift, "aria-label": `Without ${name}` }, label);
  });
}

function conditionText(condition) {
  if (Array.isArray(condition)) return condition.map(shown).join(" or ");
  if (condition === null || typeof condition !== "object") return shown(condition);
  const { gte, lte, not } = condition;
  if (not !== undefined) return `not ${conditionText(not)}`;
  if (gte !== undefined && lte !== undefined) return `${shown(gte)} to ${shown(lte)}`;
  return gte !== undefined ? `from ${shown(gte)}` : `up to ${shown(lte)}`;
}

/** Field -> its values among the hits -> how many hits have each. */
function collected(hits) {
  const fields = new Map();
  for (const hit of hits) {
    for (const [name, values] of Object.entries(hit.fields)) {
      if (HIDDEN.has(name)) continue;
      const counts = fields.get(name) ?? fields.set(name, new Map()).get(name);
      for (const value of new Set([values].flat())) counts.set(value, (counts.get(value) ?? 0) + 1);
    }
  }
  return fields;
}

function facet(name, counts, filter, changed) {
  if (Object.hasOwn(filter, name) || counts.size < 2) return null;
  const values = [...counts.keys()];
  const hits = [...counts.values()].reduce((sum, count) => sum + count, 0);
  if (values.every((value) => typeof value === "number") && counts.size > VALUES) {
    return { weight: hits, node: range(name, values, (condition) => changed({ ...filter, [name]: condition })) };
  }
  if (counts.size > 0.7 * hits || values.some((value) => String(value).length > 60)) return null;
  const choose = (value) => changed({ ...filter, [name]: value });
  return { weight: hits, node: choices(name, counts, choose) };
}

function choices(name, counts, choose) {
  const common = [...counts].sort((a, b) => b[1] - a[1]).slice(0, VALUES);
  const item = ([value, count]) => {
    const parts = [el("span", {}, shown(value)), el("small", {}, String(count))];
    return el("li", {}, el("button", { type: "button", click: () => choose(value) }, parts));
  };
  return el("section", { class: "facet" }, el("h3", {}, words(name)), el("ul", {}, common.map(item)));
}

function range(name, values, choose) {
  const input = (label, placeholder) =>
    el("input", { type: "number", step: "any", "aria-label": `${words(name)} ${label}`, placeholder });
  const low = input("from", Math.min(...values));
  const high = input("to", Math.max(...values));
  const dash = el("span", { "aria-hidden": "true" }, "–");
  const form = el("form", {}, low, dash, high, el("button", { type: "submit" }, "Set"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const condition = {};
    if (low.value !== "") condition.gte = low.valueAsNumber;
    if (high.value !== "") condition.lte = high.valueAsNumber;
    if (Object.keys(condition).length) choose(condition);
  });
  return el("section", { class: "facet" }, el("h3", {}, words(name)), form);
}
