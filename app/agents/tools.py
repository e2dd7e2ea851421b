"""The tools that agents are offered.

Each result names the corpus, build and encoder it comes from, marks what has changed since, and
fits into a budget of tokens (see `purlin.app.agents.budget`).
"""

from purlin.app.agents.code import FIND_RELATED, SEARCH_CODE
from purlin.app.agents.documents import READ_DOCUMENT
from purlin.app.agents.labels import CLASSIFY
from purlin.app.agents.products import SEARCH_PRODUCTS
from purlin.app.agents.references import ASK_REFERENCE

TOOLS = (SEARCH_CODE, FIND_RELATED, READ_DOCUMENT, SEARCH_PRODUCTS, ASK_REFERENCE, CLASSIFY)
