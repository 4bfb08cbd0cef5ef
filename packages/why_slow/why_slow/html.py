"""The report as one HTML file: no script, no address of anything else, inline SVG, light and dark, wide
and narrow."""

import html
from typing import Any

from tested_results.numbers import seconds as written
from why_slow.report import LINES, LOSSES, SEEN, by_weight, facts, gain, note_lines, said

COLORS = {
    'loader': '--c1',
    'forward': '--c2',
    'backward': '--c3',
    'optimizer': '--c4',
    'rest': '--c5',
    'evaluation': '--c6',
    'checkpoint': '--c7',
    'start of an epoch': '--c8',
    'collectives': '--c9',
}
STYLE = '''
:root { color-scheme: light dark; --ground: #fff; --ink: #1c1e21; --soft: #5b6168; --line: #d8dce0;
  --card: #f6f7f8;
  --good: #1a7f4b; --bad: #b3372b;
  --c1: #b35c00; --c2: #1f6fb2; --c3: #2f9e8f; --c4: #7a52b3; --c5: #8b9299; --c6: #5a9e2f;
  --c7: #b3372b; --c8: #8a6d3b; --c9: #b03a78; }
@media (prefers-color-scheme: dark) { :root { --ground: #15181b; --ink: #e7eaed; --soft: #a2a9b0;
  --line: #353b41;
  --card: #1e2226; --good: #57c98c; --bad: #f08a7c;
  --c1: #f0a050; --c2: #63aef0; --c3: #5fd0c0; --c4: #b796ec; --c5: #868e96; --c6: #97d66a;
  --c7: #f08a7c; --c8: #c9a76a; --c9: #f08fc0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem; max-width: 60rem; font: 16px/1.5 system-ui, sans-serif;
  background: var(--ground);
  color: var(--ink); }
h1 { font-size: 1.4rem; line-height: 1.25; overflow-wrap: anywhere; } h2 { font-size: 1.15rem;
  margin-top: 2rem; }
code { font: 0.92em ui-monospace, monospace; overflow-wrap: anywhere; }
.soft { color: var(--soft); } .big { font-size: 1.6rem; font-weight: 600; }
svg { display: block; width: 100%; height: auto; }
ul.key { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; }
ul.key span { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; }
ul.lines { list-style: none; padding: 0; } ul.lines li { margin: .5rem 0; }
ol { padding-left: 0; list-style: none; counter-reset: n; }
ol > li { background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  padding: .7rem .9rem; margin: .6rem 0;
  counter-increment: n; }
ol > li h3 { font-size: 1rem; margin: 0; } ol > li h3::before { content: counter(n) ". "; }
ol > li p { margin: .3rem 0 0; overflow-wrap: anywhere; }
.if { margin: .9rem 0; } .if p { margin: 0; display: flex; flex-wrap: wrap;
  justify-content: space-between; gap: 0 1rem; }
.faster { color: var(--good); } .slower { color: var(--bad); }
'''


def page(report: dict[str, Any]) -> str:
    """The file's text."""
    title = f'Why is {report["script"]} slow?'
    step = report['step']
    parts = [
        f'<h1>{_text(title)}</h1>',
        f'<p class="soft"><code>{_text(" ".join([report["script"], *report["arguments"]]))}</code></p>',
    ]
    if step['steps']:
        parts += _step(step, report)
        waits, seen = by_weight(report)
        parts += ['<h2>What it waits for</h2>', _findings(waits, report)]
        if seen:
            parts += [f'<h2>{SEEN}</h2>', _findings(seen, report, 1 + len(waits))]
        if report['lines']:
            parts += [f'<h2>{LINES}</h2>', _hot_spots(report['lines'])]
        parts += ['<h2>What if, on this script</h2>', _what_ifs(report['what_ifs'])]
    parts += [f'<p class="soft">{_text(note)}</p>' for note in note_lines(report)]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f'<title>{_text(title)}</title>\n'
        f'<style>{STYLE}</style>\n</head>\n<body>\n' + '\n'.join(parts) + '\n</body>\n</html>\n'
    )


def _text(words: str) -> str:
    return html.escape(str(words))


def _step(step: dict, report: dict) -> list[str]:
    cost = report['cost']
    return [
        '<h2>What a step is made of</h2>',
        f'<p><span class="big">{written(step["seconds"])}</span> <span '
        f'class="soft">({written(step["low"])} to '
        f'{written(step["high"])}, {step["steps"]} steps, after {step["warm_up"]} for warming up)</span></p>',
        _bar(step['parts']),
        *[
            f'<p class="soft">Between steps: {_text(part)}, {written(seconds)} for each step.</p>'
            for part, seconds in step['between'].items()
        ],
        f'<p>{_text("; ".join(facts(step)))}</p>' if facts(step) else '',
        f'<p class="soft">Watching took at least {written(cost["seconds_per_step"])} of each step '
        f'({100 * cost["share"]:.2g}%).</p>',
    ]


def _bar(parts: dict[str, float]) -> str:
    """The parts of a step, side by side, as long as they take."""
    whole = sum(parts.values())
    x, bars, key = 0.0, [], []
    for part, seconds in parts.items():
        width = 1000 * seconds / whole
        color = COLORS.get(part, '--c5')
        words = f'{part}: {written(seconds)}, {100 * seconds / whole:.0f}%'
        bars.append(
            f'<rect x="{x:.1f}" y="0" width="{width:.1f}" height="60" '
            f'style="fill:var({color})"><title>{_text(words)}</title></rect>'
        )
        key.append(f'<li><span style="background:var({color})"></span>{_text(words)}</li>')
        x += width
    label = _text(', '.join(f'{part} {100 * seconds / whole:.0f}%' for part, seconds in parts.items()))
    return (
        f'<svg viewBox="0 0 1000 60" preserveAspectRatio="none" style="height:3rem" role="img" '
        f'aria-label="{label}">'
        f'{"".join(bars)}</svg>\n<ul class="key">{"".join(key)}</ul>'
    )


def _findings(findings: list[dict], report: dict, first: int = 1) -> str:
    if not findings:
        return '<p>Nothing stands out.</p>'
    items = []
    for finding in findings:
        where = f' <code>{_text(finding["line"])}</code>' if finding['line'] else ''
        words = f'{gain(finding, report).capitalize()}.'
        if finding['page']:
            words += f' The book explains it: {finding["page"]}'
        items.append(
            f'<li><h3>{_text(finding["title"])}{where}</h3><p>{_text(finding["evidence"])}</p>'
            f'<p class="soft">{_text(words)}</p></li>'
        )
    return f'<ol start="{first}">{"".join(items)}</ol>'


def _hot_spots(spots: list[dict]) -> str:
    rows = []
    for spot in spots:
        share = f'{100 * spot["share"]:.0f}%'
        rows.append(
            f'<li><b>{share}</b> <code>{_text(spot["line"])}</code> <code>{_text(spot["text"])}</code>'
            f'<svg viewBox="0 0 1000 10" preserveAspectRatio="none" style="height:.4rem" aria-hidden="true">'
            f'<rect x="0" y="0" width="{max(1, 1000 * spot["share"]):.1f}" height="10" '
            f'style="fill:var(--c2)"/></svg></li>'
        )
    return f'<ul class="lines">{"".join(rows)}</ul>'


def _what_ifs(results: list[dict]) -> str:
    if not results:
        return '<p>Nothing was tested.</p>'
    longest = max(max(r['before'], r['after']) for r in results)
    rows = []
    for r in sorted(results, key=lambda r: -r['ratio']):
        losses = LOSSES.get(r['losses'])
        words = '; '.join(filter(None, (said(r), losses, r['note'])))
        scale = 1000 / longest
        rows.append(
            f'<div class="if"><p><b>{_text(r["title"])}</b> <span '
            f'class="{_text(r["verdict"].split()[0])}">{_text(words)}</span></p>'
            f'<svg viewBox="0 0 1000 44" preserveAspectRatio="none" style="height:1.6rem" role="img" '
            f'aria-label="'
            f'{_text(written(r["before"]))} as it is, {_text(written(r["after"]))} changed">'
            f'<rect x="0" y="0" width="{max(1, r["before"] * scale):.1f}" height="20" '
            f'style="fill:var(--c5)"/>'
            f'<rect x="0" y="24" width="{max(1, r["after"] * scale):.1f}" height="20" '
            f'style="fill:var(--c2)"/></svg>'
            f'<p class="soft">{written(r["before"])} → {written(r["after"])}</p></div>'
        )
    return ''.join(rows)
