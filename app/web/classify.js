// Classify: texts by labels given by name, or by those of a trained classifier.

import { get, latest, post } from "./api.js";
import { summary, textList } from "./classified.js";
import { counted, el, quoted, say } from "./dom.js";
import { hero } from "./form.js";
import { fillIn, labelFields, labelForm, offer, requestIn, restrict, valuesIn } from "./labelform.js";
import { note } from "./address.js";
import { problemCard } from "./problem.js";
import { present, reveal, wait } from "./results.js";

const ABOUT = "Labels need no training, only names. Add, drop and rename them as you go.";
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
  const fields = labelFields();
  const form = labelForm(fields, () => send(), example);
  const results = el("div", { class: "results" });
  root.append(hero("Sort texts under any names.", ABOUT), el("div", { class: "halves" }, form, results));

  function example() {
    fields.classifier.value = "";
    [fields.labels.value, fields.texts.value] = [EXAMPLE.labels, EXAMPLE.texts];
    restrict(fields);
    send();
  }

  /** What is in the address already is not noted there again: by now it may be another's. */
  function send(isNoted = false) {
    const request = requestIn(fields);
    const missing = !request.texts.length ? fields.texts : request.labels?.length === 0 ? fields.labels : null;
    if (missing) return missing.focus();
    if (!isNoted) note("classify", valuesIn(fields));
    wait(results);
    return run((signal) => post("classify", request, signal), (reply) => draw(request, reply), failed);
  }

  function failed(problem) {
    present(results, problemCard(problem, () => send()));
  }

  function draw({ texts }, { results: labelled, warnings = [] }) {
    present(results, warnings.map(warning), summary(texts, labelled), textList(texts, labelled));
    reveal(results);
    say(`${counted(labelled.length, "text", "texts")} classified.`);
  }

  async function show(values) {
    fillIn(fields, values);
    const ready = () => {
      restrict(fields);
      if (values.texts) send(true);
    };
    const loaded = ({ classifiers }) => {
      const chosen = values.texts || values.labels ? "" : fields.classifier.value;
      offer(fields, classifiers, values.classifier ?? chosen);
      ready();
    };
    await load((signal) => get("classifiers", signal), loaded, ready);
  }

  return { show, field: fields.texts };
}

const warning = (text) => el("p", { class: "notice", role: "note" }, quoted(text));
