"""Reading traces without a server: as a tree, an explanation, a difference, a page."""
