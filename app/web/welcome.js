// What a view shows where nothing was asked yet, or nothing can be.

import { address } from "./address.js";
import { el } from "./dom.js";

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

/** What to do where there is no corpus of that kind. */
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

/** What is being built where nothing can be searched yet; it is replaced as soon as that changes. */
export function soon(corpora) {
  const names = corpora.filter(({ state }) => state !== "refused").map(({ name }) => name);
  return el(
    "section",
    { class: "empty soon" },
    el("h2", {}, "Nothing to search yet"),
    el("p", {}, `The server is reading ${names.join(", ")}. Each can be searched as soon as it is read.`),
  );
}
