// What a view shows below its form, and the sign that it is being replaced.

import { fill, say } from "./dom.js";

const PATIENCE_MS = 1000;
const KEPT = 20; // results that Back shows again
const kept = new Map(); // when they were drawn -> their nodes, and how far down the page is scrolled

/** Mark results as being replaced; where that takes long, those who do not see the page hear of it. */
export function wait(results) {
  results.setAttribute("aria-busy", "true");
  setTimeout(() => isWaiting(results) && say("Waiting for the server."), PATIENCE_MS);
}

export const isWaiting = (results) => results.hasAttribute("aria-busy");

/** Replace results. If the focus was among them, the same link gets it, or else their first heading. */
export function present(results, ...children) {
  const focused = results.contains(document.activeElement) && document.activeElement;
  results.removeAttribute("aria-busy");
  fill(results, children);
  if (!focused) return;

  const link = [...results.querySelectorAll("a[href]")].find(({ href }) => href === focused.href);
  const heading = results.querySelector("h2");
  heading?.setAttribute("tabindex", "-1");
  (link ?? heading)?.focus();
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
  kept.set(drawnAt, { nodes: [...results.childNodes], top: window.scrollY });
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
}

/** What was kept at this entry, if anything. */
export const keptHere = () => kept.get(history.state?.drawnAt);

/** Show what was kept, scrolled as it was. */
export function restore(results, { nodes, top }) {
  present(results, nodes);
  window.scrollTo(0, top);
}

window.addEventListener("scroll", () => {
  const here = keptHere();
  if (here) here.top = window.scrollY;
});
