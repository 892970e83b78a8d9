"""Teaching with a class: rooms in which students draw the evidence, and worksheets."""
