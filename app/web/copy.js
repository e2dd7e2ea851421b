// Buttons that copy a text.

import { el, say } from "./dom.js";

const SHOWN_MS = 1500;

/** A button that copies `text`, and tells that by `label`; none where the browser does not allow it. */
export function copyButton(text, label) {
  if (!navigator.clipboard) return null;
  const button = el("button", { type: "button", class: "copy", "aria-label": label, title: label }, "Copy");
  button.addEventListener("click", async () => {
    const outcome = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Not allowed");
    button.textContent = outcome;
    say(`${outcome}.`);
    setTimeout(() => (button.textContent = "Copy"), SHOWN_MS);
  });
  return button;
}
