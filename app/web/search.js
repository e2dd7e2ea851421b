// Search: a query to corpora, its hits and their facets.

import { latest, post } from "./api.js";
import { chooser, kindsOf, requested } from "./chooser.js";
import { el, number, say } from "./dom.js";
import { conditions, facets } from "./facets.js";
import { askForm, hero, searchField } from "./form.js";
import { hitList } from "./hitlist.js";
import { hitCard, walk } from "./hits.js";
import { go } from "./address.js";
import { problemCard } from "./problem.js";
import { isWaiting, keep, keptHere, present, restore, wait } from "./results.js";
import { exampleQueries, nothingToSearch, otherViews } from "./welcome.js";

const LOADED = 50; // hits in one request: facets count in them
const MODES = { hybrid: "Meaning and words", dense: "Meaning", lexical: "Words" };
const ABOUT = "Code, products and references, searched by meaning and by words. On your machine, and nowhere else.";

/** The view, in `root`. */
export function search(root) {
  let values = {}; // those of the address
  let mustWait = false; // nothing can be searched yet, or the search was refused for now
  const run = latest();
  const field = searchField("Query", "What are you looking for?");
  const corpora = chooser(
    () => true,
    (corpus) => again({ corpus, filter: "" }),
    { several: true, arrived: () => mustWait && show(values) },
  );
  const mode = modeMenu(() => again({}));
  const ranking = el("label", { class: "mode" }, el("span", {}, "Rank by"), mode);
  const results = el("div", { class: "results" });
  const form = askForm(field, "Search", () => again({}), corpora.node, ranking);
  root.append(hero("Find it by what it does.", ABOUT), form, results);
  walk(field, results);

  /** Search again with a change. Without a query there is nothing to search yet, and the hits of the last one go. */
  function again(change) {
    const ranked = mode.value === "hybrid" ? "" : mode.value;
    const entered = { corpus: corpora.value(), query: field.value.trim(), mode: ranked };
    const next = { ...entered, filter: values.filter, ...change };
    if (next.query) return go("search", next);
    values = next;
    return run(() => null, welcome, failed);
  }

  const filterBy = (filter) => again({ filter: Object.keys(filter).length ? JSON.stringify(filter) : "" });

  async function show(next) {
    values = next;
    mustWait = false;
    field.value = values.query ?? "";
    mode.value = Object.hasOwn(MODES, values.mode ?? "") ? values.mode : "hybrid";
    root.classList.toggle("fresh", !values.query);
    const before = keptHere();
    if (before) await run(() => before, showAgain, failed);
    else await run(() => corpora.load(values.corpus), answer, failed);
  }

  function showAgain(before) {
    corpora.select(values.corpus);
    restore(results, before);
  }

  function answer() {
    corpora.select(values.corpus);
    const listed = corpora.listed();
    mustWait = !corpora.value();
    if (!listed.length || (mustWait && !values.query)) present(results, nothingToSearch(listed));
    else if (values.query) ask(values.corpus || corpora.value()); // of an unknown one the server tells more
    else welcome();
  }

  const welcome = () => present(results, exampleQueries(corpora.value()), otherViews());

  function failed(problem) {
    mustWait = problem.status === 503;
    const lifts = conditions(filterIn(values), filterBy);
    const overview = lifts.length > 0 && el("div", { class: "overview" }, lifts);
    present(results, overview, problemCard(problem, () => show(values)));
  }

  function ask(corpus) {
    const request = searchRequest(values, corpus, kindsOf(corpus, corpora.listed()));
    wait(results);
    run((signal) => post("search", request, signal), (reply) => draw(request, reply), failed);
  }

  function draw(request, reply) {
    const load = (page, put, missed) => {
      if (isWaiting(results)) return; // another search has begun
      run((signal) => post("search", { ...request, ...page }, signal), put, missed);
    };
    const only = (name, value) => filterBy({ ...request.filter, [name]: value });
    const card = (hit) => hitCard(hit, corpora.kind(hit.corpus ?? reply.corpus) ?? "reference", only);
    const hits = reply.hits.length ? hitList(reply, request.k, card, load) : nothing(request);
    present(results, overview(request, reply, filterBy), notes(reply), facetBox(request, reply, filterBy), hits);
    keep(results);
    say(reply.hits.length ? summary(reply) : "Nothing found.");
  }

  return { show, field };
}

function modeMenu(change) {
  const options = Object.entries(MODES).map(([value, name]) => el("option", { value }, name));
  return el("select", { "aria-label": "Ranking by", change }, options);
}

/** The body of a request for what the address asks of corpora of these kinds. */
function searchRequest(values, corpus, kinds) {
  const mode = Object.hasOwn(MODES, values.mode ?? "") ? values.mode : "hybrid";
  const request = { corpus: requested(corpus), query: values.query, mode, filter: filterIn(values), k: LOADED };
  return kinds.includes("product") ? { ...request, group_by: "parent" } : request;
}

/** The filter in an address; none where it cannot be read. */
function filterIn({ filter }) {
  try {
    const conditions = JSON.parse(filter || "{}");
    const isObject = conditions !== null && typeof conditions === "object" && !Array.isArray(conditions);
    return isObject ? conditions : {};
  } catch {
    return {};
  }
}

// ---- what is drawn of a reply

const summary = ({ total, took_ms: took }) => `Best of ${number(total)} in ${took.toFixed(took < 10 ? 1 : 0)} ms`;

function overview({ filter }, reply, filterBy) {
  return el("div", { class: "overview" }, el("h2", {}, summary(reply)), conditions(filter, filterBy));
}

function notes({ corrected, warning }) {
  return [
    corrected && el("p", { class: "muted" }, `Searched for “${corrected}”.`),
    warning && el("p", { class: "muted warning" }, warning),
  ];
}

function facetBox({ filter }, reply, filterBy) {
  const hits = reply.hits.flatMap(withVariants);
  const sections = facets(hits, filter, filterBy);
  if (!sections.length) return null;
  const open = matchMedia("(min-width: 60rem)").matches;
  const about = el("p", { class: "muted" }, `among the best ${hits.length}`);
  return el("details", { class: "facets", open }, el("summary", {}, "Narrow down"), about, sections);
}

const withVariants = (hit) => [hit, ...(hit.variants ?? []).map(({ fields }) => ({ fields: { ...hit.fields, ...fields } }))];

function nothing({ filter }) {
  const narrowed = Object.keys(filter).length > 0;
  const advice = narrowed ? "Lift one of the conditions above." : "Try other words, or another corpus.";
  return el("section", { class: "empty column" }, el("h2", {}, "Nothing found"), el("p", {}, advice));
}
