"""Configuration of the documentation site. ``make docs`` builds it into build/site, without network access."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import intarsia

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "Intarsia"
author = "The Intarsia developers"
copyright = "The Intarsia developers. Apache-2.0"  # noqa: A001
version = release = intarsia.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "pages_on_a_forge",
    "reference_pages",
]
exclude_patterns = ["_ext", "_templates", "gallery/*.ipynb", "gallery/*.py", "gallery/*.md5", "images"]
suppress_warnings = ["config.cache"]  # settings that hold functions are not pickled
nitpicky = False

myst_enable_extensions = ["colon_fence", "dollarmath", "attrs_inline", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

templates_path = ["_templates"]
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc shows the types of the docstrings
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# No inventory is fetched, because the site is built without a network. INTARSIA_INVENTORIES may be a folder with files such
# as python.inv and numpy.inv (each project's objects.inv); names of these projects then become links.
PROJECTS = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "sklearn": "https://scikit-learn.org/stable",
    "pandas": "https://pandas.pydata.org/docs",
    "polars": "https://docs.pola.rs/api/python/stable",
}
INVENTORIES = sorted(Path(os.environ.get("INTARSIA_INVENTORIES", "/nowhere")).glob("*.inv"))
intersphinx_mapping = {path.stem: (PROJECTS[path.stem], str(path)) for path in INVENTORIES if path.stem in PROJECTS}
intersphinx_disabled_reftypes = ["*"]

gallery = {
    "examples_dirs": [str(ROOT / "examples")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1,
    "image_srcset": ["2x"],
    "plot_gallery": "True",
    "doc_module": ("intarsia",),
    "backreferences_dir": "gallery/uses",
    "inspect_global_variables": False,
}
sphinx_gallery_conf = gallery

copybutton_prompt_text = r"\w*\$ +|>>> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = False

html_theme = "pydata_sphinx_theme"
html_title = "Intarsia"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "Intarsia", "alt_text": "Intarsia: start page"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_depth": 3,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}

# MathJax is loaded from the site itself where the package that has it is installed; without it formulas stay readable TeX.
if importlib.util.find_spec("sphinx-mathjax-offline"):
    extensions.append("sphinx-mathjax-offline")
