// Search: a query to corpora, its hits and their facets.

import { Problem, post } from "./api.js";
import { chooser, kindsOf, requested } from "./chooser.js";
import { corpusView } from "./corpusview.js";
import { el, number, say } from "./dom.js";
import { conditions, facets } from "./facets.js";
import { askForm, hero, searchField } from "./form.js";
import { hitList } from "./hitlist.js";
import { hitCard, walk } from "./hits.js";
import { go } from "./address.js";
import { keep, present } from "./results.js";
import { exampleQueries, nothingToSearch, otherViews } from "./welcome.js";

const LOADED = 50; // hits in one request: facets count in them
const MODES = { hybrid: "Meaning and words", dense: "Meaning", lexical: "Words" };
const ABOUT = "Code, products and references, searched by meaning and by words. On your machine, and nowhere else.";

/** The view, in `root`. */
export function search(root) {
  const field = searchField("Query", "What are you looking for?");
  const mode = modeMenu(() => again({}));
  const corpora = chooser(
    () => true,
    (corpus) => again({ corpus, filter: "" }),
    { several: true, arrived: () => view.arrived() },
  );
  const ranking = el("label", { class: "mode" }, el("span", {}, "Rank by"), mode);
  const results = el("div", { class: "results" });
  const form = askForm(field, "Search", () => again({}), corpora.node, ranking);
  root.append(hero("Find it by what it does.", ABOUT), form, results);
  walk(field, results);

  const fill = (values) => (mode.value = modeIn(values));
  const welcome = () => [exampleQueries(corpora.value()), otherViews()];
  const above = (values) => overview("", conditions(filterIn(values), narrow, clear));
  const parts = { root, field, corpora, results, fill, welcome, above };
  const view = corpusView({ ...parts, words: "query", nothing: nothingToSearch, ask });

  /** Search again with a change. Without a query there is nothing to search yet, and the hits of the last one go. */
  function again(change) {
    const ranked = mode.value === "hybrid" ? "" : mode.value;
    const entered = { corpus: corpora.value(), query: field.value.trim(), mode: ranked };
    const values = { ...entered, filter: view.values().filter, ...change };
    return values.query ? go("search", values) : view.clear(values);
  }

  /** Search again with `update` of a field's condition in its place, undefined for none. */
  function narrow(name, update) {
    const filter = filterIn(view.values());
    const narrowed = JSON.stringify({ ...filter, [name]: update(filter[name]) });
    again({ filter: narrowed === "{}" ? "" : narrowed });
  }

  const clear = () => again({ filter: "" });

  function ask(corpus) {
    const request = searchRequest(view.values(), corpus, kindsOf(corpus, corpora.listed()));
    view.send((signal) => searched(request, signal), (replies) => draw(request, replies));
  }

  function draw(request, { reply, beside }) {
    const only = (name, value) => narrow(name, () => value);
    const card = (hit) => hitCard(hit, corpora.kind(hit.corpus ?? reply.corpus) ?? "reference", only);
    const load = (page, put, missed) => view.sendMore((signal) => relevant({ ...request, ...page }, signal), put, missed);
    const hits = reply.hits.length ? hitList(reply, request.k, card, load) : nothing(request);
    const isOpen = results.querySelector(".facets")?.open ?? matchMedia("(min-width: 60rem)").matches;
    const heading = reply.hits.length > 0 && summary(reply);
    const above = overview(heading, conditions(request.filter, narrow, clear));
    present(results, above, notes(reply), facetBox(reply, beside, request.filter, narrow, isOpen), hits);
    keep(results);
    say(heading || "Nothing found.");
  }

  return { show: view.show, field };
}

function modeMenu(change) {
  const options = Object.entries(MODES).map(([value, name]) => el("option", { value }, name));
  return el("select", { "aria-label": "Ranking by", change }, options);
}

const modeIn = ({ mode = "" }) => (Object.hasOwn(MODES, mode) ? mode : "hybrid");

/** The body of a request for what the address asks of corpora of these kinds. */
function searchRequest(values, corpus, kinds) {
  const { query } = values;
  const request = { corpus: requested(corpus), query, mode: modeIn(values), filter: filterIn(values), k: LOADED };
  return kinds.includes("product") ? { ...request, group_by: "parent" } : request;
}

/**
 * The reply to a search and, for each field of its filter, the hits that it would have without that field's condition.
 * The hits are worth showing without these.
 */
async function searched(request, signal) {
  const withoutOne = async (name) => {
    const { [name]: _, ...filter } = request.filter;
    return relevant({ ...request, filter }, signal).then(({ hits }) => [name, hits], uncounted);
  };
  const first = relevant(request, signal); // where a key allows few requests, these are the ones to have
  const [reply, ...counted] = await Promise.all([first, ...Object.keys(request.filter).map(withoutOne)]);
  return { reply, beside: new Map(counted.filter(Boolean)) };
}

/** The reply to a search without the hits whose score is shown as 0.00: they have nothing to do with the query. */
async function relevant(request, signal) {
  const reply = await post("search", request, signal);
  return { ...reply, hits: reply.hits.filter(({ score }) => score.toFixed(2) > 0) };
}

function uncounted(error) {
  if (error instanceof Problem) return null;
  throw error;
}

/** The filter in an address; none where it cannot be read. It has no prototype: a field may be named `constructor`. */
function filterIn({ filter }) {
  const conditions = Object.create(null);
  try {
    const read = JSON.parse(filter || "{}");
    if (typeof read === "object" && !Array.isArray(read)) Object.assign(conditions, read);
  } catch {
    // What is no JSON is no filter.
  }
  return conditions;
}

// ---- what is drawn of a reply

const summary = ({ total, took_ms: took }) => `Best of ${number(total)} in ${took.toFixed(took < 10 ? 1 : 0)} ms`;

const overview = (heading, conditions) => el("div", { class: "overview" }, heading && el("h2", {}, heading), conditions);

function notes({ corrected, warning }) {
  return [
    corrected && el("p", { class: "muted" }, `Searched for “${corrected}”.`),
    warning && el("p", { class: "muted warning" }, warning),
  ];
}

function facetBox(reply, beside, filter, narrow, open) {
  const hits = withVariants(reply.hits);
  const wider = new Map([...beside].map(([name, hits]) => [name, withVariants(hits)]));
  const sections = facets(hits, wider, filter, narrow);
  if (!sections.length) return null;
  const about = hits.length > 0 && el("p", { class: "muted" }, `among the best ${hits.length}`);
  return el("details", { class: "facets", open }, el("summary", {}, "Narrow down"), about, sections);
}

/** Hits with the variants of each as hits of their own. */
function withVariants(hits) {
  const variants = (hit) => (hit.variants ?? []).map(({ fields }) => ({ fields: { ...hit.fields, ...fields } }));
  return hits.flatMap((hit) => [hit, ...variants(hit)]);
}

function nothing({ filter }) {
  const narrowed = Object.keys(filter).length > 0;
  const advice = narrowed ? "Lift one of the conditions above." : "Try other words, or another corpus.";
  return el("section", { class: "empty column" }, el("h2", {}, "Nothing found"), el("p", {}, advice));
}
