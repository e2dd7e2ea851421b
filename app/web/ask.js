// Ask: a question to a reference, and its answers, marked in their passages.

import { latest, post } from "./api.js";
import { chooser, noCorpora, soon } from "./chooser.js";
import { el, isSite, link, quoted, say } from "./dom.js";
import { hitCard, prose, walk } from "./hits.js";
import { unitSpans } from "./marks.js";
import { address, go } from "./address.js";
import { problemCard } from "./problem.js";
import { present, wait } from "./results.js";
import { askForm, hero, searchField } from "./search.js";

const EXAMPLES = {
  python: [
    "What is the default step of range?",
    "What does os.replace do if the target exists?",
    "When is StopIteration raised?",
  ],
};

/** The view, in `root`. */
export function ask(root) {
  let current = {}; // the values of the address
  let waiting = false; // no reference can be asked yet, or the question was refused for now
  const run = latest();
  const field = searchField("Question", "What would you like to know?");
  const corpora = chooser(
    (corpus) => corpus.kind === "reference" || corpus.kind === undefined,
    again,
    { arrived: () => waiting && show(current) },
  );
  const form = askForm(field, "Ask", corpora.node);
  const results = el("div", { class: "results" });
  const about = "Answers are stretches of the reference itself. Nothing is made up.";
  root.append(hero("Ask, and get its exact words.", about), form, results);
  walk(field, results);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) go("ask", { corpus: corpora.value(), question: field.value.trim() });
  });

  /** Ask another corpus the same; without a question there is nothing to ask yet, nor what was asked before. */
  function again(corpus) {
    if (field.value.trim()) return go("ask", { corpus, question: field.value.trim() });
    return run(() => null, welcome, failed);
  }

  async function show(values) {
    current = values;
    waiting = false;
    field.value = values.question ?? "";
    root.classList.toggle("fresh", !values.question);
    await run(() => corpora.load(), () => loaded(values), failed);
  }

  function loaded(values) {
    if (!corpora.listed().length) return present(results, noCorpora("reference"));
    corpora.select(values.corpus);
    waiting = !corpora.value();
    if (waiting && !values.question) return present(results, soon(corpora.listed()));
    return values.question ? question(values.question, values.corpus || corpora.value()) : welcome();
  }

  function failed(problem) {
    waiting = problem.status === 503;
    present(results, problemCard(problem, () => show(current)));
  }

  function question(text, corpus) {
    const unanswered = (problem) => {
      const noReader = problem.status === 404 && !problem.errors.length;
      if (noReader) withoutReader(problem, text, corpus);
      else failed(problem);
    };
    wait(results);
    run((signal) => post("qa", { question: text, corpus, k: 3 }, signal), draw, unanswered);
  }

  function draw(reply) {
    const cards = reply.answers.map((answer, i) => answerCard(answer, i === 0));
    const read = [el("summary", {}, "The passages that were read"), list(reply.hits)];
    const others = reply.hits.length > 0 && el("details", { class: "passages" }, read);
    present(results, verdict(reply), el("div", { class: "answers" }, cards), others);
    say(reply.answers[0]?.text ?? "No answer.");
  }

  /** The search needs no reader: its hits take the answers' place. */
  function withoutReader(problem, query, corpus) {
    const searched = el("a", { href: address("search", { corpus, query }) }, "Open it in Search");
    const notice = el(
      "section",
      { class: "notice no-reader" },
      el("h2", {}, "Passages instead of answers"),
      el("p", {}, quoted(problem.detail)),
      el("p", {}, "Until then, here is what the search finds. ", searched),
    );
    say(`This server has no reader. ${problem.detail}`);
    const showHits = (reply) => present(results, notice, list(reply.hits));
    run((signal) => post("search", { corpus, query, k: 5 }, signal), showHits, failed);
  }

  function welcome() {
    const examples = Object.hasOwn(EXAMPLES, corpora.value()) ? EXAMPLES[corpora.value()] : [];
    const example = (text) => el("a", { href: address("ask", { corpus: corpora.value(), question: text }) }, text);
    present(results, examples.length > 0 && el("p", { class: "examples" }, "Try ", examples.map(example)));
  }

  return { show, field };
}

const list = (hits) => el("ol", { class: "hits" }, hits.map((hit) => hitCard(hit, "reference", () => null)));

/** How sure it is that the reference answers at all. */
function verdict({ answerable, reader }) {
  const sure = answerable >= 0.5;
  const text = sure ? "The reference seems to answer this" : "The reference may well be silent on this";
  return el(
    "div",
    { class: sure ? "verdict sure" : "verdict" },
    el("h2", {}, text),
    el("span", { class: "bar", vars: { share: answerable } }),
    el("span", {}, `${Math.round(answerable * 100)} %`),
    el("small", {}, `read by ${reader}`),
  );
}

function answerCard(answer, best) {
  const marks = unitSpans(answer.passage, [[answer.start, answer.end]]);
  const passage = prose(answer.passage, marks, 0, Infinity);
  const { sentence } = answer;
  const names = [...answer.terms, answer.title].filter((name, i, all) => name && all.indexOf(name) === i);
  return el(
    "article",
    { class: best ? "answer best" : "answer" },
    el("header", {}, el("h3", {}, answer.text), score(answer)),
    sentence && sentence.text !== answer.text && el("p", { class: "says" }, sentence.text),
    el("p", { class: "trail" }, names.map((name) => el("span", {}, name))),
    best || !sentence ? passage : el("details", { class: "context" }, el("summary", {}, "In its passage"), passage),
    answer.url && el("p", { class: "source-link" }, source(answer.url)),
  );
}

/** A link to the answer's page, or the path of its file where the reference has no address. */
function source(url) {
  return isSite(url) ? link(url, {}, "Read it in the reference") : el("span", { class: "path" }, url);
}

function score({ score: value }) {
  const bar = el("span", { class: "bar", vars: { share: value } });
  return el("p", { class: "score" }, el("b", {}, value.toFixed(2)), bar);
}
