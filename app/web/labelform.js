// The form of the classification: texts, the labels to sort them under, and options.

import { counted, el } from "./dom.js";

const ADDRESSED = 2_000; // characters of texts and labels that the address keeps
const ABOUT_TOGETHER =
  "Each text's neighbours among the others count, too. Worth it from some 100 texts of one kind; fewer gain " +
  "little. Not with several labels or a trained classifier.";

/** The fields of the form, by what they hold. */
export function labelFields() {
  return {
    texts: area("texts", 7, "One text a line"),
    labels: area("labels", 3, "Names or phrases, between commas or one a line"),
    classifier: el("select", { id: "classifier" }, el("option", { value: "" }, "labels that I name")),
    several: el("input", { type: "checkbox", id: "several" }),
    together: el("input", { type: "checkbox", id: "together", "aria-describedby": "about-together" }),
  };
}

const area = (id, rows, placeholder) => el("textarea", { id, rows: String(rows), placeholder, spellcheck: "false", dir: "auto" });

/** The form around them. `send` is called when the texts are to be sorted, `example` when one is to be shown. */
export function labelForm(fields, send, example) {
  const { texts, labels, classifier, several, together } = fields;
  const submit = (event) => (event.preventDefault(), send());
  const keydown = (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && send();
  return el(
    "form",
    { class: "classify-form", submit, keydown, change: () => restrict(fields) },
    el("div", { class: "group", hidden: true }, el("label", { for: "classifier" }, "Sort under"), classifier),
    el("div", { class: "group" }, el("label", { for: "labels" }, "Labels"), labels),
    el("div", { class: "group" }, el("label", { for: "texts" }, "Texts"), texts),
    el("p", { class: "check" }, several, el("label", { for: "several" }, "Several labels may fit one text")),
    el(
      "p",
      { class: "check" },
      together,
      el("label", { for: "together" }, "Let similar texts decide together"),
      el("small", { id: "about-together" }, ABOUT_TOGETHER),
    ),
    el(
      "p",
      { class: "row" },
      el("button", { type: "submit", class: "primary" }, "Classify"),
      el("button", { type: "button", class: "example", click: example }, "Show me an example"),
    ),
  );
}

/** A trained classifier has its own labels and takes neither option, and each option excludes the other. */
export function restrict({ labels, classifier, several, together }) {
  const isTrained = classifier.value !== "";
  labels.parentElement.hidden = isTrained;
  several.disabled = isTrained || together.checked;
  together.disabled = isTrained || several.checked;
}

/** Offer these trained classifiers, and choose one; labels by name where it is not among them. */
export function offer({ classifier }, classifiers, chosen) {
  const serving = classifiers.filter(({ state }) => state === "serving");
  classifier.replaceChildren(classifier.firstChild, ...serving.map(classifierOption));
  classifier.value = chosen;
  if (classifier.selectedIndex < 0) classifier.value = "";
  classifier.parentElement.hidden = classifier.options.length < 2;
}

function classifierOption({ name, labels }) {
  return el("option", { value: name }, labels ? `${name} (${counted(labels.length, "label", "labels")})` : name);
}

/** The body of a request. */
export function requestIn({ texts, labels, classifier, several, together }) {
  const lines = texts.value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (classifier.value) return { texts: lines, classifier: classifier.value };
  return { texts: lines, labels: split(labels.value), multi_label: several.checked, transductive: together.checked };
}

/** Labels, one a line where there are lines, else between commas. */
function split(text) {
  const parts = text.split(text.trim().includes("\n") ? "\n" : ",");
  return parts.map((label) => label.trim()).filter(Boolean);
}

/** The values for the address; none where they are too long for one. */
export function valuesIn({ texts, labels, classifier, several, together }) {
  if (texts.value.length + labels.value.length > ADDRESSED) return {};
  if (classifier.value) return { classifier: classifier.value, texts: texts.value };
  const options = { several: several.checked ? "1" : "", together: together.checked ? "1" : "" };
  return { labels: labels.value, ...options, texts: texts.value };
}

/** Put the values of an address into the fields; what it does not mention stays. */
export function fillIn({ texts, labels, several, together }, values) {
  if (values.texts) texts.value = values.texts;
  if (values.labels) labels.value = values.labels;
  if (!values.texts && !values.labels) return;
  several.checked = values.several === "1";
  together.checked = values.together === "1" && !several.checked;
}
