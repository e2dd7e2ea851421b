// What a view shows below its form, and the sign that it is being replaced.

import { el, fill, say } from "./dom.js";

const PATIENCE_MS = 1000;
const KEPT = 20; // results that Back shows again
const kept = new Map(); // when they were drawn -> their nodes, and how far down the page was scrolled
let here = null; // what is kept of the results on the page

/** Mark results as being replaced, and say so where that takes long. */
export function wait(results) {
  results.setAttribute("aria-busy", "true");
  setTimeout(() => isWaiting(results) && tell(results), PATIENCE_MS);
}

function tell(results) {
  const text = "Waiting for the server.";
  say(text);
  if (!results.hasChildNodes()) fill(results, el("p", { class: "waiting" }, text));
}

export const isWaiting = (results) => results.hasAttribute("aria-busy");

/** Replace results. If the focus was among them, the same link or input gets it, or else their first heading. */
export function present(results, ...children) {
  const focused = results.contains(document.activeElement) && document.activeElement;
  results.removeAttribute("aria-busy");
  fill(results, children);
  if (!focused) return;

  const isSame = (node) => ["href", "name", "value"].every((name) => node[name] === focused[name]);
  const same = [...results.querySelectorAll("a[href], input[name]")].find(isSame);
  const heading = results.querySelector("h2");
  heading?.setAttribute("tabindex", "-1");
  (same ?? heading)?.focus();
}

/** Scroll to results that are below the window, as those below a long form are on a telephone. */
export function reveal(results) {
  if (results.getBoundingClientRect().top > window.innerHeight) results.scrollIntoView();
}

/** Keep results as they are and become: coming back to this entry of the browser's history restores them. */
export function keep(results) {
  const drawnAt = performance.timeOrigin + performance.now(); // no entry of before a reload has the same
  history.replaceState({ drawnAt }, "");
  history.scrollRestoration = "manual"; // the browser would scroll before the results are there
  here = { nodes: [...results.childNodes], top: 0 };
  kept.set(drawnAt, here);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
}

/** What was kept at this entry, if anything. */
export const keptHere = () => kept.get(history.state?.drawnAt);

/** Keep nothing of before: what another key opened is asked for again. */
export const forget = () => kept.clear();

/** Show what was kept, scrolled as it was; what was ticked or typed on it since led elsewhere. */
export function restore(results, before) {
  here = before;
  present(results, before.nodes);
  for (const input of results.querySelectorAll("input")) {
    Object.assign(input, { checked: input.defaultChecked, value: input.defaultValue });
  }
  window.scrollTo(0, before.top);
}

/** To be called before another entry of the history is shown. */
export function leave() {
  if (here) here.top = window.scrollY;
  here = null;
}
