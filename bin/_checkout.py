"""Runs a tool from a checkout: maps the top folders to `dcaplda.*` and calls its main."""

import importlib
import sys
import types
from pathlib import Path

root = Path(__file__).resolve().parent.parent
package = types.ModuleType("dcaplda")
package.__path__ = [str(root)]
sys.modules["dcaplda"] = package
# Python put bin/ first on the path; its file names must not hide other modules.
sys.path.pop(0)

name = sys.argv[1]
sys.argv = [name, *sys.argv[2:]]
sys.exit(importlib.import_module("dcaplda.bin." + name.replace("-", "_")).main())
