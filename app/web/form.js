// The head of a view: its first words, and the field for one line of words with its options.

import { el } from "./dom.js";

/** The first words of a view. */
export const hero = (heading, text) => el("div", { class: "hero" }, el("h1", {}, heading), el("p", {}, text));

/** A field for one line of words. */
export function searchField(label, placeholder) {
  const typing = { autocomplete: "off", spellcheck: "false", maxlength: "4096", enterkeyhint: "search", dir: "auto" };
  return el("input", { type: "search", ...typing, "aria-label": label, placeholder });
}

/** That field with its button, and options below it. `send` is called where there are words in the field. */
export function askForm(field, action, send, ...options) {
  const button = el("button", { type: "submit", class: "primary" }, action);
  const row = el("div", { class: "field" }, field, el("kbd", { "aria-hidden": "true" }, "/"), button);
  const submit = (event) => {
    event.preventDefault();
    if (field.value.trim()) send();
  };
  return el("form", { role: "search", class: "ask-form", submit }, row, el("div", { class: "options" }, options));
}
