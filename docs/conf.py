"""How the site is built: `make docs`, offline, into build/site. Every warning is an
error.

furo, because it is plain: text in the middle, light and dark by the reader's system,
system fonts and no script or style from elsewhere. Formulas are MathML, which browsers
draw by themselves.
"""

import gc
import os
import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path

gc.set_threshold(
    100_000,
    20,
    50,
    # hardly anything is garbage before the end: a tenth of the time went into looking
    # for it
)
HERE = Path(__file__).parent
sys.path[:0] = [
    str(HERE / "_extensions"),
    str(HERE / "tutorials"),
    str(HERE.parent / "src"),
]
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")]
)  # of tutorials' children

project, author, copyright = (
    "headgate",
    "The headgate authors",
    "2026, the headgate authors. Apache-2.0",
)
release = version = version_of("headgate")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_inline_tabs",
    "sphinx_gallery.gen_gallery",
    "from_the_code",
    "undocumented",
    "mathml",
    "titles",
]
exclude_patterns = ["_*", "tutorials", "gallery/*.ipynb", "gallery/*.py.md5"]
language, smartquotes = "en", False  # two dashes are an option, not a dash

html_theme, html_title, html_favicon = "furo", "headgate", "_static/mark.svg"
html_static_path, html_css_files = ["_static"], ["site.css"]
html_show_sourcelink, html_copy_source = False, False
html_theme_options = {
    "sidebar_hide_name": False,
    "light_logo": "mark.svg",
    "dark_logo": "mark.svg",
}
pygments_style, pygments_dark_style = "friendly", "github-dark"
html_math_renderer = "mathml"

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_links_external_new_tab = False

default_role = "code"  # docstrings are plain: what stands between backticks is code
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "show-inheritance": True,
}
python_use_unqualified_type_names = True
suppress_warnings = [
    "config.cache",  # functions among the settings of the gallery
    "ref.python",  # two classes may have an attribute of one name
]

copybutton_prompt_text = r"^\$ |^>>> |^\.\.\. "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\d_",
    "ignore_pattern": r"pictures\.py",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e6,
    "write_computation_times": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "show_signature": False,
    "reset_modules": ("matplotlib",),
    "plot_gallery": "True",
}

OUTSIDE = re.compile(r"\]\((\.\./\.\./[^)#\s]+\.md)(#[^)\s]*)?\)")
"""a link to a page of the repository that is none of the site"""


def offer_files(app, name, source):
    """Offer pages of the repository that are none of the site as files."""
    source[0] = OUTSIDE.sub(r"](path:\1)", source[0])


def setup(app):
    app.connect("source-read", offer_files)
