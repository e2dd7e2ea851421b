// Error messages for people.

import { hasKey } from "./api.js";
import { el, quoted, say } from "./dom.js";

const HEADINGS = {
  0: "The server cannot be reached",
  401: "This server asks for a key",
  403: "This is not open here",
  404: "That is not there",
  408: "The request took too long",
  409: "Something else is being done to that",
  413: "That is too much at once",
  422: "That cannot be answered as it is",
  429: "A little slower, please",
  500: "Something went wrong in the server",
};
const BY_TYPE = {
  "urn:purlin:problem:opening": "Still being opened",
  "urn:purlin:problem:overloaded": "The server is busy",
  "urn:purlin:problem:damaged": "This needs the operator's attention",
  "urn:purlin:problem:encoder-mismatch": "This needs the operator's attention",
  "urn:purlin:problem:storage-failed": "This needs the operator's attention",
};
const HEADINGS_WITH_KEY = { 401: "The server does not accept this key", 403: "This key does not open that" };

/** A card that says what is wrong and what can be done. `again` asks once more. */
export function problemCard(problem, again) {
  const headings = hasKey() ? { ...HEADINGS, ...HEADINGS_WITH_KEY } : HEADINGS;
  const heading = BY_TYPE[problem.type] ?? headings[problem.status] ?? problem.title ?? "That did not work";
  say(`${heading}. ${problem.detail}`);
  return el(
    "section",
    { class: "problem", "data-status": problem.status },
    el("h2", {}, heading),
    problem.detail && el("p", {}, quoted(problem.detail)),
    fieldErrors(problem),
    waitAdvice(problem),
    remedy(problem, again),
  );
}

function fieldErrors({ detail, errors }) {
  const rows = errors.filter(({ message }) => message && !detail?.includes(message));
  if (!rows.length) return null;
  const item = ({ field, message }) => el("li", {}, el("code", {}, String(field)), " ", quoted(String(message)));
  return el("ul", {}, rows.map(item));
}

/** How long to wait, where the detail does not say so. */
function waitAdvice({ detail, retryAfter }) {
  if (!retryAfter || detail?.includes(`${retryAfter} s`)) return null;
  return el("p", { class: "muted" }, `Try again in ${retryAfter} s.`);
}

/** A key where one is missing; once more where that may help. */
function remedy(problem, again) {
  const { status } = problem;
  if (status === 401 || (status === 403 && hasKey())) return el("p", { class: "row" }, keyButton());
  if (status >= 500 || [0, 408, 409, 429].includes(status)) return el("p", { class: "row" }, againButton(again));
  return null;
}

const againButton = (again) => el("button", { type: "button", class: "primary", click: again }, "Try again");

function keyButton() {
  const open = () => document.getElementById("key-button").click();
  return el("button", { type: "button", class: "primary", click: open }, "Enter a key");
}
