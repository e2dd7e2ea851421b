// Search: the query field, the corpora, the hits and their facets.

import { latest, post } from "./api.js";
import { chooser, kindsOf, noCorpora, requested, soon } from "./chooser.js";
import { el, number, say } from "./dom.js";
import { conditions, facets } from "./facets.js";
import { hitCard, walk } from "./hits.js";
import { address, go } from "./address.js";
import { problemCard } from "./problem.js";
import { present, wait } from "./results.js";

const LOADED = 50; // hits in one request: facets count in them
const SHOWN = 10;
const MOST = 10_000; // that the server pages to

// For the corpora that `purlin index demo` makes; of others nobody knows what is in them.
const EXAMPLES = {
  code: ["remove a directory tree", "parse a date", "retry after a timeout"],
  python: ["default step of range", "read a file line by line", "how to sort a list of tuples"],
  products: ["light for reading in bed", "quiet laptop for lectures", "cable to charge a laptop"],
};
const MODES = { hybrid: "Meaning and words", dense: "Meaning", lexical: "Words" };

/** The view, in `root`. */
export function search(root) {
  let current = {}; // the values of the address
  const run = latest();
  const field = searchField("Query", "What are you looking for?");
  let waiting = false; // nothing can be searched yet, or the search was refused for now
  const corpora = chooser(
    () => true,
    (choice) => again({ corpus: choice, filter: "" }),
    { several: true, arrived: () => waiting && show(current) },
  );
  const mode = rankings();
  mode.addEventListener("change", () => again({}));
  const ranking = el("label", { class: "mode" }, el("span", {}, "Rank by"), mode);
  const form = askForm(field, "Search", corpora.node, ranking);
  const results = el("div", { class: "results" });
  const about = "Code, products and references, searched by meaning and by words. On your machine, and nowhere else.";
  root.append(hero("Find it by what it does.", about), form, results);
  walk(field, results);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) go("search", { ...now(), filter: current.query ? current.filter : "" });
  });

  const ranked = () => (mode.value === "hybrid" ? "" : mode.value);
  const now = () => ({ corpus: corpora.value(), query: field.value.trim(), mode: ranked() });

  /** Ask the same with something else; without a query there is nothing to ask yet, nor what was asked before. */
  function again(change) {
    if (field.value.trim()) return go("search", { ...now(), filter: current.filter, ...change });
    current = { ...current, ...change };
    return run(() => null, welcome, failed);
  }

  const changed = (filter) => again({ filter: Object.keys(filter).length ? JSON.stringify(filter) : "" });

  async function show(values) {
    current = values;
    waiting = false;
    field.value = values.query ?? "";
    mode.value = Object.hasOwn(MODES, values.mode ?? "") ? values.mode : "hybrid";
    root.classList.toggle("fresh", !values.query);
    await run(() => corpora.load(), () => loaded(values), failed);
  }

  function loaded(values) {
    corpora.select(values.corpus);
    if (!corpora.listed().length) present(results, noCorpora("code"));
    else if (!corpora.value() && !values.query) later();
    else if (values.query) ask(values, values.corpus || corpora.value()); // of an unknown one the server tells more
    else welcome();
  }

  function later() {
    waiting = true;
    present(results, soon(corpora.listed()));
  }

  const welcome = () => present(results, examples(corpora.value()), elsewhere());

  function failed(problem) {
    waiting = problem.status === 503;
    const lifts = conditions(parsed(current.filter), changed);
    const overview = lifts.length > 0 && el("div", { class: "overview" }, lifts);
    present(results, overview, problemCard(problem, () => show(current)));
  }

  function ask(values, corpus) {
    const filter = parsed(values.filter);
    const request = { corpus: requested(corpus), query: values.query ?? "", mode: mode.value, filter, k: LOADED };
    if (kindsOf(corpus, corpora.listed()).includes("product")) request.group_by = "parent";
    wait(results);
    run((signal) => post("search", request, signal), (reply) => draw(request, reply), failed);
  }

  function draw(request, reply) {
    const own = current;
    const below = (page, put) => {
      if (own === current) run((signal) => post("search", { ...request, ...page }, signal), put, failed);
    };
    const only = (name, value) => changed({ ...request.filter, [name]: value });
    const card = (hit) => hitCard(hit, corpora.kind(hit.corpus ?? reply.corpus) ?? "reference", only);
    const counted = reply.hits.flatMap(withVariants);
    const beside = facets(counted, request.filter, changed);
    present(
      results,
      el("div", { class: "overview" }, el("h2", {}, summary(reply)), conditions(request.filter, changed)),
      reply.corrected && el("p", { class: "muted" }, `Searched for “${reply.corrected}”.`),
      reply.warning && el("p", { class: "muted warning" }, reply.warning),
      beside.length > 0 && facetBox(beside, counted.length),
      hitList(request, reply, card, below),
    );
    say(reply.hits.length ? summary(reply) : "Nothing found.");
  }

  return { show, field };
}

const withVariants = (hit) => [hit, ...(hit.variants ?? []).map(({ fields }) => ({ fields: { ...hit.fields, ...fields } }))];

/** The cards of a reply, some at a time; `below` asks for what was not loaded yet, unless another search has begun. */
function hitList(request, reply, card, below) {
  if (!reply.hits.length) return nothing(request);
  const list = el("ol", { class: "hits" });
  const waiting = [...reply.hits];
  let whole = reply.hits.length === request.k; // of groups there are fewer than `total`, which counts documents
  const more = el("button", { type: "button", class: "more" }, "More");
  const next = () => {
    const cards = waiting.splice(0, SHOWN).map(card);
    list.append(...cards);
    more.hidden = !waiting.length && (!whole || list.children.length >= Math.min(reply.total, MOST));
    return cards[0]?.querySelector("article");
  };
  const put = (reply) => {
    const elsewhere = !document.activeElement.matches("body, .more"); // in the field, say, where one types
    waiting.push(...reply.hits);
    whole = reply.hits.length === LOADED;
    const first = next();
    if (!elsewhere) first?.focus();
  };
  more.addEventListener("click", () => {
    if (waiting.length) return next().focus();
    const offset = list.children.length;
    return below({ offset, k: Math.min(LOADED, MOST - offset) }, put);
  });
  next();
  return el("div", { class: "column" }, list, more);
}

function examples(corpus) {
  const queries = Object.hasOwn(EXAMPLES, corpus) ? EXAMPLES[corpus] : [];
  const example = (query) => el("a", { href: address("search", { corpus, query }) }, query);
  return queries.length > 0 && el("p", { class: "examples" }, "Try ", queries.map(example));
}

function rankings() {
  const options = Object.entries(MODES).map(([value, name]) => el("option", { value }, name));
  return el("select", { "aria-label": "Ranking by" }, options);
}

/** A field for one line of words. */
export function searchField(label, placeholder) {
  const typing = { autocomplete: "off", spellcheck: "false", maxlength: "4096", enterkeyhint: "search", dir: "auto" };
  return el("input", { type: "search", ...typing, "aria-label": label, placeholder });
}

/** That field with its button, and options below it. */
export function askForm(field, action, ...options) {
  const button = el("button", { type: "submit", class: "primary" }, action);
  const row = el("div", { class: "field" }, field, el("kbd", { "aria-hidden": "true" }, "/"), button);
  return el("form", { role: "search", class: "ask-form" }, row, el("div", { class: "options" }, options));
}

/** The first words of a view. */
export const hero = (heading, text) => el("div", { class: "hero" }, el("h1", {}, heading), el("p", {}, text));

function parsed(filter) {
  try {
    const filters = JSON.parse(filter || "{}");
    return filters !== null && typeof filters === "object" && !Array.isArray(filters) ? filters : {};
  } catch {
    return {};
  }
}

function facetBox(beside, hits) {
  const open = matchMedia("(min-width: 60rem)").matches;
  const about = el("p", { class: "muted" }, `among the best ${hits}`);
  return el("details", { class: "facets", open }, el("summary", {}, "Narrow down"), about, beside);
}

const summary = ({ total, took_ms: took }) => `Best of ${number(total)} in ${took.toFixed(took < 10 ? 1 : 0)} ms`;

function nothing({ filter }) {
  const narrowed = Object.keys(filter).length > 0;
  const advice = narrowed ? "Lift one of the conditions above." : "Try other words, or another corpus.";
  return el("section", { class: "empty column" }, el("h2", {}, "Nothing found"), el("p", {}, advice));
}

function elsewhere() {
  const card = (href, name, text) => el("a", { class: "card", href }, el("b", {}, name), el("span", {}, text));
  return el(
    "nav",
    { class: "cards", "aria-label": "What else there is" },
    card("#ask", "Ask", "A question to a reference, answered in its exact words."),
    card("#classify", "Classify", "Sort texts under labels that you only have to name."),
    card("#corpora", "Corpora", "What is served here, and how well it was measured to do."),
  );
}
