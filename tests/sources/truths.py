"""What tests of several sources read."""

from _pages import parts
from results import load


class Errors:
    """The numbers of a result file, by their names (panel, method, kind) in any order."""

    def __init__(self, name: str) -> None:
        self.values = {parts(key): value for key, value in load(name)["values"].items()}

    def __call__(self, *names: str) -> float:
        return float(self.values[parts(*names)])
