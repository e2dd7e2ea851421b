// Facets of the best hits, values to tick and ranges to type, and the conditions in force.
// Values of one field are alternatives, conditions on several fields hold at once.

import { el } from "./dom.js";
import { reading, shown } from "./fields.js";

const FACETS = 8;
const VALUES = 6; // of a facet, that are shown at first
const HIDDEN = new Set(["signature", "name", "path", "page", "headings"]);

/**
 * `beside` has for each field of `filter` the hits that pass all other conditions: in them its values are counted.
 * `change(field, update)` is called to put `update(condition)` in place of a field's condition; undefined lifts it.
 */
export function facets(hits, beside, filter, change) {
  const fields = collected(hits);
  for (const [name, wider] of beside) fields.set(name, collected(wider).get(name) ?? new Map());
  const isUsed = (name) => Object.hasOwn(filter, name);

  const drawn = [...fields].flatMap(([name, values]) => {
    if (HIDDEN.has(name)) return [];
    const rare = listed(filter[name]).filter((value) => !values.has(key(value)));
    const counts = [...values.values(), ...rare.map((value) => ({ value, count: 0 }))];
    const having = counts.reduce((sum, { count }) => sum + count, 0);
    const node = facet(name, counts, having, filter[name], change);
    return node ? [{ name, share: having / (beside.get(name) ?? hits).length, node }] : [];
  });
  drawn.sort((a, b) => b.share - a.share || a.name.includes(".") - b.name.includes("."));
  return drawn.filter(({ name }, i) => i < FACETS || isUsed(name)).map(({ node }) => node);
}

/** The conditions in force, each with a button that lifts it. */
export function conditions(filter, change, clear) {
  const buttons = Object.entries(filter).flatMap(([name, condition]) => {
    const values = isValue(condition) ? listed(condition) : [condition];
    const without = (value) => (isValue(condition) ? toggled(value) : () => undefined);
    return values.map((value) => conditionButton(name, value, () => change(name, without(value))));
  });
  const all = buttons.length > 1 && el("button", { type: "button", class: "quiet clear", click: clear }, "Clear all");
  return [buttons, all];
}

function conditionButton(name, condition, lift) {
  const { label, unit } = reading(name, isNumeric(condition));
  const without = el("span", { class: "unseen" }, "Without ");
  const cross = el("i", { "aria-hidden": "true" }, "×");
  const text = el("b", {}, conditionText(condition, unit));
  return el("button", { type: "button", class: "condition", click: lift }, without, el("span", {}, label), text, cross);
}

function isNumeric(condition) {
  if (isValue(condition)) return listed(condition).every((value) => typeof value === "number");
  return condition.not === undefined || isNumeric(condition.not);
}

function conditionText(condition, unit) {
  if (Array.isArray(condition)) return condition.map((value) => shown(value, unit)).join(" or ");
  if (isValue(condition)) return shown(condition, unit);
  const { gte, lte, not } = condition;
  if (not !== undefined) return `not ${conditionText(not, unit)}`;
  if (gte !== undefined && lte !== undefined) return `${shown(gte)} to ${shown(lte, unit)}`;
  return gte !== undefined ? `from ${shown(gte, unit)}` : `up to ${shown(lte, unit)}`;
}

/** Whether a condition is a value, a list of them or none: not a range or an exclusion. */
const isValue = (condition) => Array.isArray(condition) || condition === null || typeof condition !== "object";

const listed = (condition) => (condition !== undefined && isValue(condition) ? [condition].flat() : []);

/** What becomes of a field's condition when a value is ticked or no longer ticked. */
function toggled(value) {
  return (condition) => {
    const values = listed(condition);
    const without = values.filter((each) => key(each) !== key(value));
    const next = without.length < values.length ? without : [...values, value];
    return next.length > 1 ? next : next[0];
  };
}

/** Like the server, which finds `SONY` where `Sony` is asked for. */
const key = (value) => String(value).trim().toLowerCase();

/** Field -> its values among the hits -> {value, count}: the value as it is written first, and how many hits have it. */
function collected(hits) {
  const fields = new Map();
  for (const hit of hits) {
    for (const [name, values] of Object.entries(hit.fields)) {
      const counts = fields.get(name) ?? fields.set(name, new Map()).get(name);
      for (const [folded, value] of new Map([values].flat().map((each) => [key(each), each]))) {
        const entry = counts.get(folded) ?? { value, count: 0 };
        counts.set(folded, { ...entry, count: entry.count + 1 });
      }
    }
  }
  return fields;
}

/** What is worth showing of a field: not what all hits share, nor what nearly every hit has for itself. */
function facet(name, counts, having, condition, change) {
  if (!counts.length) return null;
  const values = counts.map(({ value }) => value);
  const field = { name, condition, ...reading(name, isNumeric(values)) };
  const isRange = !isValue(condition) && condition.not === undefined;
  const isTicked = listed(condition).length > 0;
  if (isNumeric(values) && !isTicked && (isRange || values.length > VALUES)) return range(field, values, change);
  if (condition === undefined) {
    const isTelling = counts.length > 1 && counts.length <= 0.7 * having;
    if (!isTelling || values.some((value) => String(value).length > 60)) return null;
  }
  return choices(field, counts, change);
}

function section({ label }, ...children) {
  return el("fieldset", { class: "facet" }, el("legend", {}, label), children);
}

function choices(field, counts, change) {
  const ticked = new Set(listed(field.condition).map(key));
  const sorted = counts.toSorted((a, b) => b.count - a.count);
  const isShown = ({ value }, i) => i < VALUES || ticked.has(key(value));
  const choice = (entry, i) => {
    const { value, count } = entry;
    const attributes = { type: "checkbox", name: field.name, value: String(value), checked: ticked.has(key(value)) };
    const input = el("input", { ...attributes, change: () => change(field.name, toggled(value)) });
    return el("label", { hidden: !isShown(entry, i) }, input, el("span", {}, shown(value, field.unit)), el("small", {}, String(count)));
  };
  const labels = sorted.map(choice);
  return section(field, labels, moreButton(labels.filter(({ hidden }) => hidden)));
}

function moreButton(rest) {
  if (!rest.length) return null;
  const button = el("button", { type: "button", class: "quiet" }, `${rest.length} more`);
  button.addEventListener("click", () => {
    for (const label of rest) label.hidden = false;
    button.remove();
    rest[0].querySelector("input").focus();
  });
  return button;
}

function range(field, values, change) {
  const { gte, lte } = isValue(field.condition) ? {} : field.condition;
  const input = (end, placeholder, value) => {
    const label = `${field.label} ${end}`;
    return el("input", { type: "number", step: "any", name: `${field.name} ${end}`, "aria-label": label, placeholder, value });
  };
  const low = input("from", Math.min(...values), gte);
  const high = input("to", Math.max(...values), lte);
  const submit = (event) => {
    event.preventDefault();
    const ends = { ...(low.value !== "" && { gte: low.valueAsNumber }), ...(high.value !== "" && { lte: high.valueAsNumber }) };
    change(field.name, () => (Object.keys(ends).length ? ends : undefined));
  };
  const unit = field.unit && el("span", {}, field.unit);
  const dash = el("span", { "aria-hidden": "true" }, "–");
  return section(field, el("form", { submit }, low, dash, high, unit, el("button", { type: "submit" }, "Set")));
}
