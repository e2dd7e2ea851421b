// What a view shows where nothing was asked yet, or nothing can be.

import { address } from "./address.js";
import { el, quoted } from "./dom.js";

// For the corpora that `purlin index demo` makes; of others nobody knows what is in them.
const QUERIES = {
  code: ["remove a directory tree", "parse a date", "retry after a timeout"],
  python: ["default step of range", "read a file line by line", "how to sort a list of tuples"],
  products: ["light for reading in bed", "quiet laptop for lectures", "cable to charge a laptop"],
};
const QUESTIONS = {
  python: [
    "What is the default step of range?",
    "What does os.replace do if the target exists?",
    "When is StopIteration raised?",
  ],
};

export const exampleQueries = (corpus) => examples(QUERIES, corpus, (query) => address("search", { corpus, query }));

export const exampleQuestions = (corpus) =>
  examples(QUESTIONS, corpus, (question) => address("ask", { corpus, question }));

function examples(texts, corpus, href) {
  if (!Object.hasOwn(texts, corpus)) return null;
  const links = texts[corpus].map((text) => el("a", { href: href(text) }, text));
  return el("p", { class: "examples" }, "Try ", links);
}

/** Links to the other views. */
export function otherViews() {
  const card = (href, name, text) => el("a", { class: "card", href }, el("b", {}, name), el("span", {}, text));
  return el(
    "nav",
    { class: "cards", "aria-label": "What else there is" },
    card("#ask", "Ask", "A question to a reference, answered in its exact words."),
    card("#classify", "Classify", "Sort texts under labels that you only have to name."),
    card("#corpora", "Corpora", "What is served here, and how well it was measured to do."),
  );
}

/** What to do, or to wait for, where none of these corpora can be searched. */
export const nothingToSearch = (corpora) => nothing("Nothing to search yet", ["code", "product", "reference"], corpora);

/** The same where no reference can be asked. */
export const nothingToAsk = (corpora) => nothing("No reference to ask yet", ["reference"], corpora);

function nothing(heading, kinds, corpora) {
  const refused = corpora.filter(({ state }) => state === "refused");
  const advice = !corpora.length ? commands(kinds) : refused.length === corpora.length ? why(refused) : soon(corpora);
  return el("section", { class: "empty" }, el("h2", {}, heading), advice);
}

function commands(kinds) {
  const lines = kinds.map((kind) => `purlin index build ${kind} PATH --name NAME`);
  const where = "Index something of your own, in the directory of the server or with its `PURLIN_HOME`. ";
  return [
    el("p", {}, quoted(where), "It appears here by itself."),
    el("pre", { class: "code" }, el("code", {}, lines.join("\n"))),
    el("p", {}, quoted("To try it first, `purlin index demo` indexes three examples.")),
  ];
}

const namesOf = (corpora) => corpora.map(({ name }) => name).join(", ");

function why(refused) {
  return el("p", {}, `The server cannot use ${namesOf(refused)}. `, el("a", { href: "#corpora" }, "See why"));
}

function soon(corpora) {
  const names = namesOf(corpora.filter(({ state }) => state !== "refused"));
  return el("p", { class: "soon" }, `The server is reading ${names}. Each can be searched as soon as it is read.`);
}
