"""Is it exact?: are the decoder's texts distributed as the target's distribution says, and what could have been seen?"""

from specviz.web.common import warmup
from specviz.web.common.entry import through_app
from specviz.web.exactness import files, view
from specviz.web.exactness.session import current, keep_link, replace_exam

through_app()
warmup.start()
exam, turn = current()
view.head()
question, problems = view.fields(exam, turn)
exam = replace_exam(exam, question)
view.notes(problems, "fields")
files.take(exam, turn)
exam.prepare()
keep_link(exam)
view.live()
