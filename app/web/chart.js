// Small charts of measures: the mean between 0 and 1, and its confidence interval.

import { el, number, svg } from "./dom.js";

const DEEPEST = 4;
const MOST = 40;
const MEANINGS = { "dense recall@100": "of the 100 nearest, how many the index finds" };

/** Measures in whatever a manifest has: [{name, mean, low, high}], flat; `low` and `high` may be undefined. */
export function flat(measures, prefix = "", depth = 0) {
  if (measures === null || typeof measures !== "object" || depth > DEEPEST) return [];
  const flattened = Object.entries(measures).flatMap(([key, value]) => {
    const own = Array.isArray(measures) ? value?.name ?? "" : key;
    const name = [prefix, own].filter(Boolean).join(", ");
    if (typeof value === "number") return [{ name, mean: value }];
    const mean = value?.mean ?? value?.value;
    if (typeof mean === "number") return [{ name, mean, low: value.low, high: value.high }];
    return flat(value, name, depth + 1);
  });
  return flattened.slice(0, MOST);
}

/** A table of them, each share with its drawing. */
export function measureTable(measures) {
  const rows = flat(measures);
  if (!rows.length) return null;
  const term = ({ name }) => el("dt", {}, name, Object.hasOwn(MEANINGS, name) && el("small", {}, MEANINGS[name]));
  const figures = (row) => el("dd", {}, drawing(row), el("span", {}, formatted(row)));
  return el("dl", { class: "measures" }, rows.map((row) => [term(row), figures(row)]));
}

const bounded = ({ low, high }) => typeof low === "number" && typeof high === "number";
const isShare = ({ mean }) => mean >= 0 && mean <= 1;
const figure = (row, value) => (isShare(row) ? share(value) : number(value));
const share = (value) => (value < 1 && value >= 0.9995 ? "> 0.999" : value.toFixed(3)); // nearly all is not all
const interval = (row) => (bounded(row) ? ` (${figure(row, row.low)}–${figure(row, row.high)})` : "");
const formatted = (row) => figure(row, row.mean) + interval(row);

function drawing(row) {
  if (!isShare(row)) return null;
  const percent = (share) => `${(100 * Math.min(1, Math.max(0, share))).toFixed(2)}%`;
  const bar = (name, from, to, height) => {
    const box = { x: percent(from), y: 8 - height / 2, width: percent(to - from), height, rx: height / 3 };
    return svg("rect", { class: name, ...box });
  };
  return svg(
    "svg",
    { class: "measure", height: "16", role: "img", "aria-label": `${row.name}: ${formatted(row)}` },
    bar("track", 0, 1, 2),
    bar("filled", 0, row.mean, 2),
    bounded(row) && bar("interval", row.low, row.high, 10),
    svg("circle", { class: "mean", cx: percent(row.mean), cy: "8", r: "4" }),
  );
}
