"""An extension of Sphinx: formulas as MathML, made with the page; showing them needs no script."""

from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import docutils.nodes
from latex2mathml import converter
from sphinx.builders.epub3 import Epub3Builder

NAMESPACE = 'http://www.w3.org/1998/Math/MathML'
MO, MROW, MSUB, MUNDER = (f'{{{NAMESPACE}}}{name}' for name in ('mo', 'mrow', 'msub', 'munder'))
FUNCTIONS = 'max', 'min', 'log'
RELATIONS = '=', '≈', '≤', '≥', '<', '>', '←'
LONG = 20               # characters; a narrow phone has room for some more
ElementTree.register_namespace('', NAMESPACE)


def mathml(tex: str, display: str = 'inline') -> Element:
    """A formula of TeX as an element of MathML.

    Args:
        display: ``inline`` or ``block``.
    """
    math = ElementTree.fromstring(converter.convert(tex, display=display))
    for operator in math.iter(MO):          # a relation's spaces would be too wide around a name
        if operator.text in FUNCTIONS:
            operator.attrib |= {'lspace': '0.167em', 'rspace': '0.167em'}
    for sub in math.iter(MSUB):
        if display == 'block' and sub[0].text in FUNCTIONS:
            sub.tag = MUNDER
    return math


def lines(math: Element) -> list[Element]:
    """A formula of a text in parts between which a line may end: after the relations of a long one.

    No browser breaks the formula itself, and a phone would cut it off.
    """
    row, = math
    if len(''.join(math.itertext())) < LONG:
        return [math]
    parts = [[]]
    for child in row:
        parts[-1].append(child)
        if child.tag == MO and child.text in RELATIONS:
            child.set('form', 'infix')      # it keeps its spaces at the end of a part
            parts.append([])
    made = []
    for part in filter(None, parts):
        made.append(Element(math.tag, math.attrib))
        ElementTree.SubElement(made[-1], MROW).extend(part)
    return made


def inline(self: Any, node: Any) -> None:
    """Put a formula into a line of text."""
    parts = lines(mathml(node.astext()))
    self.body.append('<wbr/>'.join(ElementTree.tostring(part, 'unicode') for part in parts))
    raise docutils.nodes.SkipNode


def block(self: Any, node: Any) -> None:
    """Put a formula on a line of its own; where it is too wide, a reader scrolls it, also by keys."""
    ids = f' id="{node["ids"][0]}"' if node['ids'] else ''
    number = f'<span class="eqno">({node["number"]})</span>' if node['number'] else ''
    formula = ElementTree.tostring(mathml(node.astext(), 'block'), 'unicode')
    self.body.append(f'<div class="math"{ids} tabindex="0">{number}{formula}</div>')
    raise docutils.nodes.SkipNode


def setup(app: Any) -> None:
    """Add them as the renderer ``mathml``, and tell the EPUB what the font of formulas is."""
    app.add_html_math_renderer('mathml', (inline, None), (block, None))
    Epub3Builder.media_types = {**Epub3Builder.media_types, '.woff2': 'font/woff2'}
