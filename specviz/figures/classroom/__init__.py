"""Classroom: the pictures of the wall, and the charts that leave the app."""
