"""Write the shipped files of the journal's tables again: python -m proctor.store.schema"""

from pathlib import Path

from proctor.store.schema.generate import shipped_files

FOLDER = Path(__file__).parent

for name, content in shipped_files().items():
    (FOLDER / name).write_text(content, encoding="utf-8")
