"""Break it: what does a wrong rule look like, and after how many draws is it seen?"""

from specviz.web.common import warmup
from specviz.web.common.entry import through_app
from specviz.web.exactness.session import current, keep_link, replace_exam
from specviz.web.mistakes import view
from specviz.web.mistakes.state import Case, Trial

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
