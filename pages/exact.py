"""Is it exact?: are the decoder's texts distributed as the target's law says, and what could have been seen?"""

from specviz.web import exact_file, warmup
from specviz.web import exact_view as view
from specviz.web.entry import through_app
from specviz.web.exact_session import current, keep_link, replace_exam

through_app()
warmup.start()
exam, turn = current()
view.head()
question, problems = view.fields(exam, turn)
exam = replace_exam(exam, question)
view.notes(problems, "fields")
exact_file.take(exam, turn)
exam.prepare()
keep_link(exam)
view.live()
