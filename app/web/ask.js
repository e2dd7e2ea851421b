// Ask: a question to a reference, and its answers, marked in their passages.

import { post } from "./api.js";
import { chooser } from "./chooser.js";
import { corpusView } from "./corpusview.js";
import { el, isSite, link, quoted, say } from "./dom.js";
import { askForm, hero, searchField } from "./form.js";
import { hitCard, prose, walk } from "./hits.js";
import { unitSpans } from "./marks.js";
import { address, go } from "./address.js";
import { keep, present } from "./results.js";
import { exampleQuestions, nothingToAsk } from "./welcome.js";

const ABOUT = "Answers are stretches of the reference itself. Nothing is made up.";

/** The view, in `root`. */
export function ask(root) {
  const field = searchField("Question", "What would you like to know?");
  const corpora = chooser(isReference, again, { arrived: () => view.arrived() });
  const form = askForm(field, "Ask", () => again(corpora.value()), corpora.node);
  const results = el("div", { class: "results" });
  root.append(hero("Ask, and get the exact words.", ABOUT), form, results);
  walk(field, results);

  const welcome = () => exampleQuestions(corpora.value());
  const parts = { root, field, corpora, results, welcome };
  const view = corpusView({ ...parts, words: "question", nothing: nothingToAsk, ask: send });

  /** Ask this corpus. Without a question there is nothing to ask yet, and the answers to the last one go. */
  function again(corpus) {
    const question = field.value.trim();
    return question ? go("ask", { corpus, question }) : view.clear({ corpus });
  }

  function send(corpus) {
    const { question } = view.values();
    const unanswered = (problem) => {
      const hasNoReader = problem.status === 404 && !problem.errors.length;
      if (hasNoReader) searchInstead(problem, question, corpus);
      else view.failed(problem);
    };
    view.send((signal) => post("qa", { question, corpus, k: 3 }, signal), draw, unanswered);
  }

  function draw(reply) {
    present(results, verdict(reply), answerList(reply), passages(reply));
    keep(results);
    say(reply.answers.length ? `${likelihood(reply)}: ${reply.answers[0].text}` : "No answer.");
  }

  /** The search needs no reader: its hits take the answers' place. */
  function searchInstead(problem, query, corpus) {
    const notice = noReader(problem, address("search", { corpus, query }));
    say(`This server has no reader. ${problem.detail}`);
    const send = (signal) => post("search", { corpus, query, k: 5 }, signal);
    view.send(send, ({ hits }) => present(results, notice, hitsOf(hits)));
  }

  return { show: view.show, field };
}

const isReference = ({ kind }) => kind === "reference" || kind === undefined;

function noReader({ detail }, href) {
  return el(
    "section",
    { class: "notice no-reader" },
    el("h2", {}, "Passages instead of answers"),
    el("p", {}, quoted(detail)),
    el("p", {}, "Until then, here is what the search finds. ", el("a", { href }, "Open it in Search")),
  );
}

const hitsOf = (hits) => el("ol", { class: "hits" }, hits.map((hit) => hitCard(hit, "reference", () => null)));

function answerList(reply) {
  const cards = reply.answers.map((answer, i) => answerCard(answer, i === 0));
  return el("div", { class: isSure(reply) ? "answers sure" : "answers" }, cards);
}

function passages({ hits }) {
  if (!hits.length) return null;
  return el("details", { class: "passages" }, el("summary", {}, "The passages that were read"), hitsOf(hits));
}

const isSure = ({ answerable }) => answerable >= 0.5;
const likelihood = (reply) =>
  isSure(reply) ? "The reference seems to answer this" : "The reference may well be silent on this";

/** How sure it is that the reference answers at all. */
function verdict(reply) {
  return el(
    "div",
    { class: isSure(reply) ? "verdict sure" : "verdict" },
    el("h2", {}, likelihood(reply)),
    el("span", { class: "bar", vars: { share: reply.answerable } }),
    el("span", {}, `${Math.round(reply.answerable * 100)} %`),
    el("small", {}, `read by ${reply.reader}`),
    reply.read_as && el("small", {}, `as: ${reply.read_as}`),
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
  return isSite(url) ? link(url, {}, "Read it at ", siteAndPath(url)) : el("span", { class: "path" }, url);
}

/** An address without its scheme, to be broken after its slashes: `docs.python.org/3/library/os.html#os.replace`. */
function siteAndPath(url) {
  const parts = url.replace(/^https?:\/\//i, "").split("/");
  return parts.map((part, i) => (i ? ["/", el("wbr"), part] : part));
}

function score({ score: value }) {
  const bar = el("span", { class: "bar", vars: { share: value } });
  return el("p", { class: "score" }, el("span", { class: "unseen" }, "Score "), el("b", {}, value.toFixed(2)), bar);
}
