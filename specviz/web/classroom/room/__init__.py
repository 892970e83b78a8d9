"""Rooms of this server: their store, the students' page with its JSON routes, what students draw, how it is counted and tested, and the wall. Nothing of the teacher's page."""
