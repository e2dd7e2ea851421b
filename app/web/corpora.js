// Corpora and classifiers: their states, builds and measured quality.

import { Problem, get, latest } from "./api.js";
import { measureTable } from "./chart.js";
import { progress, units } from "./chooser.js";
import { counted, el, number, quoted, say } from "./dom.js";
import { words } from "./fields.js";
import { hero } from "./form.js";
import { address } from "./address.js";
import { problemCard } from "./problem.js";
import { present, wait } from "./results.js";
import { nothingToSearch } from "./welcome.js";

const MOST = 60; // of each, that are asked for details
const POLL_MS = 2000; // while something is being built, or there is nothing

/** The view, in `root`. */
export function corpora(root) {
  const run = latest();
  const results = el("div", { class: "results" });
  const about = "Each build is immutable and checksummed. A new one takes over by itself, and the last three are kept.";
  root.append(hero("What is served here.", about), results);

  let timer = null;
  let drawn = { corpora: [], classifiers: [] };

  async function show() {
    wait(results);
    await run((signal) => described(signal), announced, failed);
  }

  /** Look again without a sign of it: what is seen stays until there is something new. */
  function look() {
    if (root.hidden || document.hidden) return follow();
    return run((signal) => described(signal, drawn), draw, failed);
  }

  function follow() {
    clearTimeout(timer);
    timer = setTimeout(look, POLL_MS);
  }

  function failed(problem) {
    present(results, problemCard(problem, show));
  }

  function announced(reply) {
    draw(reply);
    say(`${counted(reply.corpora.length, "corpus", "corpora")}.`);
  }

  function draw(reply) {
    drawn = reply;
    const { corpora: served, classifiers } = reply;
    const opened = results.querySelectorAll("details[open]");
    const names = [...opened].map((node) => node.closest("article").dataset.name);
    const card = (corpus) => corpusCard(corpus, names.includes(corpus.name));
    const stock = (cards) => el("div", { class: "stock" }, cards);
    const sorters = classifiers.length > 0 && [el("h2", {}, "Classifiers"), stock(classifiers.map(classifierCard))];
    const built = served.length ? [el("h2", {}, "Corpora"), stock(served.map(card))] : nothingToSearch([]);
    present(results, built, sorters);
    if (!served.length || served.some(({ building, state }) => building || state === "opening")) follow();
  }

  return { show, field: null };
}

/** What is served, in detail; builds that are in `before` are not asked for again. */
async function described(signal, before = { corpora: [], classifiers: [] }) {
  const { corpora: served } = await get("corpora", signal);
  const classifiers = await get("classifiers", signal).then((reply) => reply.classifiers, refused);
  return {
    corpora: await details("corpora", served, before.corpora, signal),
    classifiers: await details("classifiers", classifiers, before.classifiers, signal),
  };
}

/** A key for searches does not open classifiers: then there are none to show. */
function refused(error) {
  if (error instanceof Problem && error.status === 403) return [];
  throw error;
}

/** One after the other: a page that is only looked at shall not take all places of a busy server. */
async function details(path, briefs, before, signal) {
  const detailed = [];
  for (const brief of briefs) {
    const earlier = before.find(({ name, build }) => name === brief.name && build === brief.build);
    const isNew = brief.state === "serving" && !earlier && detailed.length < MOST;
    const detail = isNew ? await detailOf(`${path}/${encodeURIComponent(brief.name)}`, signal) : earlier;
    // Of a build, these can have changed.
    detailed.push({ ...detail, problem: undefined, building: undefined, ...brief });
  }
  return detailed;
}

async function detailOf(path, signal) {
  try {
    return await get(path, signal);
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
  }
}

/** What one looks for first is on the card, the rest of the build unfolds. */
function corpusCard(corpus, isOpen) {
  const { documents, judged } = corpus;
  const measures = measureTable(corpus.measures);
  const size = ifAny(documents, (count) => counted(count, ...units(corpus.kind)));
  const gist = [size ?? corpus.kind, ifAny(corpus.bytes, bytes)];
  const facts = {
    "Being built": ifAny(corpus.building, underWay),
    Built: ifAny(corpus.created_at, when),
    Sources: corpus.sources?.join(", "),
    "Since then": ifAny(corpus.stale, moved),
    "Left out": corpus.skipped ? number(corpus.skipped) : null,
    Warning: corpus.warning,
    "Judged by": ifAny(judged, ({ queries, measure }) => `${counted(queries, "query", "queries")}, ${measure}`),
  };
  const build = {
    Passages: corpus.passages === documents ? null : ifAny(corpus.passages, number),
    "Build took": ifAny(corpus.took_s, seconds),
    Encoder: corpus.encoder?.name,
    Splitter: corpus.splitter,
    Build: corpus.build && el("code", {}, corpus.build),
  };
  const rest = [factList(build), !judged && measures];
  const href = address("search", { corpus: corpus.name });
  return stockCard(
    corpus,
    gist,
    judged && measures,
    factList(facts),
    corpus.build && el("details", { open: isOpen }, el("summary", {}, "About this build"), rest),
    open(corpus, "Search it", href),
  );
}

function classifierCard(classifier) {
  const labels = classifier.labels ?? [];
  const facts = {
    Labels: labels.slice(0, 12).join(", ") + (labels.length > 12 ? ` and ${labels.length - 12} more` : ""),
    Trained: ifAny(classifier.created_at, when),
    Encoder: classifier.encoder?.name,
    Build: classifier.build && el("code", {}, classifier.build),
  };
  const href = address("classify", { classifier: classifier.name });
  const gist = [labels.length > 0 && counted(labels.length, "label", "labels"), ifAny(classifier.bytes, bytes)];
  const measures = measureTable(classifier.measures);
  return stockCard(classifier, gist, measures, factList(facts), open(classifier, "Use it", href));
}

const open = ({ state }, text, href) => state === "serving" && el("p", {}, el("a", { class: "open", href }, text));

function factList(facts) {
  const rows = Object.entries(facts).filter(([, value]) => value);
  return el("dl", { class: "facts" }, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function stockCard(item, gist, ...parts) {
  return el(
    "article",
    { class: "card stock-card", "data-name": item.name },
    el(
      "header",
      {},
      el("h3", {}, item.name),
      el("span", { class: `state ${item.state}` }, item.state),
      el("p", { class: "muted" }, gist.filter(Boolean).join(" · ")),
    ),
    item.problem && el("p", { class: "notice" }, quoted(item.problem)),
    parts,
  );
}

/** How far a build is, how long it still takes, and whose vectors it makes. */
function underWay(building) {
  const { remaining_s: remaining, encoder } = building;
  return [progress(building), ifAny(remaining, (left) => `${seconds(left)} left`), encoder].filter(Boolean).join(", ");
}

/** What has become of the sources since the build. */
function moved({ reachable, complete, changed, added, removed }) {
  if (!reachable) return "sources out of reach";
  const counts = { changed, added, removed };
  const parts = Object.entries(counts).flatMap(([what, count]) => (count ? [`${number(count)} ${what}`] : []));
  return `${parts.join(", ") || "nothing changed"}${complete ? "" : ", at least"}`;
}

// ---- figures

const ifAny = (value, format) => (value === undefined || value === null ? null : format(value));

function bytes(size) {
  const sizes = ["bytes", "kB", "MB", "GB", "TB"];
  const power = Math.min(sizes.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, size)) / 3)));
  const value = size / 1000 ** power;
  return `${value.toFixed(power && value < 10 ? 1 : 0)} ${sizes[power]}`;
}

function seconds(took) {
  if (took < 90) return `${took < 10 ? took.toFixed(1) : Math.round(took)} s`;
  return took < 5400 ? `${Math.round(took / 60)} min` : `${(took / 3600).toFixed(1)} h`;
}

function when(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const local = at.toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
  return el("time", { datetime: iso }, local);
}
