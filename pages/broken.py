"""Break it: what does a wrong rule look like, and after how many draws is it seen?"""

from specviz.web import broken_view as view
from specviz.web import warmup
from specviz.web.broken import Case, Trial
from specviz.web.entry import through_app
from specviz.web.exact_session import current, keep_link, replace_exam

through_app()
warmup.start()
trial, turn = current("broken", Trial, Case.of_link)
view.head()
case, problems = view.fields(trial, turn)
trial = replace_exam(trial, case, "broken")
view.notes(problems, "fields")
trial.prepare()
keep_link(trial, "broken")
view.live()
