"""What every page of the site asks for is made once: the titles of its navigation, and
the stems of its words.

The navigation of a page has titles alone. Sphinx copies all headings of all pages for
it, and every name of the reference, and then takes them out again: a sixth of the time
that a build takes. Here they are taken out before. The pages are the same.
"""

from functools import cache

from docutils import nodes
from sphinx.addnodes import only, toctree
from sphinx.search.en import SearchEnglish


class Titles(dict):
    """Of each page its titles and the trees below it, as Sphinx itself cuts a copy
    where titles alone are asked for.
    """

    def __init__(self, whole: dict[str, nodes.bullet_list]) -> None:
        self.whole = whole

    def __missing__(self, page: str) -> nodes.bullet_list:
        cut = self.whole[page]
        if (
            next(iter(cut.findall(only)), None) is None
        ):  # whether those are kept is said later
            cut = cut.deepcopy()
            for top in cut.children:
                if len(top) > 1:
                    if trees := list(top.findall(toctree)):
                        top[1][:] = trees
                    else:
                        top.pop(1)
        self[page] = cut
        return cut


def begin(app, builder):
    app.titles_of_pages = Titles(app.env.tocs)


def put(app, pagename, templatename, context, doctree):
    asked, env = context.get("toctree"), app.env
    if asked is None:
        return

    def tree(**how):
        if not how.get("titles_only"):
            return asked(**how)
        whole, env.tocs = env.tocs, app.titles_of_pages
        try:
            return asked(**how)
        finally:
            env.tocs = whole

    context["toctree"] = tree


class Stems(SearchEnglish):
    """A word is on many pages and has one stem."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.stem = cache(self.stem)


def setup(app):
    app.add_search_language(Stems)
    app.connect("write-started", begin)
    app.connect("html-page-context", put, priority=400)  # the theme asks at 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}
