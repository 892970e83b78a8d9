"""The panel *Models*: the current pair, which every page names, and the form to choose, check and download another one."""
