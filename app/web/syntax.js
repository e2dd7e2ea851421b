// Syntax colours: a scanner by regular expressions, made to be fast rather than always right.

const LONGEST = 100_000; // characters that are coloured

const SLASHES = /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/;
const HASHES = /#[^\n]*/;
const QUOTED = /"(?:\\[\s\S]|[^"\\\n])*"?|'(?:\\[\s\S]|[^'\\\n])*'?/;
const TICKED = /`(?:\\[\s\S]|[^`\\])*`?/;
const TRIPLE = /[rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$))/;
const NUMBER = /\b(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b/;
const DECORATOR = /@[\p{L}_][\p{L}\p{N}_.]*/;
const WORD = /[\p{L}_$][\p{L}\p{N}_$]*[?!]?/;

const set = (words) => new Set(words.split(" "));
const CONSTANTS = set("True False None true false null nil undefined NaN this self super cls iota NULL TRUE FALSE");
const CURLY =
  "break case catch class const continue default do else finally for if import new return switch throw try while";
const SCRIPT =
  `${CURLY} as async await debugger delete export extends from function get in instanceof let of set static typeof ` +
  "var void with yield";
const KEYWORDS = {
  python: set(
    "and as assert async await break class continue def del elif else except finally for from global if import in is " +
      "lambda match case nonlocal not or pass raise return try while with yield",
  ),
  javascript: set(SCRIPT),
  typescript: set(
    `${SCRIPT} abstract any boolean declare enum implements interface keyof namespace never number private protected ` +
      "public readonly string type unknown",
  ),
  go: set(
    "break case chan const continue default defer else fallthrough for func go goto if import interface map package " +
      "range return select struct switch type var",
  ),
  java: set(
    `${CURLY} abstract assert boolean byte char double enum extends final float implements instanceof int interface ` +
      "long native package private protected public record short static synchronized throws var void volatile",
  ),
  php: set(
    `${CURLY} abstract and array as callable clone declare echo elseif empty enddeclare endforeach endif extends ` +
      "final fn foreach function global implements include instanceof interface isset list match namespace or print " +
      "private protected public readonly require static string int float bool mixed trait unset use var void yield",
  ),
  ruby: set(
    "alias and begin break case class def defined? do else elsif end ensure for if in module next not or redo rescue " +
      "retry return then undef unless until when while yield require attr_reader attr_accessor attr_writer private",
  ),
};
const PARTS = {
  python: { comment: [HASHES], string: [TRIPLE, QUOTED] },
  ruby: { comment: [HASHES], string: [QUOTED] },
  php: { comment: [SLASHES, /#(?!\[)[^\n]*/], string: [QUOTED] },
  java: { comment: [SLASHES], string: [TRIPLE, QUOTED] },
};
const BRACES = { comment: [SLASHES], string: [QUOTED, TICKED] };
const scanners = new Map();

/** Coloured stretches of `text`, in order: [{start, end, kind}]; none for a language that is not known. */
export function tokens(text, language) {
  const name = language === "tsx" ? "typescript" : language;
  if (!Object.hasOwn(KEYWORDS, name) || text.length > LONGEST) return [];
  if (!scanners.has(name)) scanners.set(name, scanner(PARTS[name] ?? BRACES));
  const stretches = [];
  for (const match of text.matchAll(scanners.get(name))) {
    const kind = kindOf(match, text, KEYWORDS[name]);
    if (kind) stretches.push({ start: match.index, end: match.index + match[0].length, kind });
  }
  return stretches;
}

function scanner({ comment, string }) {
  const group = (name, parts) => `(?<${name}>${parts.map((part) => part.source).join("|")})`;
  const groups = [group("comment", comment), group("string", string), group("number", [NUMBER])];
  return new RegExp([...groups, group("decorator", [DECORATOR]), group("word", [WORD])].join("|"), "gu");
}

function kindOf({ groups, index, 0: token }, text, keywords) {
  const { word, ...others } = groups;
  if (word === undefined) return Object.keys(others).find((name) => others[name] !== undefined);
  if (keywords.has(word)) return "keyword";
  if (CONSTANTS.has(word)) return "constant";
  if (text[index + token.length] === "(") return "function";
  return /^\p{Lu}.*\p{Ll}/u.test(word) ? "type" : null;
}
