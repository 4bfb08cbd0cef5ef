"""What was found, as the dictionary that is written as JSON, and as text."""

import math
import os
import statistics
import sys
import textwrap
from typing import Any

from tested_results.numbers import SIZES, show
from tested_results.numbers import seconds as written
from why_slow import whatifs
from why_slow.findings import Evidence, findings
from why_slow.hot_spots import hot_spots
from why_slow.plan import Session

PARTS = ('loader', 'forward', 'backward', 'optimizer', 'rest')
HARDLY = 1.005  # what can gain less costs hardly any time
SEEN = 'Seen as well, but it costs hardly any time here'
LINES = 'The lines that take most of a step, with what the backward pass does for them'
WIDTH = 92  # fits the column of a page
LOSSES = {'differs': 'changes the losses', 'rounding': 'losses differ by rounding', 'same': 'same losses'}


def result(session: Session, script: str, arguments: list[str], ended: str) -> dict[str, Any]:
    """Everything that was found; times in seconds, sizes in bytes."""
    found = findings(session)
    evidence = Evidence(session) if session.plain else None
    predicted = _predicted(evidence, found) if evidence is not None else []
    spots = hot_spots(evidence.spent, session.backward) if evidence is not None else []
    return {
        'version': 1,
        'script': script,
        'arguments': arguments,
        'frameworks': {
            name: getattr(sys.modules[name], '__version__', '')
            for name in ('torch', 'mxnet')
            if name in sys.modules
        },
        'machine': {'cores': session.cores, 'threads': session.settings.get('threads')},
        'step': _step(session),
        'lines': [spot.to_dict() for spot in spots],
        'findings': [finding.to_dict() for finding in found],
        'what_ifs': [_finite(r.to_dict(), found) for r in (*session.results, *predicted)],
        'cost': {
            'seconds_per_step': session.cost,
            'share': session.cost / _median(session) if session.plain else 0.0,
        },
        'ended': ended,
        'notes': session.notes,
    }


def _median(session: Session) -> float:
    return statistics.median(step.seconds for step in session.ordinary())


def _finite(result: dict, found: list[Any]) -> dict:
    """JSON has no infinity; and the finding that a what-if answers must be there."""
    for key in ('low', 'high'):
        if not math.isfinite(result[key]):
            result[key] = None
    if result['finding'] not in {finding.id for finding in found}:
        result['finding'] = None
    return result


def _step(session: Session) -> dict[str, Any]:
    if not session.plain:
        return {
            'seconds': None,
            'low': None,
            'high': None,
            'steps': 0,
            'parts': {},
            'between': {},
            'operators': {},
            'flops': None,
            'memory': session.memory,
            'examples_per_second': None,
        }
    steps = session.ordinary()
    times = [step.seconds for step in steps]
    low, high = spread(times)
    parts = {name: statistics.fmean(step.parts.get(name, 0.0) for step in steps) for name in PARTS}
    for extra in ('collectives', 'evaluation', 'checkpoint', 'start of an epoch'):
        seconds = statistics.fmean(step.parts.get(extra, 0.0) for step in steps)
        if seconds > 0:
            parts[extra] = seconds
    operators = session.operators
    batch = session.batch_size or session.loader.get('batch_size')
    examples = _examples(session)
    return {
        'seconds': statistics.median(times),
        'low': low,
        'high': high,
        'steps': len(steps),
        'warm_up': session.warm,
        'parts': parts,
        'between': _between(session, steps),
        'operators': {'count': operators.count, 'mean_seconds': operators.seconds / max(1, operators.count)}
        if operators
        else {},
        'flops': operators.flops if operators else None,
        'memory': session.memory,
        'batch': batch,
        'examples_per_second': examples / statistics.median(times) if examples else None,
        'spread': [sorted(times)[int(q * (len(times) - 1))] for q in (0.1, 0.9)],
    }


def _examples(session: Session) -> int | None:
    """How many examples a step takes, or None where that is not sure."""
    usual = session.usual
    size = session.loader.get('batch_size')
    if size and usual.get('batches'):
        return size * usual['batches']
    if len(session.watch.optimizers) > 1 or session.watch.closures or not session.batch_size:
        return None  # of several passes it is not known which see other examples
    return session.batch_size * max(1, min(usual.get('forward', 1), usual.get('backwards', 1)))


def spread(times: list[float]) -> tuple[float, float]:
    """An interval of the median time: between the medians of stretches of the run."""
    from tested_results.timing import interval

    _, low, high = interval(times)
    if not math.isfinite(low):
        return min(times), max(times)
    return low, high


def _between(session: Session, ordinary: list[Any]) -> dict[str, float]:
    """Seconds per step that come between steps: what steps with an evaluation, a checkpoint, a new epoch
    take more."""
    usual = statistics.median(step.seconds for step in ordinary)
    found: dict[str, float] = {}
    kept = {id(step) for step in ordinary}
    for step in session.plain:
        if id(step) in kept:
            continue
        extra = max(0.0, step.seconds - usual)
        for part in ('checkpoint', 'start of an epoch'):
            own = min(extra, step.parts.get(part, 0.0))
            found[part] = found.get(part, 0.0) + own
            extra -= own
        more = {name for name in step.counts if step.counts[name] > session.usual.get(name, 0)}
        evaluated = 'evaluation' in more or 'forward' in more and 'backwards' not in more
        found['evaluation' if evaluated else 'other'] = (
            found.get('evaluation' if evaluated else 'other', 0.0) + extra
        )
    return {part: seconds / len(session.plain) for part, seconds in found.items() if seconds > 0}


def _predicted(evidence: Evidence, found: list[Any]) -> list[whatifs.Result]:
    """What cannot be switched, and was measured on a copy of the model, or computed from the parts of a
    step."""
    session, step = evidence.session, evidence.step
    results = []
    if evidence.twice_the_batch is not None:
        title = 'twice the batch (for as many examples)'
        results.append(
            whatifs.predicted('double-batch', title, 2 * step, evidence.twice_the_batch, 'small-batch')
        )
    if evidence.in_float32 is not None:
        result = whatifs.predicted('float32', 'the model in float32', step, evidence.in_float32, 'float64')
        result.losses = 'differs'
        results.append(result)
    waited = evidence.part('loader')
    others = session.cores - 1
    if session.loader.get('workers') == 0 and waited > 0.02 * evidence.mean and others > 0:
        # A worker loads while the model computes; one core less is left for the model, which is not
        # counted here.
        after = max(waited / others, evidence.mean - waited)
        ratio = evidence.mean / after
        results.append(whatifs.predicted('loader-workers', f'num_workers={others}', step, ratio, 'loader'))
    for finding in found:  # by Amdahl's law, where nothing can be switched and all of its time would go
        if finding.id in REMOVED and finding.at_most >= HARDLY:
            title = REMOVED[finding.id]
            results.append(
                whatifs.predicted(f'without-{finding.id}', title, step, finding.at_most, finding.id)
            )
    return results


REMOVED = {
    'synchronization': 'the results not read back',
    'checkpoints': 'no checkpoints',
    'gaps': "the script's other code costs nothing",
    'copies': 'no copies',
}


# Text --------------------------------------------------------------------------------------------


def text(report: dict[str, Any]) -> str:
    """The report as it is printed."""
    step = report['step']
    lines = [f'why_slow: {report["script"]} {" ".join(report["arguments"])}'.rstrip(), '']
    if not step['steps']:
        lines += _notes(report)
        return '\n'.join(lines)
    lines += _made_of(step, report)
    waits, seen = by_weight(report)
    lines += ['', 'What it waits for']
    lines += _findings(waits, report) or ['  Nothing stands out.']
    if seen:
        lines += ['', SEEN]
        lines += _findings(seen, report, 1 + len(waits))
    if report['lines']:
        lines += ['', LINES]
        lines += _hot_spots(report['lines'])
    lines += ['', 'What if, on this script (as it is → changed)']
    lines += _what_ifs(report) or ['  Nothing was tested.']
    lines += _notes(report)
    return '\n'.join(lines)


def _made_of(step: dict, report: dict) -> list[str]:
    lines = [
        f'A step takes {written(step["seconds"])} ({written(step["low"])} to {written(step["high"])}; '
        f'{step["steps"]} steps, '
        f'after {step["warm_up"]} for warming up)'
    ]
    whole = sum(step['parts'].values())
    for part, seconds in step['parts'].items():
        if seconds > 0:
            name = {'evaluation': 'without gradients'}.get(part, part)
            lines.append(
                f'  {name:20s} {written(seconds):>9s}  {100 * seconds / whole:3.0f}%  '
                f'{"█" * round(40 * seconds / whole)}'
            )
    for part, seconds in step['between'].items():
        lines.append(f'  between steps: {part}, {written(seconds)} for each step')
    if facts(step):
        lines += textwrap.wrap('; '.join(facts(step)), WIDTH, initial_indent='  ', subsequent_indent='  ')
    cost = report['cost']
    took, share = written(cost['seconds_per_step']), 100 * cost['share']
    lines.append(f'  Watching took at least {took} of each step ({share:.2g}%).')
    return lines


def facts(step: dict) -> list[str]:
    """Counts and sizes of a step, in words."""
    found = []
    if step['operators']:
        found.append(
            f'{step["operators"]["count"]:,} operator calls of {written(step["operators"]["mean_seconds"])}'
        )
    if step['flops']:
        found.append(
            f'{show(step["flops"] / step["seconds"] / 1e9, "GFLOP/s")} in matrix products, convolutions and '
            'attention'
        )
    if step['examples_per_second']:
        found.append(f'{step["examples_per_second"]:,.0f} examples a second')
    memory = step['memory']
    sizes = [
        f'{name} {size(memory[name])}'
        for name in ('parameters', 'optimizer', 'activations')
        if memory.get(name)
    ]
    if sizes:
        found.append(', '.join(sizes))
    if memory.get('peak'):
        found.append(f'peak {size(memory["peak"])}')
    return found


def size(number: float) -> str:
    """Bytes as text: ``12.3 MB``."""
    divisor, unit = next((divisor, unit) for least, divisor, unit in SIZES if number >= least)
    return show(number / divisor, unit)


def _test_of(finding: dict, report: dict) -> dict | None:
    """The what-if that took a finding's cause away."""
    return next((r for r in report['what_ifs'] if r['id'] == finding['test']), None)


def gain(finding: dict, report: dict) -> str:
    """What removing a finding's cause gains, in words: by its test, or else by Amdahl's bound."""
    test = _test_of(finding, report)
    if test is not None:
        return f'{said(test)}, tested'
    if finding['at_most'] < HARDLY:
        return 'costs hardly any time here'
    return f'at most {factor(finding["at_most"])} faster without it'


def by_weight(report: dict) -> tuple[list[dict], list[dict]]:
    """The findings that may cost time here, and those that were seen and hardly do."""
    waits, seen = [], []
    for finding in report['findings']:
        test = _test_of(finding, report)
        if test is not None:
            matters = test['predicted'] or test['verdict'] not in ('no gain', 'slower')
        else:
            matters = finding['at_most'] >= HARDLY
        (waits if matters else seen).append(finding)
    return waits, seen


def _findings(findings: list[dict], report: dict, first: int = 1) -> list[str]:
    lines = []
    for number, finding in enumerate(findings, first):
        where = f' [{finding["line"]}]' if finding['line'] else ''
        title = f'{number:3d}. {finding["title"]}{where}: {gain(finding, report)}'
        lines += textwrap.wrap(title, WIDTH, subsequent_indent='     ')
        lines += textwrap.wrap(finding['evidence'], WIDTH, initial_indent='     ', subsequent_indent='     ')
        if finding['page']:
            lines.append(f'     The book explains it: {finding["page"]}')
    return lines


def _hot_spots(spots: list[dict]) -> list[str]:
    places = max(len(spot['line']) for spot in spots)
    lines = []
    for spot in spots:
        line = f'  {100 * spot["share"]:3.0f}%  {spot["line"]:{places}s}  {spot["text"]}'
        lines.append(line if len(line) <= WIDTH else line[: WIDTH - 1] + '…')
    return lines


def factor(x: float) -> str:
    return f'{x:.2f}×' if x < 9.995 else f'{x:.0f}×'


def said(result: dict) -> str:
    """``1.65× faster (1.58 to 1.71)``."""
    ratio, low, high = result['ratio'], result['low'], result['high']
    if result['predicted']:
        return (
            f'{factor(ratio)} faster, predicted' if ratio >= 1 else f'{factor(1 / ratio)} slower, predicted'
        )
    if low is None or high is None:
        return 'undecided: too few steps'
    if result['verdict'] == 'slower':
        return f'{factor(1 / ratio)} slower ({1 / high:.2f} to {1 / low:.2f})'
    if result['verdict'] == 'faster':
        return f'{factor(ratio)} faster ({low:.2f} to {high:.2f})'
    return f'{result["verdict"]} ({low:.2f} to {high:.2f})'


def _what_ifs(report: dict) -> list[str]:
    results = sorted(report['what_ifs'], key=lambda r: -r['ratio'])
    times = {r['id']: f'{written(r["before"])} → {written(r["after"])}' for r in results}
    title_width = max((len(r['title']) for r in results), default=0)
    times_width = max(map(len, times.values()), default=0)
    lines = []
    for result in results:
        words = [said(result)]
        if result['losses'] in LOSSES:
            words.append(LOSSES[result['losses']])
        if result['note']:
            words.append(result['note'])
        line = f'  {result["title"]:{title_width}s}  {times[result["id"]]:{times_width}s}  {"; ".join(words)}'
        lines += textwrap.wrap(line, WIDTH, subsequent_indent=' ' * (title_width + 4))
    return lines


def note_lines(report: dict) -> list[str]:
    """What else the reader has to know, one sentence or two each."""
    ended = 'The script was ended when the measuring was over, before its own end.'
    return [*report['notes'], *([ended] if report['ended'] == 'steps' else [])]


def _notes(report: dict) -> list[str]:
    lines = []
    for note in note_lines(report):
        lines += ['', *textwrap.wrap(note, WIDTH)]
    return lines


def write(path: str, content: str) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: there is no room, or no such folder; nothing is left behind.
    """
    beside = f'{path}.{os.getpid()}.part'
    try:
        with open(beside, 'w', encoding='utf-8') as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise
