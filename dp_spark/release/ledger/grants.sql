-- What a runner may do with the ledger: reserve releases, open waves, and bring them on. Not: open accounts,
-- change limits, decide on releases or waves, or forget a charge. Run it as the owner of the ledger's tables, in
-- their schema.
BEGIN;
REVOKE ALL ON account_changes, accounts, alembic_version, budget_changes, decisions, divisions, events,
  ledger_meta, links, noise_tables, partitions, publications, release_keys, release_tables, releases, schedules,
  sources, standings, survey_accounts, survey_changes, wave_batches, wave_decisions, wave_events, wave_keys,
  wave_publications, waves, windows
  FROM PUBLIC, {runner};
GRANT SELECT ON account_changes, accounts, alembic_version, budget_changes, decisions, divisions, events,
  ledger_meta, links, noise_tables, partitions, publications, release_keys, release_tables, releases, schedules,
  sources, standings, survey_accounts, survey_changes, wave_batches, wave_decisions, wave_events, wave_keys,
  wave_publications, waves, windows
  TO {runner};
GRANT INSERT ON events, links, noise_tables, partitions, publications, release_keys, release_tables, releases,
  standings, wave_batches, wave_events, wave_keys, wave_publications, waves TO {runner};
-- A charge, its account and its plan are written once.
GRANT UPDATE (state, fence, artefact_digest, artefact_path, artefact_fence, statement_digest, statement_path)
  ON releases TO {runner};
-- Sums that are lowered behind the ledger's back are found by `dp-spark ledger verify`, from what each release took.
GRANT UPDATE (standing) ON standings TO {runner};
GRANT UPDATE (wrapped) ON release_keys TO {runner};  -- to destroy it
GRANT UPDATE (state, fence, closed_at, counts_digest, counts_path, estimates_digest, estimates_path,
  statement_digest, statement_path) ON waves TO {runner};
GRANT UPDATE (wrapped) ON wave_keys TO {runner};  -- to destroy it
GRANT UPDATE (master_key_check) ON ledger_meta TO {runner};  -- also to lock that row
COMMIT;
