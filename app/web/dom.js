// Creates all elements of the page from names, attributes and text; markup in a text stays text.

const SVG = "http://www.w3.org/2000/svg";

/** An element. Functions become listeners, `vars` custom properties; `href` is dropped unless it leads to a page. */
export function el(name, attributes = {}, ...children) {
  return made(document.createElement(name), attributes, children);
}

/** The same for a drawing. */
export function svg(name, attributes = {}, ...children) {
  return made(document.createElementNS(SVG, name), attributes, children);
}

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) set(node, name, value);
  node.append(...present(children));
  return node;
}

/** Put these children, and no others, into a node. Like everywhere here, null, undefined and false are nothing. */
export const fill = (node, ...children) => node.replaceChildren(...present(children));

const NOTHING = [null, undefined, false];
const present = (children) => children.flat(Infinity).filter((child) => !NOTHING.includes(child));

function set(node, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (typeof value === "function") node.addEventListener(name, value);
  else if (name === "vars") for (const [key, setting] of Object.entries(value)) node.style.setProperty(`--${key}`, setting);
  else if (name === "href") setHref(node, value);
  else node.setAttribute(name, value === true ? "" : value);
}

function setHref(node, url) {
  const href = page(url);
  if (href !== null) node.setAttribute("href", href);
}

/** The address if it is one of http, https or relative to this page; else null. */
export function page(url) {
  try {
    return ["http:", "https:"].includes(new URL(url, document.baseURI).protocol) ? String(url) : null;
  } catch {
    return null;
  }
}

/** Whether an address leads to a site. A file's path does not: on this server there is no such page. */
export const isSite = (url) => /^https?:/i.test(url ?? "");

/** A link to a site, opened beside this page; plain text where the address leads to none. */
export function link(url, attributes, ...children) {
  if (!isSite(url)) return el("span", attributes, ...children);
  return el("a", { ...attributes, href: url, target: "_blank", rel: "noopener noreferrer" }, ...children);
}

/** Tell those who do not see the page what has changed on it. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** A sentence; what is between backticks is code. */
export const quoted = (text) => text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));

export const number = (value) => value.toLocaleString("en", { maximumFractionDigits: 2 });

/** `1 text`, `2 texts`. */
export const counted = (count, singular, plural) => `${number(count)} ${count === 1 ? singular : plural}`;
