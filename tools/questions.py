"""Exercises with figures or words for an answer: a form in the page, which ``questions.js`` makes and checks.

What is right, and the two hints of each part, come from the topic's ``checkers.py``, as for a notebook.
"""

import base64
import json
import re
from functools import cache
from html import escape

from answer_checks import checking, definitions
from answer_checks.definitions import Exercise, Part
from tools.exercises import BLOCK

# In a notebook a part says which words it offers; a page has a list of them.
OFFER = re.compile(r"[:,]? ?(?:(?:'[^']+'(?:, | or )?)+|True or False)[:,]? ?")


def in_page(exercise: Exercise) -> bool:
    """Whether a page can ask for it: its parts are single figures, or words of which it offers some."""
    if not exercise.parts:
        return False
    for part in exercise.parts.values():
        if isinstance(part.expected, set | list):
            return False
        if isinstance(part.expected, str) and not definitions.choices_of(part, exercise.parts):
            return False
    return True


def described(name: str, part: Part, exercise: Exercise) -> dict:
    """A part for the script: what is asked, what is right, how far a figure may be off, the hints, and what
    is said of answers that tell what went wrong."""
    right = [part.expected, *(other.get(name, part.expected) for other in exercise.also)]
    choices = definitions.choices_of(part, exercise.parts)
    asks = OFFER.sub('', part.asks) if choices else part.asks
    about = {'asks': asks, 'hints': [part.hint, part.second], **compared(right, part),
             'slips': [{'said': said, **compared(wrong, part)} for said, wrong in definitions.slips_of(part)]}
    if not choices:
        return about
    return {**about, 'choices': ['yes', 'no'] if isinstance(part.expected, bool) else choices}


def compared(values: list, part: Part) -> dict:
    """Values that an answer is compared with, for the script."""
    if isinstance(part.expected, bool):
        return {'right': ['yes' if x else 'no' for x in values]}
    if isinstance(part.expected, str):
        return {'right': values}
    return {'right': values, 'within': [definitions.tolerance(x, part.within) for x in values]}


def form(label: str) -> str:
    """The place of a form in an exercise, with what the script needs to know; empty where there is none.

    What is right is not meant to be read in the source of the page, so it is written in Base64.
    """
    exercise = definitions.load().get((label, None))
    if exercise is None or not in_page(exercise):
        return ''
    parts = [described(name, part, exercise) for name, part in exercise.parts.items()]
    data = base64.b64encode(json.dumps(parts).encode()).decode()
    known = ' data-solved' if label in solved() else ''
    return f'<div class="d2l-question" data-exercise="{escape(label)}" data-parts="{data}"{known}></div>'


@cache
def solved() -> list[str]:
    """The labels of the exercises that this reader has solved in notebooks."""
    noted = checking.progress()
    labels = dict.fromkeys(label for label, _ in definitions.load())
    return [label for label in labels if noted.get(label, {}).get('solved')]


def with_forms(text: str) -> str:
    """The text of a page, with the place of a form at the end of each exercise that can have one."""
    def add(m):
        place = form(m[2])
        return f'{m[1]}\n{place}\n{m[3]}' if place else m[0]
    return BLOCK.sub(add, text)
