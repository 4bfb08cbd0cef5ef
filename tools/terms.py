"""Links from a page's words to the glossary: each term once, where the page first uses it."""

import re
from functools import cache

from tools.markup import TERM
from tools.source import ROOT

GLOSSARY = ROOT / 'chapters' / 'reference' / 'glossary.md'
# What is no running text: links, code, roles, formulas, HTML, words that are set off.
PROTECTED = re.compile(r'''(?xs)
    <a\ .*?</a> | <[^>]*> | \{[\w:-]+\}`[^`]*` | `+[^`]*`+ | !?\[(?:[^\[\]`]|`[^`]*`)*\](?:\([^)]*\))?
    | \$\$?[^$]+\$\$? | https?://\S+ | \*\*[^*]+\*\* | \*[^*\s][^*]*\* | \([\w-]+\)=''')
FENCE = re.compile(r'(?m)^\s*(`{3,}|~{3,}|:{3,})')
# Headings, with or without a label above them; tables, options, comments.
NO_TEXT = re.compile(r'\s*(\([\w-]+\)=\n)?(#|\||:\w|<!--|%|>)')
# Terms that are also everyday words: the glossary has them, a link at each first use would distract.
EVERYDAY = {'bound', 'claim', 'engine', 'graph', 'interval', 'kernel', 'ledger', 'peak', 'ring',
            'stream', 'verdict', 'warm-up'}


@cache
def terms() -> dict[str, re.Pattern]:
    """The terms of the glossary, longer ones first, with what finds each, in singular and plural.

    A term with capitals after its first letter is found as it is written: zero is not ZeRO.
    """
    found = sorted((term for term, _ in TERM.findall(GLOSSARY.read_text())), key=len, reverse=True)
    patterns = {}
    for term in found:
        if term not in EVERYDAY:
            words = r'\s+'.join(map(re.escape, term.split()))
            case = re.IGNORECASE if term[1:].islower() else 0
            patterns[term] = re.compile(rf'(?<![\w-]){words}(?:s|es)?(?![\w-])', case)
    return patterns


def link(text: str, seen: set[str]) -> str:
    """Link the first use of each term in a piece of a page.

    Args:
        seen: the terms that the page has used; those of this piece are added.
    """
    blocks, open_fence = [], ''
    for block in re.split(r'(\n\s*\n)', text):
        fences = FENCE.findall(block)
        plain = not open_fence and not fences and not NO_TEXT.match(block)
        for mark in fences:
            open_fence = '' if open_fence == mark else open_fence or mark
        blocks.append(_linked(block, seen) if plain else block)
    return ''.join(blocks)


def _linked(block: str, seen: set[str]) -> str:
    kept: list[str] = []

    def keep(m: re.Match | str) -> str:
        kept.append(m if isinstance(m, str) else m[0])
        return f'\x00{len(kept) - 1}\x00'

    block = PROTECTED.sub(keep, block)
    for term, pattern in terms().items():
        if term not in seen and (m := pattern.search(block)):
            seen.add(term)
            words = ' '.join(m[0].split())
            block = block[:m.start()] + keep(f'{{term}}`{words} <{term}>`') + block[m.end():]
    while '\x00' in block:
        block = re.sub('\x00(\\d+)\x00', lambda m: kept[int(m[1])], block)
    return block
