// Texts with marked and coloured spans.

import { el } from "./dom.js";

/** Spans [[start, end], …] in code points, as the server counts, -> [{start, end}] in the UTF-16 units of strings. */
export function unitSpans(text, spans) {
  const sorted = [...spans].sort((a, b) => a[0] - b[0]);
  if (!/[\ud800-\udbff]/.test(text)) return sorted.map(([start, end]) => ({ start, end }));
  const units = [0];
  for (const character of text) units.push(units.at(-1) + character.length);
  const unit = (offset) => units[Math.min(offset, units.length - 1)];
  return sorted.map(([start, end]) => ({ start: unit(start), end: unit(end) }));
}

/** Cuts text[from:to] wherever a token, a mark or a line begins or ends: [{start, end, kind, marked}]. */
export function pieces(text, from, to, tokens, marks) {
  const cuts = new Set([from, to]);
  for (const { start, end } of [...tokens, ...marks]) cuts.add(start).add(end);
  for (let at = text.indexOf("\n", from); at >= 0 && at < to; at = text.indexOf("\n", at + 1)) cuts.add(at).add(at + 1);
  const sorted = [...cuts].filter((cut) => cut >= from && cut <= to).sort((a, b) => a - b);
  const tokenAt = covering(tokens);
  const markAt = covering(marks);
  return sorted.slice(0, -1).map((start, i) => {
    return { start, end: sorted[i + 1], kind: tokenAt(start)?.kind, marked: markAt(start) !== null };
  });
}

/** A function that tells the span at an offset; offsets must not fall. */
function covering(spans) {
  let at = 0;
  return (offset) => {
    while (at < spans.length && spans[at].end <= offset) at += 1;
    return at < spans.length && spans[at].start <= offset ? spans[at] : null;
  };
}

/** Nodes for pieces of a text. */
export function nodes(text, cut) {
  return cut.map(({ start, end, kind, marked }) => {
    const part = text.slice(start, end);
    const node = kind ? el("span", { class: `t-${kind}` }, part) : part;
    return marked ? el("mark", {}, node) : node;
  });
}

/** Nodes for text[from:to] with its marks. */
export const marked = (text, marks, from = 0, to = text.length) => nodes(text, pieces(text, from, to, [], marks));
