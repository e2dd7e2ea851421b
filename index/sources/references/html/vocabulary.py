"""What tags, classes and ids mean in the HTML of references, by the generators that write them."""

from __future__ import annotations

import re

HEADINGS = {f"h{level}": level for level in range(1, 7)}
BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure footer form "
    "header hr legend li main ol p section summary table tbody td tfoot th thead tr ul".split()
)
UNFOLDING = frozenset(["dl", "table", "h1", "h2", "h3"])
FURNITURE_TAGS = frozenset(
    "annotation button canvas footer iframe input nav noscript object script select style svg template textarea".split()
)
FURNITURE_CLASSES = frozenset(
    "backlinkbottom backlinktop bd-sidebar-secondary breadcrumbs copybtn footer function_list headerlink hideme "
    "indexgroup indexterm lineno linenos listing_lines mlabels-right nav "
    "nav-panel navbar navfooter navheader navsetbottom navsettop related simple-toc skip-link sphinxsidebar "
    "test-arrow theme-switch-wrapper toc toctree-wrapper tocset ttc viewcode-back viewcode-link".split()
)
# The classes of a page's contents by docutils.
CONTENTS = frozenset(["contents", "topic"])
FURNITURE_IDS = frozenset(
    "footer ft global-links hd menu nav navigation searchInputDiv searchbox sidebar table-of-contents toc".split()
)
# The contents list of a page by pod2html.
FURNITURE_LIST = "index"
FURNITURE_ROLES = frozenset("banner contentinfo navigation search".split())
# Of the parts of an entry that is one section; what follows tells it.
INNER_HEADINGS = frozenset(["Declaration", "Description", "Usage"])
RESULT_HEADINGS = frozenset(["Returns", "Value"])
LINK_TO_TOP = "↑"
# The class of Markdown's headings that are code.
DEFINITION = "definition"
LABELLED = re.compile(r"(?:Class|Event|Function|Method|Option|Property): ['\"]?[\w$.:-]+['\"]?")
# A call, and the name that it calls: `new Cache(options)`, `cache.get(key, [options]) => value`.
CALL = re.compile(
    r"(?:(?:async|new|static) )?([\w$]+(?:[.:#]{1,2}[\w$]+){0,8})\((?!s\))[^()]*(?:\([^()]*\)[^()]*){0,8}\)"
    r"(?=\Z| ?[=-]> | ?: )"
)
# What C declares: `int lua_gc (lua_State *L, int what);`.
DECLARED = re.compile(r"[\w ]{1,80}[ *](\w+) ?\([^;{}]*\);")
PERMALINKS = frozenset("# ¶ § ◆ 🔗 \uf0c1".split())
BOXES = frozenset("admonition caution danger hint important note sidebar tip topic warning".split())
PLAIN_LISTS = frozenset("brackets citation docinfo field-list footnote".split())
# Terms of predicates and flags, by PlDoc and SWI-Prolog's LaTeX; its remarks on authors and the
# like have a list of their own.
PREDICATES = frozenset(["pubdef", "multidef"])
REMARKS = "tags"
# Before the name, how often a predicate succeeds and the like: "[det]".
TERM_TAG = "pred-tag"
# What Javadoc and Doxygen say of a method: its parameters, what it returns. Sphinx has objects of
# such names, beside a domain.
FIELD_LISTS = frozenset("notes params retval section tparams".split())
# What is told of a setting, on a line or in a cell: `Default: 5`.
PROPERTY = re.compile(r"[A-Z][\w ]{0,30}: \S")
# Of a table that has code beside the numbers of its lines, by Pygments and GTK-Doc.
CODE_CELLS = frozenset(["code", "listing_code"])
# Signatures below headings, by Doxygen and Javadoc.
PROTOTYPES = frozenset(["member-signature", "memproto", "type-signature"])
# Links to the source by rustdoc, Nim and pydoctor; of other elements, the class is of examples.
SOURCE_LINKS = frozenset(["link-seesrc", "sourceLink", "src", "srclink"])
# Links by Scaladoc whose names and ids say what they lead to.
TYPE_LINKS = frozenset(["extmbr", "extype"])
# Rustdoc's notes on versions: of the page, after its heading, and of what the next heading names.
PAGE_ASIDES = frozenset(["out-of-band", "sub-heading"])
NEXT_ASIDE = "rightside"
# Of a definition's kind, by Texinfo.
CATEGORIES = frozenset(["category", "category-def"])
NAMES = frozenset("descname option sig-name term varname".split())
# Of a list whose terms are functions, or what the heading above them says; by LDoc.
HEADED_LIST = "function"
DOMAINS = frozenset("c cpp go java js php py rb rst std".split())
DIRECTIVES = {
    **dict.fromkeys("abstractmethod awaitablemethod classmethod coroutinemethod".split(), "method"),
    **dict.fromkeys("decoratormethod staticmethod".split(), "method"),
    **dict.fromkeys("awaitablefunction coroutinefunction decorator".split(), "function"),
    "cmdoption": "option",
    "django-admin-option": "option",
    "option-list": "option",
    "describe": "describe",
    "object": "object",
    "glossary": "glossary",
}
# By the label of a heading of code ("Event: 'close'"), or the last word of the heading above it or
# above a list of terms.
HEADED_DIRECTIVES = {
    "attribute": "attribute",
    "class": "class",
    "const": "data",
    "constant": "data",
    "converter": "function",
    "event": "event",
    "func": "function",
    "function": "function",
    "iterator": "function",
    "macro": "function",
    "method": "method",
    "option": "option",
    "parameter": "parameter",
    "proc": "function",
    "propertie": "property",
    "property": "property",
    "setting": "option",
    "template": "function",
    "type": "class",
}
# By the last word of Texinfo's categories ("User Option", "Special Form").
TEXINFO_DIRECTIVES = {
    **dict.fromkeys("command form function macro procedure subroutine".split(), "function"),
    **dict.fromkeys("constant variable".split(), "data"),
    **dict.fromkeys("class datatype type".split(), "class"),
    "attribute": "attribute",
    "method": "method",
    "operation": "method",
    "option": "option",
    "property": "property",
}
