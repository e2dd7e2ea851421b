"""What tags, classes and ids mean in the HTML of references, by the generators that write them."""

from __future__ import annotations

import re

from purlin.index.sources.words import kinds, words

HEADINGS = {f"h{level}": level for level in range(1, 7)}
BLOCKS = words(
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure footer form "
    "header hr legend li main ol p section summary table tbody td tfoot th thead tr ul"
)
UNFOLDING = words("dl table h1 h2 h3")
FURNITURE_TAGS = words(
    "annotation button canvas footer iframe input nav noscript object script select style svg template textarea"
)
FURNITURE_CLASSES = words(
    "backlinkbottom backlinktop bd-sidebar-secondary breadcrumbs copybtn footer function_list headerlink hideme "
    "indexgroup indexterm lineno linenos listing_lines mlabels-right nav "
    "nav-panel navbar navfooter navheader navsetbottom navsettop related simple-toc skip-link sphinxsidebar "
    "test-arrow theme-switch-wrapper toc toctree-wrapper tocset ttc viewcode-back viewcode-link"
)
# The classes of a page's contents by docutils.
CONTENTS = words("contents topic")
FURNITURE_IDS = words(
    "footer ft global-links hd menu nav navigation searchInputDiv searchbox sidebar table-of-contents toc"
)
# The contents list of a page by pod2html.
FURNITURE_LIST = "index"
FURNITURE_ROLES = words("banner contentinfo navigation search")
# Of the parts of an entry that is one section; what follows tells it.
INNER_HEADINGS = words("Declaration Description Usage")
RESULT_HEADINGS = words("Returns Value")
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
PERMALINKS = words("# ¶ § ◆ 🔗 \uf0c1")
BOXES = words("admonition caution danger hint important note sidebar tip topic warning")
PLAIN_LISTS = words("brackets citation docinfo field-list footnote")
# Terms of predicates and flags, by PlDoc and SWI-Prolog's LaTeX; its remarks on authors and the
# like have a list of their own.
PREDICATES = words("pubdef multidef")
REMARKS = "tags"
# Before the name, how often a predicate succeeds and the like: "[det]".
TERM_TAG = "pred-tag"
# What Javadoc and Doxygen say of a method: its parameters, what it returns. Sphinx has objects of
# such names, beside a domain.
FIELD_LISTS = words("notes params retval section tparams")
# What is told of a setting, on a line or in a cell: `Default: 5`.
PROPERTY = re.compile(r"[A-Z][\w ]{0,30}: \S")
# Of a table that has code beside the numbers of its lines, by Pygments and GTK-Doc.
CODE_CELLS = words("code listing_code")
# Signatures below headings, by Doxygen and Javadoc.
PROTOTYPES = words("member-signature memproto type-signature")
# Links to the source by rustdoc, Nim and pydoctor; of other elements, the class is of examples.
SOURCE_LINKS = words("link-seesrc sourceLink src srclink")
# Links by Scaladoc whose names and ids say what they lead to.
TYPE_LINKS = words("extmbr extype")
# Rustdoc's notes on versions: of the page, after its heading, and of what the next heading names.
PAGE_ASIDES = words("out-of-band sub-heading")
NEXT_ASIDE = "rightside"
# Of a definition's kind, by Texinfo.
CATEGORIES = words("category category-def")
NAMES = words("descname option sig-name term varname")
# Of a list whose terms are functions, or what the heading above them says; by LDoc.
HEADED_LIST = "function"
# The same of Markdown, also within an entry.
TERM_LIST = "markdown-terms"
DOMAINS = words("c cpp go java js php py rb rst std")
DIRECTIVES = kinds(
    method="abstractmethod awaitablemethod classmethod coroutinemethod decoratormethod staticmethod",
    function="awaitablefunction coroutinefunction decorator",
    option="cmdoption django-admin-option option-list",
    describe="describe",
    object="object",
    glossary="glossary",
)
# By the label of a heading of code ("Event: 'close'"), or the last word of the heading above it or
# above a list of terms.
HEADED_DIRECTIVES = kinds(
    attribute="attribute",
    class_="class type",
    data="const constant",
    function="converter func function iterator macro proc template",
    event="event",
    method="method",
    option="option setting",
    parameter="argument parameter",
    property="propertie property",
)
# By the last word of Texinfo's categories ("User Option", "Special Form").
TEXINFO_DIRECTIVES = kinds(
    function="command form function macro procedure subroutine",
    data="constant variable",
    class_="class datatype type",
    attribute="attribute",
    method="method operation",
    option="option",
    property="property",
)
