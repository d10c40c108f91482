"""Reports: each run document as terminal text, HTML, Markdown, JUnit XML, annotations and figures.

``present`` shows and saves a run. ``view`` is the report that all renderers share: ``terminal`` and
``formats`` render it, and ``formats.register_format`` adds a format. The other modules build it
from the documents of ``simverify.results``, one function for each kind.
"""

__simverify_role__ = "interface"
