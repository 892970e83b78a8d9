"""Classroom: the page and its worksheets; rooms are tested in ``room``."""
