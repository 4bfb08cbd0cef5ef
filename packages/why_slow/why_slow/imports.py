"""Do something when the script imports a module, right after the import, and not before."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with each of the named modules once it has been imported."""

    def __init__(self, then: dict[str, Callable[[ModuleType], None]]) -> None:
        self.then = dict(then)

    def install(self) -> None:
        """Watch from now on; modules that have been imported before are served at once."""
        for name in list(self.then):
            if name in sys.modules:
                self.then.pop(name)(sys.modules[name])
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Watch no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name, path=None, target=None):
        """The usual spec, whose loader calls us after the module has been executed."""
        if name not in self.then:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None or not hasattr(spec.loader, 'exec_module'):
            return spec
        loader = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # the loader is again as it was
            execute(module)
            # Not before: who only asks for a spec, or fails and tries again, has not imported it yet.
            then = self.then.pop(name, None)
            if then is not None:
                then(module)

        loader.exec_module = exec_module
        return spec
