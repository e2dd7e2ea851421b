// Requests to the server, with the API key of this tab, and their errors.

const KEY = "purlin-key";
let key = remembered();

function remembered() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

/** Use this API key from now on; an empty one means none. */
export function useKey(newKey) {
  key = newKey;
  try {
    if (newKey) sessionStorage.setItem(KEY, newKey);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Storage is disabled: the key lasts until the page is reloaded.
  }
}

export const hasKey = () => key !== "";

/** A failed request, with the members of its problem document; `status` is 0 if there was no reply. */
export class Problem extends Error {
  constructor({ status, title = "", detail = "", type = "about:blank", errors = [], retryAfter = null }) {
    super(detail || title);
    Object.assign(this, { status, title, detail, type, errors, retryAfter });
  }
}

export const get = (path, signal) => call(path, { signal });

export function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return call(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

async function call(path, { headers = {}, ...options }) {
  const sent = { Accept: "application/json", ...headers, ...(key && { Authorization: `Bearer ${key}` }) };
  try {
    const response = await fetch(path, { ...options, headers: sent, credentials: "omit", cache: "no-store" });
    if (!response.ok) throw await problemIn(response);
    return await response.json();
  } catch (error) {
    if (error instanceof Problem || error.name === "AbortError") throw error;
    throw new Problem({ status: 0, detail: "It sent no reply, or none that this page can read. Is it running?" });
  }
}

async function problemIn(response) {
  const retryAfter = Number(response.headers.get("Retry-After")) || null;
  const basics = { status: response.status, title: response.statusText, retryAfter };
  const members = await response.json().catch(() => null);
  if (members === null || typeof members !== "object") return new Problem(basics);
  const errors = Array.isArray(members.errors) ? members.errors : [];
  const { title, detail, type } = members;
  return new Problem({ ...basics, title, detail, type, errors });
}

/** Runs one request at a time: a new one replaces the last, whose outcome is then ignored. */
export function latest() {
  let controller = null;
  return async (ask, done, failed) => {
    controller?.abort();
    const mine = (controller = new AbortController());
    try {
      const reply = await ask(mine.signal);
      if (mine === controller) done(reply);
    } catch (error) {
      if (mine !== controller || error.name === "AbortError") return;
      if (!(error instanceof Problem)) throw error;
      failed(error);
    }
  };
}
