"""Tables, defined once with SQLAlchemy Core, and shipped as SQL for each database.

`python -m proctor.store.schema` writes the shipped files again after a change; a test compares.
Only that needs SQLAlchemy: a journal is opened with the files and the database's driver alone.
"""
