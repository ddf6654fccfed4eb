"""Save and load fitted pipelines of scikit-learn and mercer: arrays and JSON, no pickle.

A file is an npz archive of plain arrays with a JSON header (file format 1, `mercer._files`). The header has a table of
nodes, one per object. `_writer` makes it, `_reader` reads it, and `_trusted` lists the types that it may contain.
"""

from mercer.saving._file import FileInfo, file_info, load, save

__all__ = ["FileInfo", "file_info", "load", "save"]
