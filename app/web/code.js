// A block of code with line numbers, syntax colours, and marked words and lines.

import { copyButton } from "./copy.js";
import { el } from "./dom.js";
import { nodes, pieces } from "./marks.js";
import { tokens } from "./syntax.js";

const FOLDED = 12; // lines that are shown at first
const MOST = 2_000; // lines that are shown at all

/** `marks` are {start, end} in `text`; `firstLine` is the number of its first line, or null for no numbers. */
export function codeBlock(text, marks, language, firstLine) {
  const rows = lines(text, tokens(text, language), marks);
  const cut = surplus(text, language);
  const line = (row, i) => lineNode(text, row, i === 0 ? 0 : cut, firstLine === null ? null : firstLine + i);
  const code = el("code", {}, rows.slice(0, FOLDED).map(line));
  const pre = el("pre", { class: firstLine === null ? "code" : "code numbered", translate: "no" }, code);
  if (rows.length <= FOLDED + 2) {
    code.append(...rows.slice(FOLDED).map((row, i) => line(row, FOLDED + i)));
    return el("div", { class: "source" }, pre, copyButton(text, "Copy the code"));
  }
  const unfold = () => code.append(...rows.slice(FOLDED, MOST).map((row, i) => line(row, FOLDED + i)));
  const fold = () => code.replaceChildren(...[...code.children].slice(0, FOLDED));
  return el("div", { class: "source folded" }, pre, copyButton(text, "Copy the code"), foldButton(rows, unfold, fold));
}

function lines(text, coloured, marks) {
  const rows = [[]];
  for (const piece of pieces(text, 0, text.length, coloured, marks)) {
    if (text.slice(piece.start, piece.end) === "\n") rows.push([]);
    else rows.at(-1).push(piece);
  }
  return rows;
}

/**
 * How many leading blanks of all lines but the first say only how deep in its file the code was.
 * `surplus_indentation` in purlin/cli/terminal.py does the same.
 */
export function surplus(text, language) {
  const rest = text.split("\n").slice(1).filter((line) => line.trim());
  const depth = (line) => line.length - line.trimStart().length;
  const least = rest.reduce((fewest, line) => Math.min(fewest, depth(line)), Infinity);
  if (!Number.isFinite(least)) return 0;
  const outermost = rest.filter((line) => depth(line) === least);
  const isBracket = (line) => /^\s*(?:[{}\])]|end\b)/.test(line);
  // In Python, the last line may close a list.
  const isClosed = language !== "python" && isBracket(rest.at(-1));
  const asDeepAsFirst = isClosed || text.startsWith("@") || outermost.every(isBracket);
  const unit = asDeepAsFirst ? 0 : /^\t/.test(rest[0]) ? 1 : 4;
  return Math.max(0, least - unit);
}

function lineNode(text, row, cut, number) {
  const hit = row.some((piece) => piece.marked);
  const line = el("span", { class: hit ? "line hit-line" : "line", "data-number": number });
  line.append(...nodes(text, undented(text, row, cut)), "\n");
  return line;
}

function undented(text, row, cut) {
  if (!cut || !row.length) return row;
  const from = row[0].start + cut;
  return row.filter((piece) => piece.end > from).map((piece) => ({ ...piece, start: Math.max(piece.start, from) }));
}

function foldButton(rows, unfold, fold) {
  const below = rows.slice(FOLDED).filter((row) => row.some((piece) => piece.marked)).length;
  const closed = `Show all ${rows.length} lines${below ? `, ${below} more with matches` : ""}`;
  const button = el("button", { type: "button", class: "fold", "aria-expanded": "false" }, closed);
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") === "true";
    (open ? fold : unfold)();
    button.setAttribute("aria-expanded", String(!open));
    button.parentElement.classList.toggle("folded", open);
    button.textContent = open ? closed : "Show less";
  });
  return button;
}
