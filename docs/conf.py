"""How Sphinx builds the documentation: Markdown by MyST, and nothing that needs a network."""

from leasehold import __version__

project = "Leasehold"
author = "The Leasehold authors"
copyright = f"2026, {author}"
release = version = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True

html_theme = "furo"
html_title = f"Leasehold {version}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sphinx = False
