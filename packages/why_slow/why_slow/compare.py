"""``--ci``: whether the step of one report is slower than that of another."""

import json
import sys


def compare(old: str, new: str) -> int:
    """Print both; 1 if the new step is slower beyond both intervals, 2 if a report cannot be read."""
    reports = []
    for path in (old, new):
        try:
            with open(path, encoding='utf-8') as file:
                report = json.load(file)
            step = report['step']
            reports.append((float(step['seconds']), float(step['low']), float(step['high'])))
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(
                f'why_slow: {path} is no report of a step: {type(error).__name__}: {error}', file=sys.stderr
            )
            return 2
    from tested_results.numbers import seconds

    (before, low1, high1), (after, low2, high2) = reports
    for name, (value, low, high) in zip((old, new), reports, strict=True):
        print(f'{name}: a step takes {seconds(value)} ({seconds(low)} to {seconds(high)})')
    if low2 > high1:
        print(f'Slower: {after / before:.2f}× the time, beyond both intervals.')
        return 1
    if high2 < low1:
        print(f'Faster: {before / after:.2f}×, beyond both intervals.')
    else:
        print('No difference beyond the intervals.')
    return 0
