// The corpus chooser: a choice for each corpus and, for a search, some for several of them at once. A few choices are
// radio buttons side by side, many a menu.

import { Problem, get } from "./api.js";
import { counted, el, number } from "./dom.js";

const UNITS = { code: ["function", "functions"], product: ["product", "products"], reference: ["entry", "entries"] };
const KINDS = { code: "Code", product: "Products", reference: "References" };
const STAGES = { waiting: "waiting", start: "starting", read: "reading", interim: "encoding", encode: "encoding" };
const MOST = 16; // corpora in one search
const SIDE_BY_SIDE = 12; // choices; more are a menu
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

  /** Have a list that is fresh and has the corpora of `choice`, if the server does. */
  async function load(choice = "") {
    const names = [requested(choice)].flat().filter((name) => typeof name === "string" && name);
    const areListed = names.every((name) => listed.some((corpus) => corpus.name === name));
    if (!areListed || performance.now() - loadedAt > FRESH_MS) await reload();
  }

  async function reload() {
    const { corpora } = await get("corpora");
    loadedAt = performance.now();
    const before = value();
    const isFocused = node.contains(document.activeElement);
    listed = corpora.filter(offered);
    const choices = [...listed.map(corpusChoice), ...(several ? groupChoices(listed) : [])];
    const controls = choices.length > SIDE_BY_SIDE ? [menu(choices, changed)] : choices.map(pill(group, changed));
    node.replaceChildren(node.firstChild, ...controls);
    select(before, isFocused);
    follow();
  }

  /** While corpora are being built or opened, or there are none, look again every moment, if somebody sees it. */
  function follow() {
    clearTimeout(timer);
    if (isChanging(listed)) timer = setTimeout(look, POLL_MS);
  }

  async function look() {
    const isOpen = document.activeElement.matches("select") && node.contains(document.activeElement);
    if (document.hidden || isOpen || !node.isConnected || node.closest("[hidden]")) return follow();
    const before = usable(listed);
    try {
      await reload();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      return follow();
    }
    return usable(listed).some((name) => !before.includes(name)) && arrived();
  }

  /** Make the choice of that name, or else the first that can be used; it gets the focus if another choice had it. */
  function select(name, isFocused = node.contains(document.activeElement)) {
    const choices = [...node.querySelectorAll("input, option")];
    const choice = choices.find(({ value }) => value === name) ?? choices.find(({ disabled }) => !disabled);
    if (!choice) return;

    choice[choice.matches("option") ? "selected" : "checked"] = true;
    if (isFocused) (choice.closest("select") ?? choice).focus({ preventScroll: true });
  }

  const value = () => node.querySelector("input:checked, option:checked")?.value ?? "";
  const kind = (name) => listed.find((corpus) => corpus.name === name)?.kind;
  return { node, load, select, value, kind, listed: () => listed };
}

const isChanging = (corpora) =>
  !corpora.length || corpora.some(({ building, state }) => building || state === "opening");
const serving = (corpora) => corpora.filter(({ state }) => state === "serving");
const usable = (corpora) => serving(corpora).map(({ name }) => name);

// ---- choices: {value, name, about, kind, disabled, title}, those of several corpora with their number as `size`

function corpusChoice(corpus) {
  const { name, kind, state, building, problem } = corpus;
  const documents = state === "serving" && counted(corpus.documents, ...units(kind));
  const about = [documents || (state !== "building" && state), building && progress(building)];
  return {
    value: name,
    name,
    about: about.filter(Boolean).join(", "),
    kind,
    disabled: state === "refused" || state === "building",
    title: problem ?? (building && hint(corpus)),
  };
}

function hint({ state, building: { encoder } }) {
  if (state === "building") return "It can be searched as soon as it is read.";
  return encoder ? `Can be searched; vectors of ${encoder} are being made.` : "Can be searched; changes are being indexed.";
}

/** Kinds with several corpora, and all corpora if there is more than one kind; none that a search does not take. */
function groupChoices(corpora) {
  const served = serving(corpora);
  const kinds = Map.groupBy(served, ({ kind }) => kind);
  const all = { value: served.map(({ name }) => name).join(","), name: "All", size: kinds.size > 1 ? served.length : 0 };
  const groups = Object.keys(KINDS).map((kind) => {
    return { value: `kind:${kind}`, name: `All ${KINDS[kind].toLowerCase()}`, size: kinds.get(kind)?.length ?? 0 };
  });
  return [...groups, all].filter(({ size }) => size > 1 && size <= MOST);
}

function pill(group, changed) {
  return ({ value, name, about, disabled, title }) => {
    const input = el("input", { type: "radio", name: group, value, disabled, change: () => changed(value) });
    return el("label", { title }, input, el("span", {}, el("b", {}, name), about && el("small", {}, about)));
  };
}

/** The choices by their kinds; the browser finds them by their first letters. */
function menu(choices, changed) {
  const option = ({ value, name, about, disabled, title }) =>
    el("option", { value, disabled, title }, about ? `${name} (${about})` : name);
  const headings = [...Object.values(KINDS), "Others", "Several at once"];
  const heading = ({ kind, size }) => (size ? "Several at once" : KINDS[kind] ?? "Others");
  const groups = Map.groupBy(choices, heading);
  const used = headings.filter((label) => groups.has(label));
  const sections = used.map((label) => el("optgroup", { label }, groups.get(label).map(option)));
  return el("select", { "aria-label": "Corpus", change: ({ target }) => changed(target.value) }, sections);
}
