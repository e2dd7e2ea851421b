// Texts with the labels that were chosen for them.

import { copyButton } from "./copy.js";
import { el, number } from "./dom.js";

const RANKED = 5; // labels of a text that are shown
const SHOWN = 100; // texts that are shown at once
const COMMON = 8; // labels in the summary

/** How many texts have each of the most common labels, and a button that copies all; nothing for very few texts. */
export function summary(texts, results) {
  if (results.length < 4) return null;
  const counts = new Map();
  for (const label of results.flatMap(fitting)) counts.set(label, (counts.get(label) ?? 0) + 1);
  const common = [...counts].sort((a, b) => b[1] - a[1]).slice(0, COMMON);
  const counted = ([label, count]) => el("span", {}, el("b", {}, number(count)), label ?? "none");
  const copy = copyButton(table(texts, results), "Copy the texts with their labels and scores, for a spreadsheet");
  return el("p", { class: "summary" }, common.map(counted), copy);
}

/** A line for each text: the text, its labels and its score, with tabs between. */
export function table(texts, results) {
  const line = (result, i) => [texts[i].replaceAll("\t", " "), fitting(result).join(", "), result.score].join("\t");
  return results.map(line).join("\n");
}

/** The texts, some at a time. */
export function textList(texts, results) {
  const list = el("ol", { class: "classified" });
  const more = el("button", { type: "button", class: "more" }, "More");
  const next = () => {
    const from = list.children.length;
    list.append(...results.slice(from, from + SHOWN).map((result, i) => textCard(texts[from + i], result)));
    more.hidden = list.children.length >= results.length;
  };
  more.addEventListener("click", next);
  next();
  return [list, more];
}

/** The labels of a result: all that fit, if several may; `null` for none. */
const fitting = ({ label, labels }) => (labels?.length ? labels : [labels ? null : label]);

function textCard(text, result) {
  const best = fitting(result);
  const rows = result.ranking.slice(0, RANKED).map((row) => scoreRow(row, best.includes(row.label)));
  const start = text.length > 300 ? `${text.slice(0, 300)}…` : text;
  return el("li", { class: "card" }, el("p", { class: "text" }, start), el("ul", { class: "scores" }, rows));
}

function scoreRow({ label, score }, isBest) {
  const percent = `${(score * 100).toFixed(score >= 0.0995 ? 0 : 1)} %`;
  return el(
    "li",
    { class: isBest ? "best" : null },
    el("span", { class: "name" }, label),
    el("span", { class: "bar", vars: { share: score } }),
    el("span", { class: "value" }, percent),
  );
}
