"""A commented spec of a survey to start from."""


def render_first_survey() -> str:
    """A survey of what people do, with the catch-all and two listed categories as the sensitive ones."""
    return """\
# One question: each answer is randomized before it is stored, and shares are estimated from the reports.
survey: work_status
input: {format: parquet, path: data/answers}      # put your own table here

# A person has one report in a wave. Of several answers that of the least `first` stands.
unit: {column: person, on_null: drop}
first: answered_at

# Which answers are told apart. One that is not sensitive (false) may be reported in clear; whatever is not
# listed, missing or unknown counts as (other), which is sensitive.
answer: work
domain: {categories: {at school: false, at work: false, retired: false, ill: true, unemployed: true}}

# Of each report; a new wave costs it again. Exact: 1/3 is a third.
epsilon: 1.0
mechanism: ubd                                    # or urr, uss, uhr, uolh, to compare

# Groups stand beside the reports as they are: they are not protected, and must be known before.
group_by: [state]
groups: {public: [CA, NY]}
estimate: {method: likelihood, consistency: none}

# Whose account pays: made by `dp-spark ledger`, never by a run.
budget: {population: my_people}
publish:
  - {sink: parquet, path: out/work_status}
"""
