// What a view shows below its form, and the sign that it is being replaced.

import { fill, say } from "./dom.js";

const PATIENCE_MS = 1000;

/** Mark results as being replaced; where that takes long, those who do not see the page hear of it. */
export function wait(results) {
  results.setAttribute("aria-busy", "true");
  setTimeout(() => results.hasAttribute("aria-busy") && say("Waiting for the server."), PATIENCE_MS);
}

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
