// The corpus chooser: one radio button per corpus and, for a search, some for several of them at once.

import { Problem, get } from "./api.js";
import { counted, el, number } from "./dom.js";

const UNITS = { code: ["function", "functions"], product: ["product", "products"], reference: ["entry", "entries"] };
const KINDS = { code: "All code", product: "All products", reference: "All references" };
const STAGES = { waiting: "waiting", start: "starting", read: "reading", interim: "encoding", encode: "encoding" };
const MOST = 16; // corpora in one search
const POLL_MS = 1000;
const FRESH_MS = 60_000; // so long, searches use a list of corpora that they have

/** What the documents of a corpus of that kind are: one of them, and several. */
export const units = (kind) => UNITS[kind] ?? ["document", "documents"];

/** How far a build is, in a few words. */
export function progress({ stage, done, total }) {
  const count = total ? `${Math.floor((100 * done) / total)} %` : done ? number(done) : "";
  return `${STAGES[stage] ?? stage} ${count}`.trim();
}

/** What a request's `corpus` is for a choice: a name, names with commas between, or `kind:` and a kind. */
export function requested(choice) {
  if (choice.startsWith("kind:")) return { kind: choice.slice("kind:".length) };
  return choice.includes(",") ? choice.split(",") : choice;
}

/** The kinds of the corpora that a choice stands for, as far as these are among `corpora`. */
export function kindsOf(choice, corpora) {
  const corpus = requested(choice);
  if (corpus.kind) return [corpus.kind];
  const names = [corpus].flat();
  return corpora.filter(({ name }) => names.includes(name)).map(({ kind }) => kind);
}

/**
 * `offered` tells whether a corpus is a choice, `several` whether groups of them are, too. `changed` is called with
 * the choice that somebody makes, `arrived` when a corpus can be searched that could not be before.
 */
export function chooser(offered, changed, { several = false, arrived = () => null } = {}) {
  const node = el("fieldset", { class: "chooser" }, el("legend", { class: "unseen" }, "Corpus"));
  const group = `corpus-${Math.random().toString(36).slice(2)}`;
  let listed = [];
  let loadedAt = -Infinity;
  let timer = null;

  const load = () => performance.now() - loadedAt > FRESH_MS && reload();

  async function reload() {
    const { corpora } = await get("corpora");
    loadedAt = performance.now();
    const before = value();
    const focused = node.contains(document.activeElement);
    listed = corpora.filter(offered);
    const choices = listed.map((corpus) => choice(corpus, group, changed));
    const groups = several ? groupsOf(listed).map((pair) => groupChoice(pair, group, changed)) : [];
    node.replaceChildren(node.firstChild, ...choices, ...groups);
    select(before, focused);
    follow();
  }

  /** While corpora are being built or opened, or there are none, look again every moment, if somebody sees it. */
  function follow() {
    clearTimeout(timer);
    const isChanging = !listed.length || listed.some(({ building, state }) => building || state === "opening");
    if (isChanging) timer = setTimeout(look, POLL_MS);
  }

  async function look() {
    if (document.hidden || !node.isConnected || node.closest("[hidden]")) return follow();
    const before = usable(listed);
    try {
      await reload();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      return follow();
    }
    return usable(listed).some((name) => !before.includes(name)) && arrived();
  }

  /** The choice of that name, or else the first that can be used; it gets the focus if another choice had it. */
  function select(name, focused = node.contains(document.activeElement)) {
    const inputs = [...node.querySelectorAll("input")];
    const input = inputs.find((radio) => radio.value === name) ?? inputs.find((radio) => !radio.disabled);
    if (!input) return;

    input.checked = true;
    if (focused) input.focus({ preventScroll: true });
  }

  const value = () => node.querySelector("input:checked")?.value ?? "";
  const kind = (name = value()) => listed.find((corpus) => corpus.name === name)?.kind;
  return { node, load, select, value, kind, listed: () => listed };
}

const serving = (corpora) => corpora.filter(({ state }) => state === "serving");
const usable = (corpora) => serving(corpora).map(({ name }) => name);

function choice(corpus, group, changed) {
  const disabled = corpus.state === "refused" || corpus.state === "building";
  const served = corpus.state === "serving" && counted(corpus.documents, ...units(corpus.kind));
  const about = [served || (corpus.state !== "building" && corpus.state), corpus.building && progress(corpus.building)];
  const title = corpus.problem ?? (corpus.building && hint(corpus));
  return pill(corpus.name, corpus.name, about.filter(Boolean).join(", "), { group, changed, disabled, title });
}

function hint({ state, building: { encoder } }) {
  if (state === "building") return "It can be searched as soon as it is read.";
  return encoder ? `Can be searched; vectors of ${encoder} are being made.` : "Can be searched; changes are being indexed.";
}

/** Kinds with several corpora, and all corpora if there is more than one kind. */
function groupsOf(corpora) {
  const served = serving(corpora);
  const kinds = Object.keys(KINDS).filter((kind) => served.filter((corpus) => corpus.kind === kind).length > 1);
  const groups = kinds.map((kind) => ({ value: `kind:${kind}`, name: KINDS[kind] }));
  const mixed = new Set(served.map(({ kind }) => kind)).size > 1 && served.length <= MOST;
  return mixed ? [...groups, { value: served.map(({ name }) => name).join(","), name: "All" }] : groups;
}

const groupChoice = ({ value, name }, group, changed) => pill(value, name, "", { group, changed });

function pill(value, name, about, { group, changed, disabled = false, title = null }) {
  const input = el("input", { type: "radio", name: group, value, disabled });
  input.addEventListener("change", () => changed(value));
  const label = el("span", {}, el("b", {}, name), about && el("small", {}, about));
  return el("label", { title }, input, label);
}
