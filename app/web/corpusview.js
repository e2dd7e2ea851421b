// What search and questions share: an address with words and corpora is shown as results, and Back shows them again.

import { latest } from "./api.js";
import { problemCard } from "./problem.js";
import { isWaiting, keptHere, present, restore, wait } from "./results.js";

/**
 * `words` names the words in an address. `fill(values)` puts the rest of an address into the form, and `ask(corpus)`
 * sends its request. `welcome()` is shown where there are no words, `nothing(corpora)` where none can be asked, and
 * `above(values)` above a problem.
 */
export function corpusView({ root, field, corpora, results, words, fill, ask, welcome, nothing, above }) {
  let values = {}; // those of the address
  let mustWait = false; // nothing can be asked yet, or the server refused for now
  const run = latest();

  async function show(next) {
    values = next;
    mustWait = false;
    field.value = values[words] ?? "";
    fill?.(values);
    root.classList.toggle("fresh", !values[words]);
    const before = keptHere();
    wait(results);
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
    if (!listed.length || (mustWait && !values[words])) present(results, nothing(listed));
    else if (values[words]) ask(values.corpus || corpora.value()); // of an unknown one the server tells more
    else present(results, welcome());
  }

  /** Show what there is without words, in place of what was asked before. */
  function clear(next) {
    values = next;
    return run(() => null, () => present(results, welcome()), failed);
  }

  /** Send what `ask(signal)` sends in place of the last request; `draw` gets its reply. */
  function send(ask, draw, refused = failed) {
    wait(results);
    return run(ask, draw, refused);
  }

  /** The same for more of what is shown, unless something else was asked in the meantime. */
  function sendMore(ask, draw, refused) {
    if (!isWaiting(results)) run(ask, draw, refused);
  }

  function failed(problem) {
    mustWait = problem.status === 503;
    present(results, above?.(values), problemCard(problem, () => show(values)));
  }

  /** Some corpus can be searched that could not be before. */
  const arrived = () => mustWait && show(values);

  return { show, clear, send, sendMore, failed, arrived, values: () => values };
}
