// Classify: texts by labels given by name, or by those of a trained classifier.

import { get, latest, post } from "./api.js";
import { counted, el, number, quoted, say } from "./dom.js";
import { note } from "./address.js";
import { problemCard } from "./problem.js";
import { present, wait } from "./results.js";
import { hero } from "./search.js";

const RANKED = 5; // labels of a text that are shown
const SHOWN = 100; // texts that are shown at once
const ADDRESSED = 2_000; // characters of texts and labels that the address keeps
const TOGETHER =
  "Each text's neighbours among the others count, too. Worth it from some 100 texts of one kind; fewer gain " +
  "little. Not with several labels or a trained classifier.";
const EXAMPLE = {
  labels: "sports, politics, technology, food",
  texts: [
    "The striker scored twice in the final",
    "Parliament votes on the budget tonight",
    "The new chip halves the power a phone needs",
    "Let the dough rest overnight before you bake it",
  ].join("\n"),
};

/** The view, in `root`. */
export function classify(root) {
  const run = latest();
  const load = latest(); // beside it: coming back to this view ends nothing
  const texts = area("texts", 7, "One text a line");
  const labels = area("labels", 3, "Names or phrases, between commas or one a line");
  const source = el("select", { id: "label-source" }, el("option", { value: "" }, "labels that I name"));
  const several = el("input", { type: "checkbox", id: "several" });
  const together = el("input", { type: "checkbox", id: "together", "aria-describedby": "about-together" });
  const named = el("div", { class: "group named" }, el("label", { for: "labels" }, "Labels"), labels);
  const form = classifyForm(texts, named, source, several, together);
  const results = el("div", { class: "results" });
  const about = "Labels need no training, only names. Add, drop and rename them as you go.";
  root.append(hero("Sort texts under any names.", about), el("div", { class: "halves" }, form, results));

  form.addEventListener("submit", (event) => (event.preventDefault(), send()));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
  });
  form.querySelector(".example").addEventListener("click", () => {
    source.value = "";
    [labels.value, texts.value] = [EXAMPLE.labels, EXAMPLE.texts];
    offerOptions();
    send();
  });
  for (const choice of [source, several, together]) choice.addEventListener("change", offerOptions);

  /** A trained classifier takes neither option, and each excludes the other. */
  function offerOptions() {
    const trained = source.value !== "";
    named.hidden = trained;
    several.disabled = trained || together.checked;
    together.disabled = trained || several.checked;
  }

  function request() {
    const body = { texts: texts.value.split("\n").map((line) => line.trim()).filter(Boolean) };
    if (source.value) return { ...body, classifier: source.value };
    return { ...body, labels: split(labels.value), multi_label: several.checked, transductive: together.checked };
  }

  /** What is in the address already is not noted there again: by now it may be another's. */
  function send(noted = true) {
    const body = request();
    const missing = !body.texts.length ? texts : body.labels && !body.labels.length ? labels : null;
    if (missing) return missing.focus();
    if (noted) keep();
    wait(results);
    return run((signal) => post("classify", body, signal), (reply) => draw(body, reply), failed);
  }

  function failed(problem) {
    present(results, problemCard(problem, send));
  }

  function draw(body, reply) {
    present(results, (reply.warnings ?? []).map(warning), summary(reply.results), textList(body.texts, reply.results));
    say(`${counted(reply.results.length, "text", "texts")} classified.`);
  }

  /** In the address, as long as it is not too long for one. */
  function keep() {
    const short = texts.value.length + labels.value.length <= ADDRESSED;
    const own = { labels: labels.value, several: several.checked ? "1" : "", together: together.checked ? "1" : "" };
    const sortedBy = source.value ? { classifier: source.value } : own;
    note("classify", short ? { ...sortedBy, texts: texts.value } : {});
  }

  async function show(values) {
    if (values.texts) texts.value = values.texts;
    if (values.labels) labels.value = values.labels;
    const own = values.texts || values.labels;
    if (own) {
      several.checked = values.several === "1";
      together.checked = values.together === "1" && !several.checked;
    }
    const offerThem = ({ classifiers }) => offer(classifiers, values.classifier ?? (own ? "" : source.value));
    const ready = () => (offerOptions(), values.texts && send(false));
    await load((signal) => get("classifiers", signal), (reply) => (offerThem(reply), ready()), ready);
  }

  function offer(classifiers, chosen) {
    const serving = classifiers.filter(({ state }) => state === "serving");
    source.replaceChildren(source.firstChild, ...serving.map(classifierOption));
    source.value = chosen;
    if (source.selectedIndex < 0) source.value = "";
    form.querySelector(".sources").hidden = source.options.length < 2;
  }

  return { show, field: texts };
}

const area = (id, rows, placeholder) => el("textarea", { id, rows: String(rows), placeholder, spellcheck: "false", dir: "auto" });

function classifierOption({ name, labels }) {
  return el("option", { value: name }, labels ? `${name} (${counted(labels.length, "label", "labels")})` : name);
}

function classifyForm(texts, named, source, several, together) {
  return el(
    "form",
    { class: "classify-form" },
    el("div", { class: "group sources", hidden: true }, el("label", { for: "label-source" }, "Sort under"), source),
    named,
    el("div", { class: "group" }, el("label", { for: "texts" }, "Texts"), texts),
    el("p", { class: "check" }, several, el("label", { for: "several" }, "Several labels may fit one text")),
    el(
      "p",
      { class: "check" },
      together,
      el("label", { for: "together" }, "Let similar texts decide together"),
      el("small", { id: "about-together" }, TOGETHER),
    ),
    el(
      "p",
      { class: "row" },
      el("button", { type: "submit", class: "primary" }, "Classify"),
      el("button", { type: "button", class: "example" }, "Show me an example"),
    ),
  );
}

/** One a line where there are lines, else between commas. */
function split(text) {
  const parts = text.split(text.trim().includes("\n") ? "\n" : ",");
  return parts.map((label) => label.trim()).filter(Boolean);
}

const warning = (text) => el("p", { class: "notice", role: "note" }, quoted(text));

function summary(results) {
  if (results.length < 4) return null;
  const counts = new Map();
  for (const label of results.flatMap(fitting)) counts.set(label, (counts.get(label) ?? 0) + 1);
  const common = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 8);
  const counted = ([label, count]) => el("span", {}, el("b", {}, number(count)), label ?? "none");
  return el("p", { class: "summary" }, common.map(counted));
}

function textList(texts, results) {
  const list = el("ol", { class: "classified" });
  const more = el("button", { type: "button", class: "more" }, "More");
  const next = () => {
    const from = list.children.length;
    list.append(...results.slice(from, from + SHOWN).map((result, i) => textCard(texts[from + i], result)));
    more.hidden = list.children.length >= results.length;
  };
  more.addEventListener("click", next);
  next();
  return [list, more];
}

/** The labels of a result: all that fit, if several may; `null` for none. */
const fitting = ({ label, labels }) => (labels?.length ? labels : [labels ? null : label]);

function textCard(text, result) {
  const top = result.ranking.slice(0, RANKED).map((row) => scoreRow(row, fitting(result).includes(row.label)));
  const start = text.length > 300 ? `${text.slice(0, 300)}…` : text;
  return el("li", { class: "card" }, el("p", { class: "text" }, start), el("ul", { class: "scores" }, top));
}

function scoreRow({ label, score }, best) {
  const percent = `${(score * 100).toFixed(score >= 0.0995 ? 0 : 1)} %`;
  return el(
    "li",
    { class: best ? "best" : null },
    el("span", { class: "name" }, label),
    el("span", { class: "bar", vars: { share: score } }),
    el("span", { class: "value" }, percent),
  );
}
