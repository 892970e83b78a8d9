"""The page *Classroom*: the rooms of this server, the students' page with its JSON routes, the teacher's page and the wall."""
