"""Exercises with figures or words for an answer: a form in the page, which ``questions.js`` makes and checks.

What is right, and the two hints of each part, come from the topic's ``checkers.py``, as for a notebook.
"""

import base64
import json
import re
from html import escape

from answer_checks import definitions
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
    """A part for the script: what is asked, what is right, how far a figure may be off, the hints."""
    right = [part.expected, *(other.get(name, part.expected) for other in exercise.also)]
    choices = definitions.choices_of(part, exercise.parts)
    asks = OFFER.sub('', part.asks) if choices else part.asks
    about = {'asks': asks, 'hints': [part.hint, part.second]}
    if not choices:
        return {**about, 'right': right, 'within': [definitions.tolerance(x, part.within) for x in right]}
    if isinstance(part.expected, bool):
        return {**about, 'right': ['yes' if x else 'no' for x in right], 'choices': ['yes', 'no']}
    return {**about, 'right': right, 'choices': choices}


def form(label: str) -> str:
    """The place of a form in an exercise, with what the script needs to know; empty where there is none.

    What is right is not meant to be read in the source of the page, so it is written in Base64.
    """
    exercise = definitions.load().get((label, None))
    if exercise is None or not in_page(exercise):
        return ''
    parts = [described(name, part, exercise) for name, part in exercise.parts.items()]
    data = base64.b64encode(json.dumps(parts).encode()).decode()
    return f'<div class="d2l-question" data-exercise="{escape(label)}" data-parts="{data}"></div>'


def with_forms(text: str) -> str:
    """The text of a page, with the place of a form at the end of each exercise that can have one."""
    def add(m):
        place = form(m[2])
        return f'{m[1]}\n{place}\n{m[3]}' if place else m[0]
    return BLOCK.sub(add, text)
