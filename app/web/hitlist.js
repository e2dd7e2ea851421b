// The hits of a search, some at a time.

import { el, fill } from "./dom.js";
import { problemCard } from "./problem.js";

const SHOWN = 10; // hits that each press of the button adds
const MOST = 10_000; // that the server pages to

/**
 * The hits of `reply`, the first page of `size` hits, each drawn by `card`.
 * `load({ offset, k }, put, missed)` asks for a page below it, and calls `put` with the reply or `missed` with a problem.
 */
export function hitList(reply, size, card, load) {
  const list = el("ol", { class: "hits" });
  const more = el("button", { type: "button", class: "more" }, "More");
  const problems = el("div", { class: "missed" });
  const undrawn = [...reply.hits];
  let isWhole = reply.hits.length === size; // of groups there are fewer than `total`, which counts documents

  function draw() {
    const cards = undrawn.splice(0, SHOWN).map(card);
    list.append(...cards);
    more.hidden = !undrawn.length && (!isWhole || list.children.length >= Math.min(reply.total, MOST));
    return cards[0]?.querySelector("article");
  }

  function put({ hits }) {
    const isElsewhere = !document.activeElement.matches("body, .more"); // in the field, say, where one types
    undrawn.push(...hits);
    isWhole = hits.length === size;
    const first = draw();
    if (!isElsewhere) first?.focus();
  }

  function next() {
    fill(problems);
    if (undrawn.length) return draw().focus();
    const offset = list.children.length;
    return load({ offset, k: Math.min(size, MOST - offset) }, put, missed);
  }

  const missed = (problem) => fill(problems, problemCard(problem, next));

  more.addEventListener("click", next);
  draw();
  return el("div", { class: "column" }, list, problems, more);
}
