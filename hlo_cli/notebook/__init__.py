"""Values as notebooks, rich, and data frames show them: `bundles.bundle`, `bundles.renderable`, `records.records`.

Each is shown as the command that explains it would: `values.report_of`.
"""
