"""The page *Classroom*: the rooms of this server, what students draw in them and how it is counted, the students' page with its JSON routes, the teacher's page, the wall, and worksheets."""
