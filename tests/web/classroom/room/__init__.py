"""Classroom on a server: the routes of students and teacher, the page and the wall."""
