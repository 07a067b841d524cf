"""The ledger's schema as a line of migrations, run by `dp-spark ledger init` only."""
