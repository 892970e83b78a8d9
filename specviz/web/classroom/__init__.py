"""The page *Classroom*, from which a teacher opens and steers a room, and its worksheets. The rooms themselves are in ``room``."""
