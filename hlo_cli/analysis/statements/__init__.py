"""What happened between two modules, by cause: `statements.statements_of` folds the differences of a `ModuleDiff`
into an ordered list of statements, each with the rows that it explains; what none explains is left over.
"""
