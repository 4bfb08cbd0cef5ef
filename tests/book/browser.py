"""A real browser for tests of the pages' scripts: Chromium, driven by its DevTools protocol."""

import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

NAMES = 'chromium', 'chromium-browser', 'google-chrome'
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
KEYS = {'Tab': (9, ''), 'Enter': (13, '\r'), 'Escape': (27, ''), 'Space': (32, ' '), 'ArrowLeft': (37, ''),
        'ArrowUp': (38, ''), 'ArrowRight': (39, ''), 'ArrowDown': (40, '')}


class Browser:
    """One page of a browser of its own, whose profile lies in ``folder``."""

    def __init__(self, folder: Path, *options: str):
        websocket = pytest.importorskip('websocket')
        if not CHROMIUM:
            pytest.skip('needs Chromium')
        self.process = subprocess.Popen(
            [CHROMIUM, '--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-port=0',
             f'--user-data-dir={folder}', *options, 'about:blank'],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = self._wait(lambda: (folder / 'DevToolsActivePort').read_text().split()[0])
            page = self._wait(lambda: next(
                t for t in json.load(urllib.request.urlopen(f'http://127.0.0.1:{port}/json', timeout=5))
                if t['type'] == 'page'))
            self.socket = websocket.create_connection(page['webSocketDebuggerUrl'], timeout=30,
                                                      suppress_origin=True)
        except BaseException:
            self.close()
            raise
        self.numbers = itertools.count(1)
        self.errors: list[str] = []     # what scripts of the pages raised, and errors of the console
        self.send('Runtime.enable')
        self.send('Log.enable')
        self.send('Page.enable')

    @staticmethod
    def _wait(look: Any, seconds: float = 30) -> Any:
        end = time.monotonic() + seconds
        while True:
            try:
                if (found := look()) is not None:
                    return found
            except Exception:
                if time.monotonic() > end:
                    raise
            assert time.monotonic() < end, 'the browser does not answer'
            time.sleep(0.05)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def send(self, method: str, **params: Any) -> dict:
        """One command and its result; errors of scripts are noted on the way, questions confirmed."""
        number = next(self.numbers)
        self.socket.send(json.dumps({'id': number, 'method': method, 'params': params}))
        while True:
            said = json.loads(self.socket.recv())
            if said.get('method') == 'Runtime.exceptionThrown':
                self.errors.append(str(said['params']['exceptionDetails']))
            elif said.get('method') == 'Runtime.consoleAPICalled' and said['params']['type'] == 'error':
                self.errors.append(str(said['params']['args']))
            elif said.get('method') == 'Log.entryAdded' and said['params']['entry']['level'] == 'error':
                self.errors.append(str(said['params']['entry']))
            elif said.get('method') == 'Page.javascriptDialogOpening':
                self.socket.send(json.dumps({
                    'id': next(self.numbers), 'method': 'Page.handleJavaScriptDialog',
                    'params': {'accept': True}}))
            if said.get('id') == number:
                assert 'error' not in said, (method, said)
                return said['result']

    def run(self, code: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        found = self.send('Runtime.evaluate', expression=code, returnByValue=True, awaitPromise=True)
        assert 'exceptionDetails' not in found, found['exceptionDetails']
        return found['result'].get('value')

    def open(self, place: Path | str, hash: str = '') -> None:
        """Open a file, or an address, and wait until its scripts have run."""
        self.send('Page.navigate', url='about:blank')
        self._wait(lambda: self.run('location.href === "about:blank"') or None)
        self.send('Page.navigate', url=(place if isinstance(place, str) else place.as_uri()) + hash)
        loaded = 'location.href !== "about:blank" && document.readyState === "complete"'
        self._wait(lambda: self.run(loaded) or None)

    def resize(self, width: int, height: int = 800) -> None:
        """Give the page a window of so many pixels."""
        self.send('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1,
                  mobile=False)

    def press(self, key: str, times: int = 1) -> None:
        """Press a key, as a keyboard does."""
        code, text = KEYS[key]
        for kind in ('keyDown', 'keyUp') * times:
            more = {'text': text} if text and kind == 'keyDown' else {}
            self.send('Input.dispatchKeyEvent', type=kind, key=text if key == 'Space' else key, code=key,
                      windowsVirtualKeyCode=code, **more)

    def type(self, text: str) -> None:
        """Put text where the focus is."""
        self.send('Input.insertText', text=text)
