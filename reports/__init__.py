"""Reports: each run document as terminal text, HTML, Markdown, JUnit XML, annotations and figures.

``present`` shows and saves a run, ``view`` is the report that all renderers share, ``formats``
renders it. The other modules build it, one for each kind of document. The documents themselves are
``simverify.results``.
"""

__simverify_role__ = "interface"
