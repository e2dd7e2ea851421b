// The corpus chooser: one radio button per corpus.

import { get } from "./api.js";
import { el, number } from "./dom.js";

const UNITS = { code: "functions", product: "products", reference: "entries" };

/** What the documents of a corpus of that kind are. */
export const unit = (kind) => UNITS[kind] ?? "documents";

/** `wanted` says which corpora are offered. `changed` is called with the name of the one that somebody chose. */
export function chooser(wanted, changed) {
  const node = el("fieldset", { class: "chooser" }, el("legend", { class: "unseen" }, "Corpus"));
  const group = `corpus-${Math.random().toString(36).slice(2)}`;
  let known = [];

  async function load() {
    const { corpora } = await get("corpora");
    const before = value();
    const focused = node.contains(document.activeElement);
    known = corpora.filter(wanted);
    node.replaceChildren(node.firstChild, ...known.map((corpus) => choice(corpus, group, changed)));
    select(before);
    if (focused) node.querySelector("input:checked")?.focus({ preventScroll: true });
  }

  /** The one of that name, or else the first that can be used. */
  function select(name) {
    const inputs = [...node.querySelectorAll("input")];
    const input = inputs.find((one) => one.value === name) ?? inputs.find((one) => !one.disabled);
    if (input) input.checked = true;
  }

  const value = () => node.querySelector("input:checked")?.value ?? "";
  const kind = () => known.find((one) => one.name === value())?.kind;
  return { node, load, select, value, kind, known: () => known };
}

function choice(corpus, group, changed) {
  const usable = corpus.state === "serving";
  const input = el("input", { type: "radio", name: group, value: corpus.name, disabled: corpus.state === "refused" });
  input.addEventListener("change", () => changed(corpus.name));
  const about = usable ? `${number(corpus.documents)} ${unit(corpus.kind)}` : corpus.state;
  const pill = el("span", {}, el("b", {}, corpus.name), el("small", {}, about));
  return el("label", { title: corpus.problem }, input, pill);
}

/** What to do where there is no corpus of the wanted kind. */
export function noCorpora(kind) {
  const command = `purlin index build ${kind} PATH --name NAME`;
  return el(
    "section",
    { class: "empty" },
    el("h2", {}, "Nothing to search yet"),
    el("p", {}, "Index something of your own; the server picks it up by itself:"),
    el("pre", { class: "code" }, el("code", {}, command)),
  );
}
